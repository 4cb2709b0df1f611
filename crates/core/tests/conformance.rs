//! The memory store fulfils the contract: one line per store, one test per case.

use std::process::ExitCode;
use std::time::Duration;

use keystead_core::{MemoryOptions, MemoryStore};
use keystead_testkit::{NotOpened, Setup, conformance};

fn main() -> ExitCode {
    conformance()
        .store("memory, 1 shard", |setup| memory(setup, MemoryOptions::default().shards(1)))
        .store("memory, 2 shards", |setup| memory(setup, MemoryOptions::default().shards(2)))
        .store("memory, 64 shards", |setup| memory(setup, MemoryOptions::default().shards(64)))
        .store("memory, swept", |setup| {
            memory(setup, MemoryOptions::default().sweep_every(Duration::from_millis(1)))
        })
        .bounded_store("memory, 1 key", 1, |setup| memory(setup, MemoryOptions::default().max_keys(1)))
        .bounded_store("memory, 1 shard of 50 keys", 50, |setup| {
            memory(setup, MemoryOptions::default().shards(1).max_keys(50))
        })
        .bounded_store("memory, 64 shards of 200 keys", 200, |setup| {
            memory(setup, MemoryOptions::default().max_keys(200))
        })
        .run()
}

async fn memory(setup: Setup, options: MemoryOptions) -> Result<MemoryStore, NotOpened> {
    Ok(MemoryStore::open(options.clock(setup.clock()))?)
}
