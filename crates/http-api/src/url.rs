//! Paths and queries of requests: their parts, and percent-encoding. Pure.

use std::borrow::Cow;

/// A `%` that is not followed by two hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEscape;

/// The parameters of a query, still encoded: names, and values where there is a `=`.
pub fn parameters(query: Option<&str>) -> impl Iterator<Item = (&str, Option<&str>)> {
    query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        match pair.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (pair, None),
        }
    })
}

/// Decodes percent-encoding. In a query `+` is a space, as in forms.
///
/// # Errors
/// Where a `%` is not followed by two hexadecimal digits.
pub fn decoded(text: &str, is_query: bool) -> Result<Cow<'_, [u8]>, BadEscape> {
    if !text.bytes().any(|byte| byte == b'%' || (is_query && byte == b'+')) {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => match (digit(bytes.next()), digit(bytes.next())) {
                (Some(high), Some(low)) => (high << 4 | low) as u8,
                _ => return Err(BadEscape),
            },
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    Ok(Cow::Owned(out))
}
