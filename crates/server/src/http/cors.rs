//! Cross-origin requests (CORS) as responses. Pure.

use hyper::StatusCode;
use hyper::header::HeaderMap;

pub(crate) use keystead_http_api::cors::is_page;

use super::reply::{Body, Reply};

/// The response to a preflight request.
pub(crate) fn preflight(headers: &HeaderMap, allow: &str) -> Reply {
    let mut reply = Reply::new(Body::from(Vec::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    keystead_http_api::cors::preflight(headers, allow, reply.headers_mut());
    reply
}

/// Lets the page read the response.
pub(crate) fn finish(reply: &mut Reply) {
    keystead_http_api::cors::finish(reply.headers_mut());
}
