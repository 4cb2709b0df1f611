//! The same random timelines of checks on every store: equal decisions and states at every step, bit for bit.
//!
//! `KEYSTEAD_SEED=N` repeats a counterexample, `KEYSTEAD_OPS=N` runs more timelines.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;

use std::pin::Pin;
use std::sync::Arc;

use keystead_core::{ManualClock, Millis, Store};
use keystead_testkit::decisions::{combinations, timelines};
use keystead_testkit::rng::{fresh_seed, seed_from_env};
use keystead_testkit::skip::skipped_in_part;
use keystead_testkit::{Checked, NotOpened};
use tokio::runtime::Builder;

use support::{ON_SERVERS, OnServer};

fn count() -> u64 {
    std::env::var("KEYSTEAD_OPS").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(200)
}

/// A comparison of a store with memory.
type Compared<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;
type Compare = for<'a> fn(&'a Arc<dyn Store>, &'a ManualClock, &'a str, Seeds) -> Compared<'a>;
type Seeds = Box<dyn Iterator<Item = u64> + Send>;

async fn compare(on_server: &OnServer, count: u64, compare: Compare) -> Result<(), String> {
    let clock = ManualClock::at(Millis(2_000_000_000_000));
    let opened = match on_server.open(Arc::new(clock.clone())).await {
        Ok(opened) => opened,
        Err(NotOpened::Missing(reason)) => {
            skipped_in_part(on_server.label, &reason);
            return Ok(());
        }
        Err(broken) => return Err(broken.to_string()),
    };
    let prefix = format!("timelines-{:x}", fresh_seed());
    let first = seed_from_env().unwrap_or_else(fresh_seed);
    // Kept seeds run first.
    let seeds = Box::new((1..=count / 4).chain((0..count).map(move |i| first.wrapping_add(i))));
    compare(&opened.store, &clock, &prefix, seeds).await.map_err(|failure| failure.to_string())
}

fn every_store(at_the_edge: bool, count: u64, compares: Compare) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut wrong = Vec::new();
    let chosen = |on_server: &&OnServer| {
        on_server.is_at_the_edge() == at_the_edge && !on_server.label.contains("server clock")
    };
    for on_server in ON_SERVERS.iter().filter(chosen) {
        if let Err(difference) = runtime.block_on(compare(on_server, count, compares)) {
            wrong.push(format!("{}: {difference}", on_server.label));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn decides(at_the_edge: bool) {
    every_store(at_the_edge, count(), |store, clock, prefix, seeds| {
        Box::pin(timelines::compare(&**store, clock, prefix, seeds))
    });
}

fn combines(at_the_edge: bool) {
    // Each has several limits.
    every_store(at_the_edge, count() / 4, |store, clock, prefix, seeds| {
        Box::pin(combinations::compare(store, clock, prefix, seeds))
    });
}

#[test]
fn every_store_decides_as_memory_does() {
    decides(false);
}

#[test]
fn every_store_combines_limits_as_memory_does() {
    combines(false);
}

/// One caller at a time, also on Workers KV.
#[test]
fn every_store_at_the_edge_decides_as_memory_does() {
    decides(true);
}

#[test]
fn every_store_at_the_edge_combines_limits_as_memory_does() {
    combines(true);
}
