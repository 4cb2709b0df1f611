//! Compares source and target: each key with its row, and each row with its key. Touches the shards and the target, on connections of its
//! own.
//!
//! What differs is compared again after a flush, because it may have changed between the two reads.

use std::collections::BTreeMap;

use keystead_core::{Code, Error, Result, ShardId};
use keystead_engine::Engine;
use keystead_model::Bytes;
use keystead_sinks::{Change, Row, Shown, Sink, log};

use super::{Running, source};
use crate::bounds::{SINK_DIFFERENCES_MAX, SINK_SHOWN_BYTES, SINK_SLICE_KEYS};

/// How often what differs is compared.
const LOOKS: u32 = 3;

/// A key on one of the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its version.
    pub version: u64,
    /// Its value as JSON, or the texts of its columns; at most [`SINK_SHOWN_BYTES`] of it.
    pub value: String,
}

/// A key that differs; nothing where it is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What Keystead has.
    pub source: Option<Side>,
    /// What the target has.
    pub target: Option<Side>,
}

/// What a comparison has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Keys that were compared.
    pub keys: u64,
    /// Keys whose row differs or is missing, and rows whose key does not exist. At most so many are listed.
    pub differing: BTreeMap<String, Difference>,
    /// How many there are.
    pub count: u64,
    /// Those of them that are in quarantine.
    pub quarantined: u64,
}

pub(super) async fn verify(running: &Running, engine: &Engine) -> Result<Differences> {
    if !running.sink.capabilities().readable {
        return Err(Error::new(Code::Unsupported, "this kind of target cannot be read"));
    }
    // On a connection of its own, so that the sink goes on writing.
    let definition = &running.definition;
    let sink = keystead_sinks::open(definition.target.as_str(), definition.layout.clone())?;
    let compared = compare(running, engine, &*sink).await;
    let _ = sink.close().await;
    compared
}

async fn compare(running: &Running, engine: &Engine, sink: &dyn Sink) -> Result<Differences> {
    let mut found = Differences::default();
    let prefix = running.definition.layout.prefix.as_str();
    running.flush(engine).await;
    for shard in engine.shard_ids() {
        let mut cursor = 0;
        loop {
            let (next, keys) = source::scan(engine, shard, cursor, prefix).await?;
            found.keys += keys.len() as u64;
            let differing = look(running, engine, sink, shard, keys).await?;
            add(running, engine, sink, &mut found, shard, differing).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    let mut after: Option<String> = None;
    loop {
        let keys = match sink.log() {
            Some(log) => log::live_keys(log, prefix, after.as_deref(), SINK_SLICE_KEYS).await?,
            None => sink.keys(after.as_deref(), None, SINK_SLICE_KEYS).await?,
        };
        let Some(last) = keys.last().cloned() else { return Ok(found) };
        after = Some(last);
        for key in keys.iter().filter(|key| key.starts_with(prefix)) {
            let key = Bytes::from(key.as_bytes());
            let shard = engine.shard_of(&key);
            let read = source::read(engine, shard, vec![key.clone()]).await?;
            if read.found.iter().all(|found| found.effects.is_none()) {
                let differing = look(running, engine, sink, shard, vec![key]).await?;
                add(running, engine, sink, &mut found, shard, differing).await?;
            }
        }
    }
}

/// The keys that differ, also when looked at again.
async fn look(
    running: &Running,
    engine: &Engine,
    sink: &dyn Sink,
    shard: ShardId,
    keys: Vec<Bytes>,
) -> Result<Vec<Bytes>> {
    let mut suspects = keys;
    for looks in 0..LOOKS {
        if suspects.is_empty() {
            break;
        }
        if looks > 0 {
            running.flush(engine).await;
        }
        let (mut differing, mut left): (Vec<Bytes>, Vec<Bytes>) = (Vec::new(), suspects);
        while !left.is_empty() {
            let read = source::read(engine, shard, left).await?;
            let mut rows: Vec<Row> = Vec::new();
            for found in &read.found {
                match found.row(shard, None) {
                    Ok(row) => rows.push(row),
                    Err(_) => differing.push(found.key.clone()),
                }
            }
            let named = match sink.log() {
                Some(log) => log::differing(log, &rows).await?,
                None => sink.differing(&rows).await?,
            };
            differing.extend(named.iter().map(|key| Bytes::from(key.as_bytes())));
            left = read.left;
        }
        suspects = differing;
    }
    Ok(suspects)
}

/// Counts keys that differ, and notes both sides of the first ones.
async fn add(
    running: &Running,
    engine: &Engine,
    sink: &dyn Sink,
    found: &mut Differences,
    shard: ShardId,
    differing: Vec<Bytes>,
) -> Result<()> {
    for key in differing {
        found.count += 1;
        found.quarantined += u64::from(running.shared.quarantine().contains(&key));
        if found.differing.len() < SINK_DIFFERENCES_MAX {
            let name = String::from_utf8_lossy(&key).into_owned();
            let difference = both(engine, sink, shard, key, &name).await?;
            found.differing.insert(name, difference);
        }
    }
    Ok(())
}

/// Both sides of a key.
async fn both(
    engine: &Engine,
    sink: &dyn Sink,
    shard: ShardId,
    key: Bytes,
    name: &str,
) -> Result<Difference> {
    let read = source::read(engine, shard, vec![key]).await?;
    let source = read.found.first().filter(|found| found.effects.is_some()).map(|found| {
        let value = match found.row(shard, None).map(|row| row.change) {
            Ok(Change::Put { value, .. }) => value.to_string(),
            Ok(_) => String::new(),
            Err(reason) => reason,
        };
        Side { version: found.version.0, value: cut(value) }
    });
    let keys = [name.to_owned()];
    let rows = match sink.log() {
        Some(log) => log::look(log, &keys).await?,
        None => sink.look(&keys).await?,
    };
    let side = |Shown { version, value, .. }| Side { version, value: cut(value) };
    Ok(Difference { source, target: rows.into_iter().next().map(side) })
}

/// The first bytes of a text.
fn cut(mut text: String) -> String {
    if text.len() > SINK_SHOWN_BYTES {
        let end = (0..=SINK_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
