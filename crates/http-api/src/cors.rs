//! Cross-origin requests (CORS): what browsers check before a page may read another site's responses. Pure.
//!
//! Cookies are never used, so a page has no rights except those of its token.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HeaderMap,
    HeaderValue, ORIGIN,
};

/// Whether a page sent the request.
#[must_use]
pub fn is_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

/// The headers of the response to a preflight request.
pub fn preflight(headers: &HeaderMap, allow: &str, out: &mut HeaderMap) {
    if let Ok(allow) = HeaderValue::from_str(allow) {
        out.insert(ACCESS_CONTROL_ALLOW_METHODS, allow);
    }
    let request = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    out.insert(ACCESS_CONTROL_ALLOW_HEADERS, request.unwrap_or(HeaderValue::from_static("*")));
    out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
}

/// Lets the page read the response.
pub fn finish(out: &mut HeaderMap) {
    out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    out.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("etag, keystead-cursor, keystead-epoch, keystead-owner, upstash-sync-token"),
    );
}
