//! Where a request runs: on the shard of its keys. Touches nothing.

use keystead_commands::errors::{self, Fail};
use keystead_commands::keys_of::Keys;
use keystead_commands::session::Queued;
use keystead_commands::spec::{Run, Spread, flag};
use keystead_commands::{Args, Spec};
use keystead_core::ShardId;
use keystead_engine::Engine;

/// Where a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// On the shard of the connection's loop, where its keys are.
    Local,
    /// On another shard, where its keys are.
    Shard(ShardId),
    /// On any shard: it has no keys.
    Any,
    /// On several shards.
    Spread(Spread),
}

/// Where a request runs, by its keys.
pub(crate) fn target(
    engine: &Engine,
    local: ShardId,
    spec: &Spec,
    args: Args<'_>,
) -> std::result::Result<Target, Fail> {
    let on = |shard| if shard == local { Target::Local } else { Target::Shard(shard) };
    // Most commands have one key, and need no list of them.
    if let Keys::At(index) = spec.keys {
        return Ok(on(engine.shard_of(args.at(index))));
    }
    // A request whose keys cannot be found is rejected by the command itself, on any shard.
    let keys = spec.keys(args).unwrap_or_default();
    let Some(first) = keys.first() else {
        return Ok(match spec.spread {
            Spread::Local => Target::Any,
            spread => Target::Spread(spread),
        });
    };
    let target = engine.shard_of(args.at(*first));
    if keys.iter().any(|key| engine.shard_of(args.at(*key)) != target) {
        return if spec.flags.has(flag::SPLIT) {
            Ok(Target::Spread(Spread::Keys))
        } else {
            Err(errors::CROSS_SLOT)
        };
    }
    Ok(on(target))
}

/// The one shard of a transaction's keys; `None` when it has none.
pub(crate) fn shard_of_queue(
    engine: &Engine,
    queue: &[Queued],
    watched: Option<ShardId>,
) -> std::result::Result<Option<ShardId>, Fail> {
    let mut target = watched;
    for queued in queue {
        if matches!(queued.spec.run, Run::Data(_)) && queued.spec.spread != Spread::Local {
            return Err(errors::CROSS_SLOT);
        }
        let args = queued.command.args();
        for key in queued.spec.keys(args).unwrap_or_default() {
            let at = engine.shard_of(args.at(key));
            if *target.get_or_insert(at) != at {
                return Err(errors::CROSS_SLOT);
            }
        }
    }
    Ok(target)
}
