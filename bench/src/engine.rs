//! The engine with a number of jobs in flight, at each durability level, compared with raw SQLite that commits once a batch of that
//! size.
//!
//! Latency is measured from the submission to the reply. SQLite's is that of the whole batch, since no operation of it can be
//! acknowledged before its commit.

use std::time::{Duration, Instant};

use keystead_core::{Millis, ShardId};
use keystead_engine::{Durability, Engine, Options};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use tokio::runtime::Runtime;

use crate::latency::Latencies;
use crate::raw_sqlite::Raw;
use crate::report::{Random, is_wanted};

const IN_FLIGHT: [usize; 4] = [1, 16, 128, 1024];
const LEVELS: [(Durability, &str); 3] =
    [(Durability::Fsync, "FULL"), (Durability::Commit, "NORMAL"), (Durability::Memory, "OFF")];
const KEYS: usize = 100_000;
const FOR: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Set,
    HashSet,
    ListPush,
}

impl Op {
    pub(crate) const ALL: [(Op, &str); 4] =
        [(Op::Get, "get"), (Op::Set, "set"), (Op::HashSet, "hash field set"), (Op::ListPush, "list push")];

    fn run(
        self,
        keyspace: &mut Keyspace,
        name: &[u8],
        n: usize,
        salt: u64,
        now: Millis,
    ) -> keystead_core::Result<u64> {
        let value = Bytes::from(&value(salt)[..]);
        match self {
            Op::Get => Ok(keyspace.str(name, now)?.map_or(0, |value| value.len() as u64)),
            Op::Set => keyspace.set_str(name, value, Expire::Keep, now).map(|version| version.0),
            Op::HashSet => {
                let field = Bytes::from(&[b'f', b':', b'0' + (n % 10) as u8][..]);
                keyspace.hash_mut(name, now)?.set(&field, &value);
                Ok(0)
            }
            Op::ListPush => {
                keyspace.list_mut(name, now)?.push_back(&value);
                Ok(0)
            }
        }
    }
}

/// A value of 24 bytes that differs from the previous one: SQLite does not write an unchanged page.
pub(crate) fn value(salt: u64) -> [u8; 24] {
    let mut value = *b"a value of 24 bytes.....";
    value[16..].copy_from_slice(&salt.to_le_bytes());
    value
}

/// `key:000000000001`, written without `format!`, which would be a large part of what is measured.
pub(crate) fn name(mut n: usize) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    for digit in name.iter_mut().rev().take(12) {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
    name
}

/// The key of an operation: ten fields a hash, about a hundred elements a list.
pub(crate) fn name_for(op: Op, n: usize) -> [u8; 16] {
    let (kind, n) = match op {
        Op::Get | Op::Set => (b'k', n),
        Op::HashSet => (b'h', n / 10),
        Op::ListPush => (b'l', n / 100),
    };
    let mut name = name(n);
    name[0] = kind;
    name
}

pub(crate) fn run() {
    let runtime = runtime();
    println!("100 thousand keys, values of 24 bytes; p50 / p99 / p99.9 in microseconds");
    for (op, op_name) in Op::ALL {
        for (level, synchronous) in LEVELS {
            for in_flight in IN_FLIGHT {
                if !is_wanted(&format!("{op_name} {} {in_flight}", level.as_str())) {
                    continue;
                }
                let ours =
                    with_engine(&runtime, level, KEYS, |engine| drive(&runtime, engine, op, KEYS, in_flight));
                let peer = Raw::filled(synchronous, KEYS).drive(op, KEYS, in_flight, FOR);
                println!(
                    "{op_name:15} {:7} {in_flight:5} in flight   keystead {ours}   sqlite {synchronous:6} {peer}   {:.1}x",
                    level.as_str(),
                    ours.per_second() / peer.per_second()
                );
            }
        }
    }
}

/// SET with a growing number of keys.
pub(crate) fn run_many_keys() {
    let runtime = runtime();
    println!(
        "set of random keys at commit and fsync, 1024 and 50 in flight; p50 / p99 / p99.9 in microseconds"
    );
    for keys in [100_000, 1_000_000, 10_000_000] {
        for (level, synchronous) in &LEVELS[..2] {
            let (many, few) = with_engine(&runtime, *level, keys, |engine| {
                (drive(&runtime, engine, Op::Set, keys, 1024), drive(&runtime, engine, Op::Set, keys, 50))
            });
            let peer = Raw::filled(synchronous, keys).drive(Op::Set, keys, 1024, FOR);
            let ratio = many.per_second() / peer.per_second();
            println!(
                "{keys:9} keys {:7} 1024: {many}   50: {few}   sqlite {synchronous} 1024: {peer}   {ratio:.1}x",
                level.as_str()
            );
        }
    }
}

/// How long an engine with a million keys takes to start.
pub(crate) fn run_start() {
    let runtime = runtime();
    for keys in [100_000, 1_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(dir.path()).durability(Durability::Commit);
        let engine = Engine::open(&options).unwrap();
        fill(&runtime, &engine, keys);
        runtime.block_on(engine.close()).unwrap();
        drop(engine);
        let started = Instant::now();
        let engine = Engine::open(&options).unwrap();
        runtime.block_on(engine.read(b"x", |_, _| Ok(()))).unwrap();
        let clean = started.elapsed();
        let rows = Raw::count_rows(&dir.path().join("shard-0/archive.sqlite"));
        println!(
            "{keys:9} keys: ready after {clean:.0?}   (sqlite alone reads the {} rows of the directory in {:.0?})",
            rows.0, rows.1
        );
        runtime.block_on(engine.close()).unwrap();
    }
}

