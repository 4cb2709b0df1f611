//! The `Idempotency-Key` header: the key, the fingerprint of its request, and why a request fails because of it. Pure.

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use keystead_commands::bounds::IDEMPOTENCY_RESPONSE_BYTES_MAX;
use keystead_commands::idempotency::IdempotencyKey;

use crate::bounds::IDEMPOTENCY_KEY_BYTES_MAX;

/// The header.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a request fails because of its idempotency key. Each API has its own form for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencyError {
    /// The header is not a valid key.
    InvalidKey,
    /// Another request used the key.
    KeyReused,
    /// The response is too large to be stored; everything is undone.
    ResponseTooLarge,
}

impl IdempotencyError {
    /// The status of the response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            IdempotencyError::InvalidKey => StatusCode::BAD_REQUEST,
            IdempotencyError::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            IdempotencyError::ResponseTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// What is wrong.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            IdempotencyError::InvalidKey => {
                format!(
                    "a request has at most one Idempotency-Key, of 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes"
                )
            }
            IdempotencyError::KeyReused => "this Idempotency-Key was used for another request".to_owned(),
            IdempotencyError::ResponseTooLarge => format!(
                "the response is over {IDEMPOTENCY_RESPONSE_BYTES_MAX} bytes, too large to be stored for the Idempotency-Key: nothing was changed"
            ),
        }
    }
}

/// The request's idempotency key, with a fingerprint of the request: its method, its target without the token, its body, and the
/// headers `significant_headers`, which are those that matter to its API.
///
/// # Errors
/// When it is not valid.
pub fn of(
    head: &Parts,
    body: &[u8],
    significant_headers: &[&str],
) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    let headers = &head.headers;
    let Some(name) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let is_one = headers.get_all(&IDEMPOTENCY_KEY).iter().count() == 1;
    if !is_one || name.is_empty() || name.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(IdempotencyError::InvalidKey);
    }
    let query = head.uri.query().unwrap_or_default().split('&');
    let query: Vec<&str> = query.filter(|parameter| !parameter.starts_with("_token=")).collect();
    let query = query.join("&");
    let lines_of = |name: &&str| {
        let lines: Vec<&[u8]> = headers.get_all(*name).iter().map(HeaderValue::as_bytes).collect();
        lines.join(&b',')
    };
    let significant_headers: Vec<Vec<u8>> = significant_headers.iter().map(lines_of).collect();
    let path = head.uri.path().as_bytes();
    let mut parts = vec![head.method.as_str().as_bytes(), path, query.as_bytes(), body];
    parts.extend(significant_headers.iter().map(Vec::as_slice));
    Ok(Some(IdempotencyKey::new(name.as_bytes(), &parts)))
}
