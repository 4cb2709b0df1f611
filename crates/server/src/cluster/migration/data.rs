//! The keys of moving slots on the shards of this node: finding, exporting, staging, counting and deleting them. Touches the shards,
//! in slices, so that requests go on in between.
//!
//! Invariant: what is exported is durable, and a call that stages or deletes returns when that is durable.

use std::collections::BTreeSet;

use keystead_cluster::SlotSet;
use keystead_core::{Code, Error, Millis, Result, Revision, ShardId, Version, key};
use keystead_engine::{Completion, Engine};
use keystead_model::Bytes;
use keystead_model::effect::{Decoder, Effect, Fact, encode};
use keystead_model::keyspace::{Keyspace, SlotAccess};
use tokio::task::JoinSet;

use super::digests::{Digested, KeyDigests, Names};
use crate::bounds::{MIGRATION_SCAN_IDS, MIGRATION_SLICE_BYTES, MIGRATION_SLICE_KEYS};
use crate::call;

/// The shards that have some of these slots.
pub(super) fn shards(engine: &Engine, slots: &SlotSet) -> BTreeSet<ShardId> {
    slots.iter().map(|slot| shard_of(engine, slot)).collect()
}

fn shard_of(engine: &Engine, slot: u16) -> ShardId {
    key::shard_of_slot(slot, engine.shards())
}

/// Runs something on a shard, and returns its result when it is durable. It is in the shard's queue when this returns.
fn on<T: Send + 'static>(
    engine: &Engine,
    shard: ShardId,
    writes: bool,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send + 'static {
    let ran = call::visit(engine, shard, move |turn| {
        let ran = turn.run(writes, |keyspace, now| {
            let ran = run(keyspace, now);
            let completion = Completion::commit_if(ran.is_ok());
            (ran, completion)
        });
        match ran {
            Ok((ran, seen)) => (ran, seen),
            Err(error) => (Err(error), Revision::ZERO),
        }
    });
    async move { ran.await? }
}

/// Waits for jobs that are in the queues of shards, so that they share what makes them durable.
async fn all<T: Send + 'static>(mut jobs: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(joined) = jobs.join_next().await {
        results.push(joined.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))?);
    }
    Ok(results)
}

/// The names of keys in these slots at the next ids of one shard, and the next cursor: 0 at the end.
pub(super) async fn scan(
    engine: &Engine,
    shard: ShardId,
    slots: &SlotSet,
    cursor: u64,
) -> Result<(u64, Vec<Bytes>)> {
    let slots = slots.clone();
    on(engine, shard, false, move |keyspace, _| {
        let mut names = Vec::new();
        let next = keyspace.scan_all(cursor, MIGRATION_SCAN_IDS, |name| {
            if slots.contains(key::slot(name)) {
                names.push(name.clone());
            }
        });
        Ok((next, names))
    })
    .await
}

/// Keys of one shard as effects, encoded.
pub(super) struct Exported {
    /// How many of the names are in it.
    pub(super) count: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) digested: Digested,
}

/// The keys of these names, of one shard. Stops when they are large.
pub(super) fn export(
    engine: &Engine,
    shard: ShardId,
    wanted: Vec<Bytes>,
    names: &Names,
) -> impl Future<Output = Result<Exported>> + Send + 'static {
    let names = names.clone();
    on(engine, shard, false, move |keyspace, _| {
        let mut exported = Exported { count: 0, bytes: Vec::new(), digested: Vec::new() };
        for name in wanted.iter().take(MIGRATION_SLICE_KEYS) {
            let effects = keyspace.export(name)?;
            encode(&effects, &mut exported.bytes);
            exported.digested.extend(names.digest(&effects));
            exported.count += 1;
            if exported.bytes.len() >= MIGRATION_SLICE_BYTES {
                break;
            }
        }
        Ok(exported)
    })
}

/// Digests of the keys of these names.
pub(super) async fn digest(
    engine: &Engine,
    wanted: Vec<Bytes>,
    names: &Names,
    into: &mut KeyDigests,
) -> Result<()> {
    let mut by_shard: Vec<Vec<Bytes>> = vec![Vec::new(); engine.shards()];
    for name in wanted {
        by_shard[engine.shard_of(&name).0].push(name);
    }
    for (shard, wanted) in ShardId::all(engine.shards()).zip(by_shard) {
        for slice in wanted.chunks(MIGRATION_SLICE_KEYS) {
            let (slice, names) = (slice.to_vec(), names.clone());
            let digested = on(engine, shard, false, move |keyspace, _| {
                let mut digested = Vec::with_capacity(slice.len());
                for name in &slice {
                    digested.extend(names.digest(&keyspace.export(name)?));
                }
                Ok(digested)
            });
            into.put(digested.await?);
        }
    }
    Ok(())
}

