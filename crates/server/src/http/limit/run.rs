//! How a step reaches its key: on the shard of the database, in a turn of it. Touches that shard.

use keystead_commands::idempotency::{IdempotencyKey, StoredResponse};
use keystead_core::{Applies, Key, Result as Applied};
use keystead_model::keyspace::Held;

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::super::idempotency;
use super::super::request::HttpRequest;
use crate::policies::active::{ActivePolicy, Backend};

/// Why a request with a name is refused whose keys are on several shards: its answer is kept on one.
pub(super) const NAMED_APART: &str =
    "with an Idempotency-Key all keys must live together: give them the same {tag}";

/// What came of a change.
pub(super) enum Ran<T> {
    /// This.
    New(T),
    /// The request was sent before, and this is what it was told.
    Again(StoredResponse),
}

/// Looks at the steps of the shard that `key` lives on.
pub(super) async fn look<T: Send + 'static>(
    context: &HttpContext,
    key: &Key,
    run: impl FnOnce(&mut dyn Applies) -> Applied<T> + Send + 'static,
) -> Applied<T> {
    let shard = context.app.engine.shard_of(key.as_bytes());
    context.run_at(shard, false, move |keyspace, now| (run(&mut Held { keyspace, now }), true)).await?
}

/// Changes the steps of the shard that `key` lives on, all or nothing, and gives the result when that is durable. What `told`
/// makes of the result is kept for a request that has a name.
pub(super) async fn change<T: Send + 'static>(
    context: &HttpContext,
    idempotency_key: Option<IdempotencyKey>,
    key: &Key,
    run: impl FnOnce(&mut dyn Applies) -> Applied<T> + Send + 'static,
    told: impl FnOnce(&T) -> Applied<StoredResponse> + Send + 'static,
) -> Result<Ran<T>, ApiError> {
    let shard = context.app.engine.shard_of(key.as_bytes());
    if idempotency_key.is_none() {
        let ran = context.run_at(shard, true, move |keyspace, now| {
            let result = run(&mut Held { keyspace, now });
            let keep = result.is_ok();
            (result, keep)
        });
        return Ok(Ran::New(ran.await??));
    }
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keyspace, now| {
        let result = run(&mut Held { keyspace, now })?;
        Ok::<_, ApiError>((told(&result)?, Some(result)))
    });
    let (kept, result) = ran.await?;
    Ok(result.map_or_else(|| Ran::Again(kept), Ran::New))
}

/// The name of a request that asks these policies, if it has one.
pub(super) fn idempotency_key_of<'a>(
    request: &HttpRequest,
    policies: impl IntoIterator<Item = &'a ActivePolicy>,
) -> Result<Option<IdempotencyKey>, ApiError> {
    let idempotency_key = idempotency::of(request, &[])?;
    if idempotency_key.is_some() && policies.into_iter().any(|active| active.backend != Backend::Engine) {
        return Err(ApiError::bad(
            "an Idempotency-Key needs policies on the store 'engine', where the answer is kept in the same step",
        ));
    }
    Ok(idempotency_key)
}
