//! `PUT`, `PATCH` and `DELETE /kv/{key}?ifVersion=N&ttl=30s`. Touches the shard of the key, or the store of the
//! documents.

use std::sync::Arc;

use keystead_commands::documents;
use keystead_http_api::kv::response::response_of;
use keystead_http_api::kv::steps::ChangeDocument;
use keystead_http_api::kv::write::{self as wanted, Write};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::idempotency;
use super::super::reply;
use super::super::request::HttpRequest;
use super::super::sinks;
use super::params::{self, Guard, name};
use super::shared;

pub(super) use keystead_http_api::kv::write::{DELETING, MERGE, OPERATIONS, SHALLOW, WRITING};

pub(in super::super) async fn put(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    write(context, request, wanted::put(&request.head, &request.body)?).await
}

pub(in super::super) async fn patch(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    write(context, request, wanted::patch(&request.head, &request.body)?).await
}

pub(in super::super) async fn delete(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    write(context, request, wanted::delete(&request.head)?).await
}

async fn write(
    context: &HttpContext,
    request: &HttpRequest,
    Write { change, guard, expiry, parameters }: Write,
) -> ApiResult {
    let flushed = sinks::wait_of(&parameters, name::FLUSHED)?;
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
    Ok(sinks::with_receipt(context, &[&name], flushed, reply::stored(stored)).await)
}
