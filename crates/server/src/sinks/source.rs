//! The keys of a sink on the shards: finding and reading them, in slices, so that requests go on in between. Touches the shards.
//!
//! Invariant: what is read is durable.

use std::collections::BTreeSet;

use keystead_commands::documents::is_internal;
use keystead_core::{Error, Millis, Result, Revision, ShardId};
use keystead_engine::{Completion, Engine};
use keystead_model::Bytes;
use keystead_model::effect::Effect;
use keystead_model::keyspace::Keyspace;
use keystead_rows::value::Found;

use crate::bounds::{SINK_SLICE_BYTES, SINK_SLICE_KEYS};
use crate::call;

/// Keys that were read in one turn: the first of those that were asked for, and at least one.
pub(super) struct Read {
    pub(super) found: Vec<Found>,
    pub(super) bytes: usize,
    /// The others.
    pub(super) left: Vec<Bytes>,
    /// The revision of the shard at which this was so.
    pub(super) at: Revision,
}

/// Whether a key is one of the sink with this prefix. Records of our own are nobody's data.
pub(super) fn is_followed(key: &[u8], prefix: &[u8]) -> bool {
    key.starts_with(prefix) && !is_internal(key)
}

/// Names of fields as text.
pub(super) fn names(fields: &BTreeSet<Bytes>) -> Vec<String> {
    fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect()
}

/// Reads keys of a shard, as many as one turn may.
pub(super) async fn read(engine: &Engine, shard: ShardId, keys: Vec<Bytes>) -> Result<Read> {
    on(engine, shard, move |keyspace, now| {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut keys = keys.into_iter();
        while bytes < SINK_SLICE_BYTES && found.len() < SINK_SLICE_KEYS {
            let Some(key) = keys.next() else { break };
            let one = Found::read(keyspace, key, now)?;
            bytes += one.effects.iter().flatten().map(Effect::size_hint).sum::<usize>();
            found.push(one);
        }
        Ok(Read { found, bytes, left: keys.collect(), at: keyspace.revision() })
    })
    .await
}

/// Some keys with a prefix of a shard, and the cursor for the next ones: 0 at the end.
pub(super) async fn scan(
    engine: &Engine,
    shard: ShardId,
    cursor: u64,
    prefix: &str,
) -> Result<(u64, Vec<Bytes>)> {
    let prefix = prefix.to_owned();
    on(engine, shard, move |keyspace, now| {
        let mut keys = Vec::new();
        let next = keyspace.scan(cursor, SINK_SLICE_KEYS, now, |key, _| {
            if is_followed(key, prefix.as_bytes()) {
                keys.push(key.clone());
            }
        })?;
        Ok((next, keys))
    })
    .await
}

/// Runs something on the keys of a shard, and returns its result when what it depends on is durable.
async fn on<T: Send + 'static>(
    engine: &Engine,
    shard: ShardId,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<T> + Send + 'static,
) -> Result<T> {
    let ran = call::visit(engine, shard, move |turn| {
        let ran = turn.run(false, |keyspace, now| {
            let ran = run(keyspace, now);
            let completion = Completion::commit_if(ran.is_ok());
            (ran, completion)
        });
        match ran {
            Ok((ran, seen)) => (ran, seen),
            Err(error) => (Err::<T, Error>(error), Revision::ZERO),
        }
    });
    ran.await?
}
