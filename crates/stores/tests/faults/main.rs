//! Faults on the real servers: typed errors meanwhile, no hang, exact counts afterwards.
//!
//! | To find                                           | open      |
//! |---------------------------------------------------|-----------|
//! | a Redis that is killed, paused, cut off, flushed  | `redis`   |
//! | a slot that moves while it is used                | `cluster` |
//! | steps that are scripts, alone, in batches, on hot keys, of combinations | `scripts` |
//! | wrong passwords, wrong servers, wrong URLs        | `rejected` |
//! | what every other server is put through            | `servers` |
//! | a URL of one store at a server of another         | `kinds`   |
//! | PostgreSQL, DynamoDB, Deno KV                     | `postgres`, `dynamodb`, `denokv` |
//! | PostgreSQL through PgBouncer                      | `pgbouncer` |
//! | NATS, etcd                                        | `nats`, `etcd` |
//! | the worker of `edge/`                             | `edge`    |
//! | a server that replies as a test wants             | `fake`    |
//! | servers that are too old                          | `old`     |
//! | when servers may delete records by themselves     | `reclaimed` |

#![cfg(any(
    feature = "redis",
    feature = "postgres",
    feature = "dynamodb",
    feature = "denokv",
    feature = "nats",
    feature = "etcd",
    feature = "cloudflare"
))]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod combined;
#[cfg(feature = "denokv")]
mod denokv;
#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "cloudflare")]
mod edge;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "dynamodb", feature = "denokv", feature = "etcd"))]
mod fake;
#[cfg(all(
    feature = "redis",
    feature = "postgres",
    feature = "dynamodb",
    feature = "denokv",
    feature = "nats",
    feature = "etcd",
    feature = "cloudflare"
))]
mod kinds;
#[cfg(feature = "nats")]
mod nats;
#[cfg(all(feature = "postgres", feature = "nats", feature = "etcd"))]
mod old;
#[cfg(feature = "postgres")]
mod pgbouncer;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(all(feature = "redis", feature = "etcd", feature = "nats"))]
mod reclaimed;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod rejected;
#[cfg(feature = "redis")]
mod scripts;
#[cfg(any(
    feature = "postgres",
    feature = "dynamodb",
    feature = "denokv",
    feature = "nats",
    feature = "etcd"
))]
mod servers;

use std::sync::Arc;

use keystead_core::{Code, Error, Key, Outcome, Stopwatch, Store, StoreExt, SystemClock, Ttl};
use keystead_testkit::servers::{Kind, OwnServer};
use keystead_testkit::skip::found;
use keystead_testkit::steps::increment;

/// The outcomes that callers of apply got, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcomes {
    applied: u64,
    not_applied: u64,
    unknown: u64,
}

impl Outcomes {
    fn add<T>(&mut self, result: &Result<T, Error>) {
        match result {
            Ok(_) => self.applied += 1,
            Err(error) if error.outcome() == Outcome::NotApplied => self.not_applied += 1,
            Err(_) => self.unknown += 1,
        }
    }

    /// Everything acknowledged is counted, nothing that was not applied is.
    #[track_caller]
    fn assert_exact(&self, count: u64) {
        let range = self.applied..=self.applied + self.unknown;
        assert!(range.contains(&count), "{count} is not in {range:?}: {self:?}");
    }
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, other: Outcomes) {
        self.applied += other.applied;
        self.not_applied += other.not_applied;
        self.unknown += other.unknown;
    }
}

/// A server of this test, or `None` if it is not installed and not required.
async fn server(kind: &'static Kind) -> Option<OwnServer> {
    found(kind.name, OwnServer::start(kind).await)
}

fn open(url: &str) -> Arc<dyn Store> {
    keystead_stores::open_on(url, Arc::new(SystemClock)).unwrap()
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// The count, as soon as the server replies.
async fn count(store: &dyn Store, key: &Key) -> u64 {
    loop {
        match store.get::<u64>(key).await {
            Ok(count) => return count.unwrap_or(0),
            Err(error) => assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}"),
        }
    }
}

/// How much later than its deadline a call may return here: others use the machine. Far less than one that hangs.
const LATE_MS: u64 = 5_000;

/// The result of a call, which has returned when its deadline says so.
async fn in_time<T>(deadline_ms: u64, call: impl Future<Output = T>) -> T {
    let since = Stopwatch::start();
    let result = call.await;
    let ms = since.elapsed().as_millis() as u64;
    assert!(ms <= deadline_ms + LATE_MS, "a result after {ms} ms at a deadline of {deadline_ms} ms");
    result
}

async fn add_1(store: &dyn Store, key: &Key) -> Result<u64, Error> {
    store.apply(key, &increment(Ttl::Never)).await
}
