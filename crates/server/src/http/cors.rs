//! Cross-origin requests (CORS): what browsers check before a page may read another site's responses. Pure.
//!
//! Cookies are never used, so a page has no rights except those of its token.

use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HeaderMap,
    HeaderValue, ORIGIN,
};

use super::reply::{Body, Reply};

/// Whether a page sent the request.
pub(crate) fn is_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

/// The response to a preflight request.
pub(crate) fn preflight(headers: &HeaderMap, allow: &str) -> Reply {
    let mut reply = Reply::new(Body::from(Vec::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    let out = reply.headers_mut();
    if let Ok(allow) = HeaderValue::from_str(allow) {
        out.insert(ACCESS_CONTROL_ALLOW_METHODS, allow);
    }
    let request = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    out.insert(ACCESS_CONTROL_ALLOW_HEADERS, request.unwrap_or(HeaderValue::from_static("*")));
    out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    reply
}

/// Lets the page read the response.
pub(crate) fn finish(reply: &mut Reply) {
    let out = reply.headers_mut();
    out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    out.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("etag, keystead-cursor, keystead-epoch, keystead-owner, upstash-sync-token"),
    );
}
