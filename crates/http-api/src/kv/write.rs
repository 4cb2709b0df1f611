//! `PUT`, `PATCH` and `DELETE /kv/{key}?ifVersion=N&ttl=30s`: the change that a request asks for. Pure.

use http::header::{CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use keystead_commands::documents::DocumentChange;
use keystead_commands::documents::patch::{Form, Patch};
use keystead_commands::json::document;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use super::params::{self, Expiry, Guard, name};
use crate::error::ApiError;
use crate::parameters::Parameters;

/// The parameters of `PUT` and `PATCH`.
pub const WRITING: &[&str] = &[name::IF_VERSION, name::TTL, name::EXPIRES_AT, name::FLUSHED];
/// The parameters of `DELETE`.
pub const DELETING: &[&str] = &[name::IF_VERSION, name::FLUSHED];

/// The media types of patches.
pub const SHALLOW: &str = "application/json";
/// As RFC 7396 has them.
pub const MERGE: &str = "application/merge-patch+json";
/// As RFC 6902 has them.
pub const OPERATIONS: &str = "application/json-patch+json";

/// A change of one document.
pub struct Write {
    /// What changes.
    pub change: DocumentChange,
    /// The condition.
    pub guard: Guard,
    /// The expiry.
    pub expiry: Expiry,
    /// The parameters, of which these are made.
    pub parameters: Parameters,
}

/// The change of a `PUT`.
///
/// # Errors
/// When a part of the request is not valid, also below.
pub fn put(head: &Parts, body: &[u8]) -> Result<Write, ApiError> {
    let parameters = Parameters::of(head, WRITING)?;
    let text = document::normal(body).map_err(|flaw| ApiError::flaw("the body", &flaw))?;
    // A full replacement: without parameters the expiry is removed.
    let expiry = params::expiry(&parameters, Expire::At(Millis::NEVER))?;
    let guard = params::guard(&head.headers, &parameters)?;
    Ok(Write { change: DocumentChange::Put(Bytes::from(text.into_bytes())), guard, expiry, parameters })
}

/// The change of a `PATCH`.
///
/// # Errors
/// As [`put`].
pub fn patch(head: &Parts, body: &[u8]) -> Result<Write, ApiError> {
    let parameters = Parameters::of(head, WRITING)?;
    let form = form_of(&head.headers)?;
    let patch = Patch::read(form, body).map_err(|flaw| ApiError::flaw("the body", &flaw))?;
    let expiry = params::expiry(&parameters, Expire::Keep)?;
    let guard = params::guard(&head.headers, &parameters)?;
    Ok(Write { change: DocumentChange::Patch(patch), guard, expiry, parameters })
}

/// The change of a `DELETE`.
///
/// # Errors
/// As [`put`].
pub fn delete(head: &Parts) -> Result<Write, ApiError> {
    let parameters = Parameters::of(head, DELETING)?;
    let guard = params::guard(&head.headers, &parameters)?;
    Ok(Write { change: DocumentChange::Delete, guard, expiry: Expiry::As(Expire::Keep), parameters })
}

fn form_of(headers: &HeaderMap) -> Result<Form, ApiError> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(SHALLOW);
    match media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        // What curl sends for any body.
        SHALLOW | "application/x-www-form-urlencoded" => Ok(Form::Shallow),
        MERGE => Ok(Form::Merge),
        OPERATIONS => Ok(Form::Operations),
        other => Err(ApiError::Media(format!("a patch is {SHALLOW}, {MERGE} or {OPERATIONS}, not {other}"))),
    }
}
