//! How a step reaches its key: on the shard of the database, in a turn of it. Touches that shard.

use keystead_core::{Applies, Key, Result};
use keystead_model::keyspace::Held;

use super::super::here::Here;

/// Runs something on the steps of the shard that `key` lives on, all or nothing, and gives its result when that is durable.
pub(super) async fn on_engine<T: Send + 'static>(
    here: &Here,
    key: &Key,
    writes: bool,
    run: impl FnOnce(&mut dyn Applies) -> Result<T> + Send + 'static,
) -> Result<T> {
    let shard = here.app.engine.shard_of(key.as_bytes());
    let ran = here.run_at(shard, writes, move |keyspace, now| {
        let result = run(&mut Held { keyspace, now });
        let keep = result.is_ok();
        (result, keep)
    });
    ran.await?
}
