//! The short form of the bench `marathon`: writers that are faster than the archive, with small bounds. Nothing is rejected; journal,
//! backlog and memory stay bounded; acknowledgements are delayed, and are not any more when the archive has caught up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use keystead_core::{Millis, Result, ShardId, Stopwatch};
use keystead_engine::{Engine, Options, check};
use keystead_model::Bytes;
use keystead_model::keyspace::check::KeyDump;
use keystead_model::keyspace::{Expire, Keyspace};
use keystead_model::value::StreamId;
use keystead_model::value::stream::Fields;
use keystead_testkit::rng::Rng;

use crate::common::{DURABLE, dump};

const SEGMENT_BYTES: u64 = 32 * 1024;
const JOURNAL_BYTES_MAX: u64 = 1024 * 1024;
const MEMORY_BYTES: usize = 2 * 1024 * 1024;
const BATCH_BYTES: usize = 128 * 1024;

const WRITERS: u64 = 8;
/// Keys of each type that a writer has: their names fit in memory, their values do not.
const KEYS: u64 = 200;
const CHANGES_PER_JOB: u64 = 20;
/// Jobs of each writer: at least so many, and more until the archive has fallen behind.
const JOBS_MIN: u64 = 100;
const JOBS_MAX: u64 = 20_000;
const TRIMMED_LEN: usize = 10;

/// One random change, the same whenever it is made from the same seed.
type Change = fn(&mut Keyspace, &mut Rng, u64, Millis) -> Result<()>;

fn key(kind: &str, writer: u64, rng: &mut Rng) -> Vec<u8> {
    format!("{kind}:{writer}:{}", rng.below(KEYS)).into_bytes()
}

fn value(rng: &mut Rng, len: usize) -> Bytes {
    Bytes::from(vec![b'a' + rng.below(26) as u8; len])
}

fn sets(keyspace: &mut Keyspace, rng: &mut Rng, writer: u64, now: Millis) -> Result<()> {
    let (key, value) = (key("s", writer, rng), value(rng, 1500));
    keyspace.set_str(&key, value, Expire::Keep, now).map(drop)
}

fn mixed(keyspace: &mut Keyspace, rng: &mut Rng, writer: u64, now: Millis) -> Result<()> {
    let element = Bytes::from(rng.below(30).to_string().as_bytes());
    match rng.below(8) {
        0 => {
            let (key, value) = (key("s", writer, rng), value(rng, 300));
            keyspace.set_str(&key, value, Expire::At(Millis(now.0 + 1 + rng.below(500))), now)?;
        }
        1 | 2 => {
            let (key, value) = (key("h", writer, rng), value(rng, 60));
            keyspace.hash_mut(&key, now)?.set(&element, &value);
        }
        3 => drop(keyspace.set_expiry(&key("h", writer, rng), Millis(now.0 + 1 + rng.below(500)), now)?),
        4 => {
            let (key, value) = (key("l", writer, rng), value(rng, 60));
            let mut list = keyspace.list_mut(&key, now)?;
            list.push_front(&value);
            list.trim(0..TRIMMED_LEN);
        }
        5 => {
            let score = rng.below(1000) as f64;
            keyspace.zset_mut(&key("z", writer, rng), now)?.insert(&element, score);
        }
        6 => drop(keyspace.delete(&key("z", writer, rng), now)?),
        _ => {
            let (key, value) = (key("x", writer, rng), value(rng, 60));
            let mut stream = keyspace.stream_mut(&key, now)?;
            let last = stream.last().map_or(0, |(id, _)| id.ms);
            stream.put(StreamId { ms: last + 1, seq: 0 }, &Fields::new([(&b"f"[..], value.as_slice())]));
            while stream.len() > TRIMMED_LEN
                && let Some((first, _)) = stream.first()
            {
                stream.remove(first);
            }
        }
    }
    Ok(())
}

