//! `PUT`, `PATCH` and `DELETE /kv/{key}?ifVersion=N&ttl=30s`. Touches the shard of the key, or the store of the
//! documents.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use keystead_commands::documents::patch::{Form, Patch};
use keystead_commands::documents::{self, Changed, DocumentChange};
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::json::document;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::idempotency;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::super::sinks;
use super::params::{self, Expiry, Guard, name};
use super::response;
use super::shared::{self, ChangeDocument};

/// The parameters of `PUT` and `PATCH`.
pub(super) const WRITING: &[&str] = &[name::IF_VERSION, name::TTL, name::EXPIRES_AT, name::FLUSHED];
/// The parameters of `DELETE`.
pub(super) const DELETING: &[&str] = &[name::IF_VERSION, name::FLUSHED];

/// The media types of patches.
pub(super) const SHALLOW: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const OPERATIONS: &str = "application/json-patch+json";

pub(in super::super) async fn put(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    let parameters = Parameters::of(&request.head, WRITING)?;
    let text = document::normal(&request.body).map_err(|flaw| ApiError::flaw("the body", &flaw))?;
    // A full replacement: without parameters the expiry is removed.
    let expiry = params::expiry(&parameters, Expire::At(Millis::NEVER))?;
    let guard = params::guard(&request.head.headers, &parameters)?;
    let change = DocumentChange::Put(Bytes::from(text.into_bytes()));
    let flushed = sinks::wait_of(&parameters, name::FLUSHED)?;
    write(context, request, change, guard, expiry, flushed).await
}

pub(in super::super) async fn patch(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    let parameters = Parameters::of(&request.head, WRITING)?;
    let form = form_of(&request.head.headers)?;
    let patch = Patch::read(form, &request.body).map_err(|flaw| ApiError::flaw("the body", &flaw))?;
    let expiry = params::expiry(&parameters, Expire::Keep)?;
    let guard = params::guard(&request.head.headers, &parameters)?;
    let flushed = sinks::wait_of(&parameters, name::FLUSHED)?;
    write(context, request, DocumentChange::Patch(patch), guard, expiry, flushed).await
}

pub(in super::super) async fn delete(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    let parameters = Parameters::of(&request.head, DELETING)?;
    let guard = params::guard(&request.head.headers, &parameters)?;
    let flushed = sinks::wait_of(&parameters, name::FLUSHED)?;
    write(context, request, DocumentChange::Delete, guard, Expiry::As(Expire::Keep), flushed).await
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

async fn write(
    context: &HttpContext,
    request: &HttpRequest,
    change: DocumentChange,
    guard: Guard,
    expiry: Expiry,
    flushed: Option<Duration>,
) -> ApiResult {
    let key = params::key(request)?;
    let idempotency_key = params::idempotency_key(request)?;
    let Guard { condition, status } = guard;
    if let Some(documents) = context.app.documents.get() {
        if idempotency_key.is_some() {
            shared::require_database(context, "storing the response for an Idempotency-Key")?;
        }
        if flushed.is_some() {
            shared::require_database(context, "waiting for sinks")?;
        }
        let step = ChangeDocument { change: Arc::new(change), condition, expiry };
        let changed = documents.apply(&key, &step).await?;
        return Ok(reply::stored(response_of(&key, changed, status)));
    }
    context.require_served([&key[..]])?;
    let shard = context.app.engine.shard_of(&key);
    let idempotency_key = idempotency_key.map(|one| context.with_slot(one, &key));
    let name = key.clone();
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keys, now| {
        let change = |expire| documents::change(keys, &key, &change, &condition, expire, now);
        let changed = expiry.at(now).map(change).transpose();
        let response = changed.map(|changed| response_of(&key, changed, status));
        response.or_else(|miss| ApiError::from(miss).unless_broken()).map(|stored| (stored, ()))
    });
    let (stored, ()) = ran.await?;
    Ok(sinks::with_receipt(context, &name, flushed, reply::stored(stored)).await)
}

/// The response to a change; nothing: its expiry has passed already.
fn response_of(key: &[u8], changed: Option<Changed>, conflict: StatusCode) -> StoredResponse {
    match changed {
        Some(changed) => response::changed(key, changed, conflict),
        None => ApiError::bad("expiresAt has passed already").stored(),
    }
}
