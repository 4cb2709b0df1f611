//! The token of a request. Pure.

use http::header::HeaderValue;

/// The token in an `Authorization` header.
#[must_use]
pub fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, offered) = value.as_bytes().split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(offered)
}
