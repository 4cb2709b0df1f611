//! `GET /metrics`: metrics in the OpenMetrics text format. Touches nothing.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use utoipa::openapi::path::OperationBuilder;

use super::context::HttpContext;
use super::openapi::SERVER;
use super::openapi::part;
use super::reply::{self, Reply};
use super::request::HttpRequest;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(context: &HttpContext, _: &HttpRequest) -> Reply {
    reply::text(StatusCode::OK, HeaderValue::from_static(OPENMETRICS), context.app.metrics_text())
}

pub(super) fn describe() -> OperationBuilder {
    let text = part::response("OpenMetrics.").content(OPENMETRICS, part::content(part::string()));
    part::operation(SERVER, "metrics", "Metrics of the server").response("200", text)
}
