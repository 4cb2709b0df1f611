//! `POST /kv:batch` with `{"operations":[{"op":"put","key":"a","value":1,"ifVersion":3}, ...]}`: up to
//! [`BATCH_OPERATIONS_MAX`](crate::bounds::BATCH_OPERATIONS_MAX) of them as one, all or nothing. Touches the one shard of their keys.

pub(in crate::http) use keystead_http_api::kv::batch::key;
use keystead_http_api::kv::batch::{read, run};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::idempotency;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::super::sinks;
use super::params::name::FLUSHED;
use super::{params, shared};
use crate::bounds::REST_RESPONSE_BYTES_MAX;

pub(in super::super) async fn batch(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    let flushed = sinks::wait_of(&Parameters::of(&request.head, &[FLUSHED])?, FLUSHED)?;
    let operations = read(&request.body)?;
    shared::require_database(context, "changing several documents in one step")?;
    let idempotency_key = params::idempotency_key(request)?;
    let engine = &context.app.engine;
    let Some(shard) = operations.first().map(|first| engine.shard_of(&first.key)) else {
        return Err(ApiError::bad("the batch has no operations"));
    };
    context.require_served(operations.iter().map(|operation| &operation.key[..]))?;
    if operations.iter().any(|operation| engine.shard_of(&operation.key) != shard) {
        return Err(ApiError::bad("the keys of a batch must be on one shard: give them the same {tag}"));
    }
    let names: Vec<_> = operations.iter().map(|operation| operation.key.clone()).collect();
    let idempotency_key =
        idempotency_key.zip(operations.first()).map(|(one, first)| context.with_slot(one, &first.key));
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keys, now| {
        let ran = run(&operations, keys, now, REST_RESPONSE_BYTES_MAX);
        if ran.is_err() {
            // The operations before the one that failed are undone; the stored response is kept.
            keys.rollback();
            keys.savepoint();
        }
        ran.or_else(ApiError::unless_broken).map(|stored| (stored, ()))
    });
    let (stored, ()) = ran.await?;
    let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    Ok(sinks::with_receipt(context, &names, flushed, reply::stored(stored)).await)
}
