//! The engine fulfils the store contract, at every durability level and with one shard or many.

use std::process::ExitCode;

use keystead_engine::{Durability, Engine, Options};
use keystead_testkit::{NotOpened, Setup, conformance};

fn main() -> ExitCode {
    conformance()
        .store("engine, fsync", |setup| engine(setup, 1, Durability::Fsync))
        .store("engine, commit", |setup| engine(setup, 1, Durability::Commit))
        .store("engine, commit, 16 shards", |setup| engine(setup, 16, Durability::Commit))
        .store("engine, memory", |setup| engine(setup, 1, Durability::Memory))
        .run()
}

async fn engine(setup: Setup, shards: usize, durability: Durability) -> Result<Engine, NotOpened> {
    let options = Options::new(setup.dir()?.join("data")).shards(shards).durability(durability);
    Ok(Engine::open(&options.segment_bytes(1 << 20).clock(setup.clock()))?)
}