/// Digests of all keys in these slots.
pub(super) async fn digest_all(engine: &Engine, slots: &SlotSet, names: &Names) -> Result<KeyDigests> {
    let mut digests = KeyDigests::default();
    for shard in shards(engine, slots) {
        let mut cursor = 0;
        loop {
            let (next, found) = scan(engine, shard, slots, cursor).await?;
            digest(engine, found, names, &mut digests).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(digests)
}

/// Imports keys that were exported, if all of them are in these slots. Returns how many, and their digests, read again afterwards.
pub(super) async fn stage(
    engine: &Engine,
    slots: &SlotSet,
    bytes: &[u8],
    names: &Names,
) -> Result<(usize, Digested)> {
    let mut by_key: Vec<Vec<Effect>> = Vec::new();
    for effect in Decoder::new(bytes) {
        let effect = effect?;
        if !slots.contains(key::slot(&effect.key)) {
            return Err(Error::new(Code::Corrupt, "a key is not in the slots that move"));
        }
        match by_key.last_mut() {
            Some(last) if last[0].key == effect.key => last.push(effect),
            _ => by_key.push(vec![effect]),
        }
    }
    let keys = by_key.len();
    let mut by_shard: Vec<Vec<Vec<Effect>>> = vec![Vec::new(); engine.shards()];
    for effects in by_key {
        by_shard[engine.shard_of(&effects[0].key).0].push(effects);
    }
    let mut jobs = JoinSet::new();
    for (shard, all) in ShardId::all(engine.shards()).zip(by_shard) {
        import(engine, shard, all, names, &mut jobs);
    }
    let digested = all(jobs).await?;
    Ok((keys, digested.into_iter().flatten().collect()))
}

/// Imports keys on a shard, in slices: large ones are a job of their own, because a job is bounded.
fn import(
    engine: &Engine,
    shard: ShardId,
    all: Vec<Vec<Effect>>,
    names: &Names,
    jobs: &mut JoinSet<Result<Digested>>,
) {
    let mut keys = all.into_iter().peekable();
    while keys.peek().is_some() {
        let (mut slice, mut bytes) = (Vec::new(), 0);
        while slice.len() < MIGRATION_SLICE_KEYS
            && let Some(effects) = keys.next_if(|_| bytes < MIGRATION_SLICE_BYTES)
        {
            bytes += effects.iter().map(Effect::size_hint).sum::<usize>();
            slice.push(effects);
        }
        let names = names.clone();
        jobs.spawn(on(engine, shard, true, move |keyspace, _| {
            let mut digested = Vec::with_capacity(slice.len());
            for effects in &slice {
                keyspace.import(effects)?;
                digested.extend(names.digest(&keyspace.export(&effects[0].key)?));
            }
            Ok(digested)
        }));
    }
}

/// Deletes all keys in these slots.
pub(super) async fn delete(engine: &Engine, slots: &SlotSet) -> Result<()> {
    for shard in shards(engine, slots) {
        let mut cursor = 0;
        loop {
            let (next, found) = scan(engine, shard, slots, cursor).await?;
            let mut jobs = JoinSet::new();
            for slice in found.chunks(MIGRATION_SLICE_KEYS) {
                let slice = slice.to_vec();
                jobs.spawn(on(engine, shard, true, move |keyspace, _| {
                    slice.into_iter().try_for_each(|key| {
                        let (version, revision) = (Version::ZERO, Revision::ZERO);
                        keyspace.import(&[Effect { id: 0, key, version, revision, fact: Fact::Deleted }])
                    })
                }));
            }
            all(jobs).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Keys and estimated bytes of one slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotSize {
    pub(super) keys: u64,
    /// Bytes that stay in memory when values are evicted.
    pub(super) entry_bytes: u64,
    /// All bytes that are in memory.
    pub(super) bytes: u64,
}

/// The size of each slot. It goes through all keys of the node.
pub(super) async fn sizes(engine: &Engine) -> Result<Vec<SlotSize>> {
    let mut sizes = vec![SlotSize::default(); usize::from(keystead_cluster::bounds::SLOTS)];
    for shard in ShardId::all(engine.shards()) {
        let mut cursor = 0;
        loop {
            let (next, found) = on(engine, shard, false, move |keyspace, _| {
                let mut found = Vec::new();
                let next = keyspace.scan_sizes(cursor, MIGRATION_SCAN_IDS, |name, entry_bytes, bytes| {
                    found.push((key::slot(name), entry_bytes as u64, bytes as u64));
                });
                Ok((next, found))
            })
            .await?;
            for (slot, entry_bytes, bytes) in found {
                let size = &mut sizes[usize::from(slot)];
                size.keys += 1;
                size.entry_bytes += entry_bytes;
                size.bytes += bytes;
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(sizes)
}

/// Sets what requests may do with slots, on the threads of their shards. `also` runs with it there. Returns the last revision of each
/// shard before that, when all of them are durable.
pub(super) async fn set_access(
    engine: &Engine,
    slots: &SlotSet,
    access: SlotAccess,
    also: impl Fn(&[u16]) + Clone + Send + 'static,
) -> Result<Vec<(ShardId, Revision)>> {
    let mut jobs = JoinSet::new();
    for shard in shards(engine, slots) {
        let own: Vec<u16> = slots.iter().filter(|slot| shard_of(engine, *slot) == shard).collect();
        let also = also.clone();
        let visited = call::visit(engine, shard, move |turn| {
            let ran = turn.run(false, |keyspace, _| {
                keyspace.set_slots(own.iter().copied(), access);
                also(&own);
                (keyspace.revision(), Completion::Commit)
            });
            if access == SlotAccess::Foreign {
                // Clients that are blocked on these keys are sent to the new owner.
                turn.retry_waits(|name| own.contains(&key::slot(name)));
            }
            match ran {
                Ok((revision, _)) => (Ok(revision), revision),
                Err(error) => (Err(error), Revision::ZERO),
            }
        });
        jobs.spawn(async move { Ok((shard, visited.await??)) });
    }
    all(jobs).await
}
