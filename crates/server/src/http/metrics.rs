//! `GET /metrics`: Prometheus's text. Touches nothing.

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};

use super::context::HttpContext;
use super::openapi::SERVER;
use super::openapi::part::{self, Described};
use super::reply::{self, Reply};
use super::request::HttpRequest;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(context: &HttpContext, _: &HttpRequest) -> Reply {
    reply::text(StatusCode::OK, HeaderValue::from_static(OPENMETRICS), context.app.metrics_text())
}

pub(super) fn described(_: &Method) -> Vec<Described> {
    let text = part::answer("OpenMetrics.").content(OPENMETRICS, part::content(part::string()));
    Described::context(
        part::operation(SERVER, "metrics", "What is counted and measured").response("200", text),
    )
}
