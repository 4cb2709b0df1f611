//! How a step reaches its key: on the shard of the database, in a turn of it. Touches that shard.

use keystead_commands::once::{Kept, Once};
use keystead_core::{Applies, Key, Result as Applied};
use keystead_model::keyspace::Held;

use super::super::here::Here;
use super::super::once;
use super::super::refused::Refused;
use super::super::request::Asked;
use crate::policies::named::{Named, Place};

/// Why a request with a name is refused whose keys are on several shards: its answer is kept on one.
pub(super) const NAMED_APART: &str =
    "with an Idempotency-Key all keys must live together: give them the same {tag}";

/// What came of a change.
pub(super) enum Ran<T> {
    /// This.
    New(T),
    /// The request was sent before, and this is what it was told.
    Again(Kept),
}

/// Looks at the steps of the shard that `key` lives on.
pub(super) async fn look<T: Send + 'static>(
    here: &Here,
    key: &Key,
    run: impl FnOnce(&mut dyn Applies) -> Applied<T> + Send + 'static,
) -> Applied<T> {
    let shard = here.app.engine.shard_of(key.as_bytes());
    here.run_at(shard, false, move |keyspace, now| (run(&mut Held { keyspace, now }), true)).await?
}

/// Changes the steps of the shard that `key` lives on, all or nothing, and gives the result when that is durable. What `told`
/// makes of the result is kept for a request that has a name.
pub(super) async fn change<T: Send + 'static>(
    here: &Here,
    once: Option<Once>,
    key: &Key,
    run: impl FnOnce(&mut dyn Applies) -> Applied<T> + Send + 'static,
    told: impl FnOnce(&T) -> Applied<Kept> + Send + 'static,
) -> Result<Ran<T>, Refused> {
    let shard = here.app.engine.shard_of(key.as_bytes());
    if once.is_none() {
        let ran = here.run_at(shard, true, move |keyspace, now| {
            let result = run(&mut Held { keyspace, now });
            let keep = result.is_ok();
            (result, keep)
        });
        return Ok(Ran::New(ran.await??));
    }
    let ran = once::run_at(here, shard, once, move |keyspace, now| {
        let result = run(&mut Held { keyspace, now })?;
        Ok::<_, Refused>((told(&result)?, Some(result)))
    });
    let (kept, result) = ran.await?;
    Ok(result.map_or_else(|| Ran::Again(kept), Ran::New))
}

/// The name of a request that asks these policies, if it has one.
pub(super) fn once_of<'a>(
    asked: &Asked,
    policies: impl IntoIterator<Item = &'a Named>,
) -> Result<Option<Once>, Refused> {
    let once = once::of(asked, &[])?;
    if once.is_some() && policies.into_iter().any(|named| named.place != Place::Engine) {
        return Err(Refused::bad(
            "an Idempotency-Key needs policies on the store 'engine', where the answer is kept in the same step",
        ));
    }
    Ok(once)
}
