//! Versioned documents on a store of records: `/kv/{key}?store=d1`. Touches that store.
//!
//! What it cannot do is what a server with `--documents-store` cannot do: a store only applies steps to single keys.

use std::sync::Arc;

use http::Method;
use http::header::ACCEPT;
use keystead_commands::ctx::Rights;
use keystead_core::{Code, Error, Key, StoreExt};
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency;
use keystead_http_api::kv::params::{self, Guard, name};
use keystead_http_api::kv::response::response_of;
use keystead_http_api::kv::steps::{ChangeDocument, PREFIX, ReadDocument};
use keystead_http_api::kv::write::{self, Write};
use keystead_http_api::parameters::Parameters;

use super::steps::RecordStore;
use crate::exchange::Reply;
use crate::kv::{self, ApiResult};
use crate::object::Arrived;

pub(super) async fn respond(store: &RecordStore, request: &Arrived<'_>) -> ApiResult {
    let Some(key) = request.head.uri.path().strip_prefix("/kv/") else {
        return Err(missing(store, "listing documents, or changing several in one step"));
    };
    let key = params::key(key)?;
    let write = match request.head.method {
        Method::GET | Method::HEAD => {
            let reading = params::Reading::of(&request.head.headers)?;
            let parameters = Parameters::of(request.head, &[name::WAIT, name::SINCE_VERSION])?;
            if parameters.bytes(name::WAIT).is_some() || parameters.bytes(name::SINCE_VERSION).is_some() {
                return Err(missing(store, "waiting for a change"));
            }
            let accept = request.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
            if accept.is_some_and(|accept| accept.contains("text/event-stream")) {
                return Err(missing(store, "streaming the changes of a document"));
            }
            let found = store.apply(&Key::join(PREFIX, &key)?, &ReadDocument).await?;
            return kv::reply_of(&key, found, &reading);
        }
        _ if request.rights == Rights::ReadOnly => return Err(ApiError::ReadOnly),
        Method::PUT => write::put(request.head, request.body)?,
        Method::PATCH => write::patch(request.head, request.body)?,
        Method::DELETE => write::delete(request.head)?,
        _ => return Err(ApiError::bad("this path takes GET, PUT, PATCH, DELETE, HEAD")),
    };
    let Write { change, guard: Guard { condition, status }, expiry, parameters } = write;
    if parameters.bytes(name::FLUSHED).is_some() {
        return Err(missing(store, "waiting for sinks"));
    }
    without_idempotency(store, request)?;
    let step = ChangeDocument { change: Arc::new(change), condition, expiry };
    let changed = store.apply(&Key::join(PREFIX, &key)?, &step).await?;
    Ok(Reply::stored(response_of(&key, changed, status)))
}

/// Rejects a request whose response would have to be stored with its change.
pub(super) fn without_idempotency(store: &RecordStore, request: &Arrived<'_>) -> Result<(), ApiError> {
    match idempotency::of(request.head, request.body, &[])? {
        Some(_) => Err(missing(store, "storing the response for an Idempotency-Key")),
        None => Ok(()),
    }
}

/// The error for what a store of records does not do.
pub(super) fn missing(store: &RecordStore, what: &str) -> ApiError {
    use keystead_core::Store;
    let words = format!("the store of this request ({}) cannot do this: {what}", store.scheme());
    ApiError::Broken(Error::new(Code::Unsupported, words))
}