/// Sends jobs until there are enough of them and the archive has fallen behind.
async fn write(engine: Engine, writer: u64, change: Change, was_throttled: Arc<AtomicBool>) -> u64 {
    let mut jobs = 0;
    while jobs < JOBS_MIN || jobs < JOBS_MAX && !was_throttled.load(Ordering::Relaxed) {
        let seed = writer * JOBS_MAX + jobs;
        let job = move |keyspace: &mut Keyspace, now| {
            let mut rng = Rng::new(seed);
            (0..CHANGES_PER_JOB).try_for_each(|_| change(keyspace, &mut rng, writer, now))
        };
        engine.write(b"", job).await.expect("no write is rejected");
        jobs += 1;
    }
    jobs
}

/// The largest figures that were seen, and whether acknowledgements were delayed.
#[derive(Default)]
struct Seen {
    journal_bytes: AtomicU64,
    used_bytes: AtomicU64,
    is_over: AtomicBool,
}

async fn watch(engine: Engine, seen: Arc<Seen>, was_throttled: Arc<AtomicBool>) {
    while !seen.is_over.load(Ordering::Relaxed) {
        let health = engine.health();
        assert!(health.is_ok(), "{health:?}");
        let shard = &health.shards[0];
        seen.journal_bytes.fetch_max(shard.journal_bytes, Ordering::Relaxed);
        seen.used_bytes.fetch_max(shard.size.used_bytes, Ordering::Relaxed);
        was_throttled.fetch_or(shard.throttled, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn until(what: &str, engine: &Engine, is_so: impl Fn(&Engine) -> bool) {
    let patience = Stopwatch::start();
    while !is_so(engine) {
        assert!(patience.elapsed() < Duration::from_secs(120), "never {what}: {:?}", engine.health());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn options(dir: &std::path::Path) -> Options {
    Options::new(dir)
        .segment_bytes(SEGMENT_BYTES)
        .journal_bytes_max(JOURNAL_BYTES_MAX)
        .memory_bytes(MEMORY_BYTES)
        .archive_batch_bytes(BATCH_BYTES)
}

fn by_key(dump: Vec<KeyDump>) -> HashMap<Vec<u8>, KeyDump> {
    dump.into_iter().map(|key| (key.key.to_vec(), key)).collect()
}

async fn marathon(change: Change) {
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        let (seen, was_throttled) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let watching = tokio::spawn(watch(engine.clone(), Arc::clone(&seen), Arc::clone(&was_throttled)));
        let start = |writer| tokio::spawn(write(engine.clone(), writer, change, Arc::clone(&was_throttled)));
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        let mut jobs = 0;
        for writer in writers {
            jobs += writer.await.unwrap();
        }
        assert!(was_throttled.load(Ordering::Relaxed), "the archive kept pace with {jobs} jobs");
        // The next write sees that the journal has become shorter, as does every turn of the loop.
        until("at full speed again", &engine, |engine| !engine.health().shards[0].throttled).await;
        until("archived", &engine, |engine| {
            engine.health().shards[0].archived >= engine.revision(ShardId(0))
        })
        .await;
        seen.is_over.store(true, Ordering::Relaxed);
        watching.await.unwrap();
        let (journal, used) =
            (seen.journal_bytes.load(Ordering::Relaxed), seen.used_bytes.load(Ordering::Relaxed));
        assert!(journal <= JOURNAL_BYTES_MAX + JOURNAL_BYTES_MAX / 4, "the journal had {journal} bytes");
        // A turn may add a batch before the loop evicts.
        assert!(used <= 2 * MEMORY_BYTES as u64, "{used} bytes were in memory");
        let before = by_key(dump(&engine, "").await);
        engine.close().await.unwrap();
        drop(engine);
        let report = check(dir.path()).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        let after = by_key(dump(&engine, "").await);
        for (name, key) in &after {
            assert!(
                before.get(name).is_some_and(|known| known.value == key.value),
                "{}",
                name.escape_ascii()
            );
        }
        for (name, key) in before.iter().filter(|(_, key)| key.expires_at == Millis::NEVER) {
            assert!(after.contains_key(name), "{} of {:?} is missing", name.escape_ascii(), key.version);
        }
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn random_sets_faster_than_the_archive_stay_bounded() {
    marathon(sets).await;
}

#[tokio::test]
async fn mixed_types_with_expiry_and_trimming_stay_bounded() {
    marathon(mixed).await;
}