/// How fast the archive writes a backlog of random changes, and how many bytes for each, depending on both sizes, and how the backlog
/// grows and shrinks. Time is that of the archive alone, with its checkpoints. `KEYSTEAD_KEYS=50000000` chooses one size.
pub(crate) fn run_archive() {
    let runtime = runtime();
    println!(
        "{:>9} {:>9} {:>9} {:>11} {:>9} {:>11} {:>9}  thousands of changes behind, every second",
        "keys", "changes", "rows", "changes/s", "B/change", "rows/s", "B/row"
    );
    let chosen = std::env::var("KEYSTEAD_KEYS").ok().and_then(|text| text.parse().ok());
    for keys in chosen.map_or(vec![1_000_000, 10_000_000], |keys: usize| vec![keys]) {
        let dir = tempfile::tempdir().unwrap();
        // Acknowledgements are not delayed. Of many keys, the values do not fit in memory.
        let options = Options::new(dir.path()).durability(Durability::Commit).journal_bytes_max(1 << 40);
        let options = if keys > 20_000_000 { options.memory_bytes(6 << 30) } else { options };
        let engine = Engine::open(&options).unwrap();
        fill(&runtime, &engine, keys);
        for changes in [keys / 10, keys / 2, keys * 2] {
            let mut random = Random(changes as u64);
            let (before, written) = (engine.health().shards[0].archive, written_bytes());
            let mut backlog = Backlog { since: Instant::now(), thousands: Vec::new() };
            runtime.block_on(async {
                for _ in 0..changes / 1000 {
                    let chosen: Vec<usize> = (0..1000).map(|_| random.below(keys)).collect();
                    let salt = random.0;
                    let put = move |keyspace: &mut Keyspace, now| {
                        for n in chosen {
                            let value = Bytes::from(&[salt as u8; 100][..]);
                            keyspace.set_str(&name(n), value, Expire::Keep, now)?;
                        }
                        Ok(())
                    };
                    engine.write(b"x", put).await.unwrap();
                    backlog.note(&engine);
                }
                let done = until_archived(&engine, &mut backlog).await;
                let (rows, bytes) = ((done.keys - before.keys) as f64, (written_bytes() - written) as f64);
                let seconds = (done.busy_ms - before.busy_ms) as f64 / 1000.0;
                println!(
                    "{keys:>9} {changes:>9} {rows:>9.0} {:>11.0} {:>9.0} {:>11.0} {:>9.0}  {}",
                    changes as f64 / seconds,
                    bytes / changes as f64,
                    rows / seconds,
                    bytes / rows,
                    backlog.thousands.join(" ")
                );
            });
        }
        runtime.block_on(engine.close()).unwrap();
    }
}

/// How far the archive is behind, once a second.
struct Backlog {
    since: Instant,
    thousands: Vec<String>,
}

impl Backlog {
    fn note(&mut self, engine: &Engine) {
        if self.since.elapsed().as_secs() >= self.thousands.len() as u64 {
            let shard = &engine.health().shards[0];
            self.thousands.push(((shard.durable.0 - shard.archived.0) / 1000).to_string());
        }
    }
}

/// Waits until everything is archived and checkpointed.
async fn until_archived(engine: &Engine, backlog: &mut Backlog) -> keystead_engine::ArchiveWork {
    let (pause, mut patience) = (Duration::from_millis(10), 2000);
    loop {
        backlog.note(engine);
        let health = &engine.health().shards[0];
        if health.archived >= engine.revision(ShardId(0)) {
            let batches = health.archive.batches;
            // The batch that got there ends with its checkpoint, or has ended just now.
            while engine.health().shards[0].archive.batches == batches && patience > 0 {
                patience -= 1;
                tokio::time::sleep(pause).await;
            }
            return engine.health().shards[0].archive;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Bytes that this process has written, the journal included.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn with_engine<T>(runtime: &Runtime, level: Durability, keys: usize, run: impl FnOnce(&Engine) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(&Options::new(dir.path()).durability(level)).unwrap();
    fill(runtime, &engine, keys);
    let outcome = run(&engine);
    runtime.block_on(engine.close()).unwrap();
    outcome
}

/// Writes every key, a thousand a job, and waits until all are archived, so that the archive does not affect the measurement.
fn fill(runtime: &Runtime, engine: &Engine, keys: usize) {
    runtime.block_on(async {
        for first in (0..keys).step_by(1000) {
            let put = move |keyspace: &mut Keyspace, now| {
                for n in first..(first + 1000).min(keys) {
                    Op::Set.run(keyspace, &name(n), n, 0, now)?;
                }
                Ok(())
            };
            engine.write(b"x", put).await.unwrap();
        }
        while engine.durability() != Durability::Memory
            && engine.health().shards[0].archived < engine.revision(ShardId(0))
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

fn drive(runtime: &Runtime, engine: &Engine, op: Op, keys: usize, in_flight: usize) -> Latencies {
    let started = Instant::now();
    let all = runtime.block_on(async {
        let tasks: Vec<_> = (0..in_flight)
            .map(|task| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let mut random = Random(task as u64 * 7919 + 1);
                    let mut latencies = Vec::new();
                    while started.elapsed() < FOR {
                        let (n, salt) = (random.below(keys), random.0);
                        let name = name_for(op, n);
                        let asked = Instant::now();
                        let job = move |keyspace: &mut Keyspace, now| op.run(keyspace, &name, n, salt, now);
                        match op {
                            Op::Get => engine.read(b"x", job).await.unwrap(),
                            _ => engine.write(b"x", job).await.unwrap(),
                        };
                        latencies.push(asked.elapsed().as_nanos() as u32);
                    }
                    latencies
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.append(&mut task.await.unwrap());
        }
        all
    });
    Latencies::new(all, started.elapsed())
}
