//! Where a request runs: the shard of its keys. It touches nothing.

use keystead_commands::errors::{self, Fail};
use keystead_commands::session::Queued;
use keystead_commands::spec::{Run, Spread};
use keystead_commands::{Args, Spec};
use keystead_engine::Engine;

/// Where a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    Shard(usize),
    Spread(Spread),
}

/// Where a request runs, by its keys.
pub(crate) fn place(
    engine: &Engine,
    here: usize,
    spec: &Spec,
    args: Args<'_>,
) -> std::result::Result<Place, Fail> {
    // A request that does not tell its keys is refused by the command itself, wherever it runs.
    let keys = spec.keys(args).unwrap_or_default();
    let Some(first) = keys.first() else {
        return Ok(match spec.spread {
            Spread::Here => Place::Here,
            spread => Place::Spread(spread),
        });
    };
    let place = engine.shard_of(args.at(*first));
    if keys.iter().any(|key| engine.shard_of(args.at(*key)) != place) {
        return Err(errors::CROSS_SLOT);
    }
    Ok(if place == here { Place::Here } else { Place::Shard(place) })
}

/// The one shard of a transaction's keys; `None` when it has none.
pub(crate) fn place_of(
    engine: &Engine,
    queue: &[Queued],
    watched: Option<usize>,
) -> std::result::Result<Option<usize>, Fail> {
    let mut place = watched;
    for queued in queue {
        if matches!(queued.spec.run, Run::Data(_)) && queued.spec.spread != Spread::Here {
            return Err(errors::CROSS_SLOT);
        }
        let args = queued.command.args();
        for key in queued.spec.keys(args).unwrap_or_default() {
            let at = engine.shard_of(args.at(key));
            if *place.get_or_insert(at) != at {
                return Err(errors::CROSS_SLOT);
            }
        }
    }
    Ok(place)
}
