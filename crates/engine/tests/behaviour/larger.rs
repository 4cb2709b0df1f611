//! Ten times more values than memory: every result is right, and memory stays within its budget.

use keystead_core::Result;
use keystead_engine::{Durability, Engine, check};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use keystead_testkit::rng::Rng;

use crate::common::options;

const BUDGET_BYTES: usize = 4 << 20;
const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 4096;
/// Jobs in flight, and so the largest batch.
const WRITERS: u64 = 16;

/// The shard waits for the archive from a quarter over the budget on; the batch that exceeded it is added, each of its
/// jobs with an old value, a new one, and space to grow.
const LIMIT_BYTES: usize = BUDGET_BYTES + BUDGET_BYTES / 4 + (WRITERS as usize) * 8 * VALUE_BYTES;

fn part(n: u64, round: u64, len: usize) -> Bytes {
    let mut rng = Rng::new(n << 8 | round);
    Bytes::from((0..len).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>())
}

/// Puts value `round` of key `n`, which is of one of three kinds, and returns how much memory is used.
fn put(keyspace: &mut Keyspace, now: keystead_core::Millis, n: u64, round: u64) -> Result<usize> {
    let name = format!("k{n}").into_bytes();
    match n % 3 {
        0 => {
            keyspace.set_str(&name, part(n, round, VALUE_BYTES), Expire::Keep, now)?;
        }
        1 => {
            let mut hash = keyspace.hash_mut(&name, now)?;
            for field in 0..8 {
                hash.set(&part(field, 0, 8), &part(n + field, round, VALUE_BYTES / 8));
            }
        }
        _ => {
            let mut list = keyspace.list_mut(&name, now)?;
            while list.pop_front().is_some() {}
            (0..8).for_each(|item| list.push_back(&part(n + item, round, VALUE_BYTES / 8)));
        }
    }
    Ok(keyspace.used_bytes())
}

/// Whether key `n` has value `round`, and how much memory is used.
fn is_right(
    keyspace: &mut Keyspace,
    now: keystead_core::Millis,
    n: u64,
    round: u64,
) -> Result<(bool, usize)> {
    let name = format!("k{n}").into_bytes();
    let right = match n % 3 {
        0 => keyspace.str(&name, now)?.is_some_and(|value| **value == *part(n, round, VALUE_BYTES)),
        1 => keyspace.hash(&name, now)?.is_some_and(|hash| {
            let field =
                |field| hash.get(&part(field, 0, 8)) == Some(&part(n + field, round, VALUE_BYTES / 8)[..]);
            hash.len() == 8 && (0..8).all(field)
        }),
        _ => keyspace.list(&name, now)?.is_some_and(|list| {
            let item = |item| list.get(item as usize) == Some(&part(n + item, round, VALUE_BYTES / 8)[..]);
            list.len() == 8 && (0..8).all(item)
        }),
    };
    Ok((right, keyspace.used_bytes()))
}

async fn ten_times_more_values_than_memory(level: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path()).segment_bytes(1 << 20).durability(level).memory_bytes(BUDGET_BYTES);
    let engine = Engine::open(&options).unwrap();
    let mut most = 0;
    // The second round changes a third of the values, most of which are evicted by then.
    for (round, step) in [(1, 1), (2, 3)] {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let mut most = 0;
                    for n in (writer..KEYS).step_by(WRITERS as usize).filter(|n| n % 7 % step == 0) {
                        let used =
                            engine.write(b"k", move |keyspace, now| put(keyspace, now, n, round)).await;
                        most = most.max(used.unwrap());
                    }
                    most
                })
            })
            .collect();
        for writer in writers {
            most = most.max(writer.await.unwrap());
        }
    }
    let round_of = |n: u64| if (n % 7).is_multiple_of(3) { 2 } else { 1 };
    let mut rng = Rng::new(7);
    for n in (0..KEYS).chain((0..2000).map(|_| rng.below(KEYS)).collect::<Vec<_>>()) {
        let result = engine.read(b"k", move |keyspace, now| is_right(keyspace, now, n, round_of(n))).await;
        let (right, used) = result.unwrap();
        assert!(right, "key {n}");
        most = most.max(used);
    }
    assert!(most <= LIMIT_BYTES, "{most} bytes were used of {BUDGET_BYTES}, at most {LIMIT_BYTES} may be");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!(
        "{}: {} bytes of values, at most {most} used of {BUDGET_BYTES}, {resident}",
        level.as_str(),
        KEYS as usize * VALUE_BYTES
    );
    engine.close().await.unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!((report.problems, report.keys as u64), (vec![], KEYS));

    let engine = Engine::open(&options).unwrap();
    for n in (0..KEYS).step_by(97) {
        let result = engine.read(b"k", move |keyspace, now| is_right(keyspace, now, n, round_of(n))).await;
        assert!(result.unwrap().0, "key {n} after a restart");
    }
    engine.close().await.unwrap();
}

#[tokio::test]
async fn ten_times_more_values_than_memory_at_fsync() {
    ten_times_more_values_than_memory(Durability::Fsync).await;
}

#[tokio::test]
async fn ten_times_more_values_than_memory_at_commit() {
    ten_times_more_values_than_memory(Durability::Commit).await;
}
