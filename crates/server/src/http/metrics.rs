//! `GET /metrics`: Prometheus's text. Touches nothing.

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::here::Here;
use super::reply::{self, Reply};
use super::request::Asked;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

pub(super) async fn metrics(here: &Here, _: &Asked) -> Reply {
    reply::text(StatusCode::OK, OPENMETRICS, here.app.metrics_text())
}
