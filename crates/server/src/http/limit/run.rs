//! How a request reaches the state of a policy: on the shard of its key, or in another store. Touches both.
//!
//! [`apply`] is the one place that decides between the backends of a policy.

use std::sync::Arc;

use keystead_commands::idempotency::{IdempotencyKey, StoredResponse};
use keystead_core::{Applies, Key, Millis, Result as Applied, Store};
use keystead_engine::Completion;
use keystead_limit::{Decision, Limiter};
use keystead_model::keyspace::Held;

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::super::idempotency;
use super::super::request::HttpRequest;
use crate::policies::active::{ActivePolicy, Backend};

/// The error of a request with an `Idempotency-Key` whose keys are on several shards: its response is stored on one.
pub(super) const KEYS_ON_SEVERAL_SHARDS: &str =
    "with an Idempotency-Key all keys must be on one shard: give them the same {tag}";

/// The result of a change.
pub(super) enum Ran<T> {
    /// It was applied, with this result.
    New(T),
    /// The request was sent before, and this was its response.
    Stored(StoredResponse),
}

/// What a request does to the state of a policy. It owns everything, so it can be sent to the shard of its key.
pub(super) trait PolicyStep: Sized + Send + 'static {
    /// Its result.
    type Output: Send + 'static;
    /// Whether it changes anything.
    const WRITES: bool;

    /// The key whose shard it runs on.
    fn key(&self) -> &Key;

    /// A second key, which must be on the same shard.
    fn second_key(&self) -> Option<&Key> {
        None
    }

    /// Runs it on the shard of its key.
    fn run(self, state: &mut dyn Applies) -> Applied<Self::Output>;

    /// Runs it in the store of the limiter.
    async fn run_on(self, limiter: &Limiter<Arc<dyn Store>>) -> Applied<Self::Output>;

    /// Its result when the store fails and the policy fails open; nothing: it fails with the store.
    fn failed_open(decision: Decision, now: Millis) -> Option<Self::Output>;
}

/// Applies a step where the policy has its state, all or nothing, and returns its result once that is durable. `response` makes
/// the response that is stored for a request with an idempotency key.
pub(super) async fn apply<S: PolicyStep>(
    context: &HttpContext,
    active: &ActivePolicy,
    idempotency_key: Option<IdempotencyKey>,
    step: S,
    response: impl FnOnce(&S::Output) -> Applied<StoredResponse> + Send + 'static,
) -> Result<Ran<S::Output>, ApiError> {
    let ran = match active.backend {
        Backend::Engine => on_shard(context, idempotency_key, step, response).await,
        Backend::Sync | Backend::Async => {
            step.run_on(&active.limiter).await.map(Ran::New).map_err(ApiError::Broken)
        }
    };
    match ran {
        Err(ApiError::Broken(error)) => {
            let open = active.limiter.open_for(&error);
            let open = open.and_then(|(decision, now)| S::failed_open(decision, now));
            open.map(Ran::New).ok_or(ApiError::Broken(error))
        }
        ran => ran,
    }
}

async fn on_shard<S: PolicyStep>(
    context: &HttpContext,
    idempotency_key: Option<IdempotencyKey>,
    step: S,
    response: impl FnOnce(&S::Output) -> Applied<StoredResponse> + Send + 'static,
) -> Result<Ran<S::Output>, ApiError> {
    let shard_of = |key: &Key| context.app.engine.shard_of(key.as_bytes());
    let key = step.key().clone();
    context.require_served(std::iter::once(&key).chain(step.second_key()).map(Key::as_bytes))?;
    // Only keys with braces that are no tag can be on different shards.
    if step.second_key().is_some_and(|second| shard_of(second) != shard_of(&key)) {
        return Err(ApiError::bad(
            "on several shards a reservation needs a key without braces, or with a {tag}",
        ));
    }
    match S::WRITES {
        true => change(context, idempotency_key, &key, |state| step.run(state), response).await,
        false => Ok(Ran::New(read(context, &key, |state| step.run(state)).await?)),
    }
}

/// Reads on the shard of `key`.
pub(super) async fn read<T: Send + 'static>(
    context: &HttpContext,
    key: &Key,
    run: impl FnOnce(&mut dyn Applies) -> Applied<T> + Send + 'static,
) -> Applied<T> {
    let shard = context.app.engine.shard_of(key.as_bytes());
    context
        .run_at(shard, false, move |keyspace, now| (run(&mut Held { keyspace, now }), Completion::Commit))
        .await?
}

/// Changes keys on the shard of `key`, all or nothing, and returns the result once that is durable. `response` makes the
/// response that is stored for a request with an idempotency key.
pub(super) async fn change<T: Send + 'static>(
    context: &HttpContext,
    idempotency_key: Option<IdempotencyKey>,
    key: &Key,
    run: impl FnOnce(&mut dyn Applies) -> Applied<T> + Send + 'static,
    response: impl FnOnce(&T) -> Applied<StoredResponse> + Send + 'static,
) -> Result<Ran<T>, ApiError> {
    let shard = context.app.engine.shard_of(key.as_bytes());
    if idempotency_key.is_none() {
        let ran = context.run_at(shard, true, move |keyspace, now| {
            let result = run(&mut Held { keyspace, now });
            let completion = Completion::commit_if(result.is_ok());
            (result, completion)
        });
        return Ok(Ran::New(ran.await??));
    }
    let idempotency_key = idempotency_key.map(|one| context.with_slot(one, key.as_bytes()));
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keyspace, now| {
        let result = run(&mut Held { keyspace, now })?;
        Ok::<_, ApiError>((response(&result)?, Some(result)))
    });
    let (stored, result) = ran.await?;
    Ok(result.map_or_else(|| Ran::Stored(stored), Ran::New))
}

/// The idempotency key of a request to these policies, if it has one.
pub(super) fn idempotency_key_of<'a>(
    request: &HttpRequest,
    policies: impl IntoIterator<Item = &'a ActivePolicy>,
) -> Result<Option<IdempotencyKey>, ApiError> {
    let idempotency_key = idempotency::of(request, &[])?;
    if idempotency_key.is_some() && policies.into_iter().any(|active| !active.backend.is_engine()) {
        return Err(ApiError::bad(
            "an Idempotency-Key needs policies on the store 'engine', where the response is stored in the same step",
        ));
    }
    Ok(idempotency_key)
}
