//! The parts of a request of the documents API: the key in its path, its idempotency key. Pure.

use keystead_commands::idempotency::IdempotencyKey;
use keystead_model::Bytes;

pub(super) use keystead_http_api::kv::params::{Guard, Reading, name};

use super::super::error::ApiError;
use super::super::idempotency;
use super::super::request::HttpRequest;

/// The key in the path.
pub(super) fn key(request: &HttpRequest) -> Result<Bytes, ApiError> {
    keystead_http_api::kv::params::key(request.path_parameter("key"))
}

/// The idempotency key of a change, if it has one.
pub(super) fn idempotency_key(request: &HttpRequest) -> Result<Option<IdempotencyKey>, ApiError> {
    Ok(idempotency::of(request, &["content-type", "if-match", "if-none-match"])?)
}
