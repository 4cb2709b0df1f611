//! `GET /metrics`: Prometheus's text. Touches nothing.

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Request, StatusCode};

use super::reply::{self, Reply};
use crate::app::App;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

pub(super) async fn metrics(app: &App, _: &Request<Bytes>) -> Reply {
    reply::text(StatusCode::OK, OPENMETRICS, app.metrics_text())
}
