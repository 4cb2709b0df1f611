//! The keys of moving slots on the shards of this node: finding, exporting, staging, comparing and deleting them. Touches the shards,
//! in slices, so that requests go on in between.
//!
//! Invariant: what is exported is durable, and a call that stages or deletes returns when that is durable.

use std::collections::BTreeSet;

use keystead_cluster::{Digest, SlotSet};
use keystead_core::{Code, Error, Millis, Result, Revision, ShardId, key};
use keystead_engine::{Completion, Engine};
use keystead_model::Bytes;
use keystead_model::effect::{Decoder, Effect, Fact, encode};
use keystead_model::keyspace::{Keyspace, SlotAccess};

use crate::bounds::{MIGRATION_SCAN_IDS, MIGRATION_SLICE_BYTES, MIGRATION_SLICE_KEYS};
use crate::call;

/// The shards that have some of these slots.
pub(super) fn shards(engine: &Engine, slots: &SlotSet) -> BTreeSet<ShardId> {
    slots.iter().map(|slot| shard_of(engine, slot)).collect()
}

fn shard_of(engine: &Engine, slot: u16) -> ShardId {
    key::shard_of_slot(slot, engine.shards())
}

/// Runs something on a shard, and returns its result when it is durable.
async fn on<T: Send + 'static>(
    engine: &Engine,
    shard: ShardId,
    writes: bool,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<T> + Send + 'static,
) -> Result<T> {
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
    ran.await?
}

/// The names of all keys in these slots, of one shard.
pub(super) async fn names(engine: &Engine, shard: ShardId, slots: &SlotSet) -> Result<Vec<Bytes>> {
    let (mut found, mut cursor) = (Vec::new(), 0);
    loop {
        let slots = slots.clone();
        let (next, names) = on(engine, shard, false, move |keyspace, _| {
            let mut names = Vec::new();
            let next = keyspace.scan_all(cursor, MIGRATION_SCAN_IDS, |name| {
                if slots.contains(key::slot(name)) {
                    names.push(name.clone());
                }
            });
            Ok((next, names))
        })
        .await?;
        found.extend(names);
        cursor = next;
        if cursor == 0 {
            return Ok(found);
        }
    }
}

/// The keys of these names as effects, encoded, of one shard. Stops when they are large: returns how many names are in it.
pub(super) async fn export(engine: &Engine, shard: ShardId, names: Vec<Bytes>) -> Result<(usize, Vec<u8>)> {
    on(engine, shard, false, move |keyspace, _| {
        let (mut count, mut bytes) = (0, Vec::new());
        for name in names.iter().take(MIGRATION_SLICE_KEYS) {
            encode(&keyspace.export(name)?, &mut bytes);
            count += 1;
            if bytes.len() >= MIGRATION_SLICE_BYTES {
                break;
            }
        }
        Ok((count, bytes))
    })
    .await
}

/// Imports keys that were exported, if all of them are in these slots.
pub(super) async fn stage(engine: &Engine, slots: &SlotSet, bytes: &[u8]) -> Result<()> {
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
    let mut by_shard: Vec<Vec<Vec<Effect>>> = vec![Vec::new(); engine.shards()];
    for effects in by_key {
        by_shard[engine.shard_of(&effects[0].key).0].push(effects);
    }
    for (shard, all) in ShardId::all(engine.shards()).zip(by_shard) {
        import(engine, shard, all).await?;
    }
    Ok(())
}

/// Imports keys on a shard. Large ones are a job of their own, because a job is bounded.
async fn import(engine: &Engine, shard: ShardId, all: Vec<Vec<Effect>>) -> Result<()> {
    let mut keys = all.into_iter().peekable();
    while keys.peek().is_some() {
        let (mut slice, mut bytes) = (Vec::new(), 0);
        while let Some(effects) = keys.next_if(|_| bytes < MIGRATION_SLICE_BYTES) {
            bytes += effects.iter().map(Effect::size_hint).sum::<usize>();
            slice.push(effects);
        }
        on(engine, shard, true, move |keyspace, _| {
            slice.iter().try_for_each(|effects| keyspace.import(effects))
        })
        .await?;
    }
    Ok(())
}

/// A digest of the keys of these names. What expires by `after` is left out.
pub(super) async fn digest(engine: &Engine, names: &BTreeSet<Bytes>, after: Millis) -> Result<Digest> {
    let mut by_shard: Vec<Vec<Bytes>> = vec![Vec::new(); engine.shards()];
    for name in names {
        by_shard[engine.shard_of(name).0].push(name.clone());
    }
    let mut digest = Digest::default();
    for (shard, names) in ShardId::all(engine.shards()).zip(by_shard) {
        for slice in names.chunks(MIGRATION_SLICE_KEYS) {
            let slice = slice.to_vec();
            digest = on(engine, shard, false, move |keyspace, _| {
                slice.iter().try_fold(digest, |digest, name| {
                    Ok::<Digest, Error>(with_key(digest, &keyspace.export(name)?, after))
                })
            })
            .await?;
        }
    }
    Ok(digest)
}

/// With a key. Its effects may be in any order, so each is a record. A key is left out as a whole if it, or a field of it, expires early.
fn with_key(digest: Digest, effects: &[Effect], after: Millis) -> Digest {
    let expires_early = |effect: &Effect| match effect.fact {
        Fact::Deleted => true,
        Fact::Expiry(at) | Fact::HashField { expires_at: at, .. } => at <= after,
        _ => false,
    };
    if effects.iter().any(expires_early) {
        return digest;
    }
    let mut bytes = Vec::new();
    effects.iter().fold(digest, |digest, effect| {
        bytes.clear();
        encode(std::slice::from_ref(effect), &mut bytes);
        digest.with(effect.version.0, &bytes)
    })
}

/// Deletes all keys in these slots.
pub(super) async fn delete(engine: &Engine, slots: &SlotSet) -> Result<()> {
    for shard in shards(engine, slots) {
        let names = names(engine, shard, slots).await?;
        for slice in names.chunks(MIGRATION_SLICE_KEYS) {
            let slice = slice.to_vec();
            on(engine, shard, true, move |keyspace, _| {
                slice.into_iter().try_for_each(|key| {
                    let (version, revision) = (keystead_core::Version::ZERO, Revision::ZERO);
                    keyspace.import(&[Effect { id: 0, key, version, revision, fact: Fact::Deleted }])
                })
            })
            .await?;
        }
    }
    Ok(())
}

/// Sets what requests may do with slots, on the threads of their shards. `also` runs with it there. Returns the last revision of each
/// shard before that, when all of them are durable.
pub(super) async fn set_access(
    engine: &Engine,
    slots: &SlotSet,
    access: SlotAccess,
    also: impl Fn(&[u16]) + Clone + Send + 'static,
) -> Result<Vec<(ShardId, Revision)>> {
    let mut revisions = Vec::new();
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
        revisions.push((shard, visited.await??));
    }
    Ok(revisions)
}
