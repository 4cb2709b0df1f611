//! The engine as an embedded database: open a directory, write, read, close, and open it again.
//!
//! ```text
//! cargo run -p keystead-engine --example embedded -- /tmp/example-db
//! ```
//!
//! Run it twice: the counter goes on where it stopped, because the writes were durable when they were acknowledged.

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use keystead_core::{Change, Key, Millis, Result, StoreExt, Ttl, step_fn};
use keystead_engine::{Durability, Engine, Options};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "example-db".to_string());
    let options = Options::new(&dir).durability(Durability::Fsync);

    let engine = Engine::open(&options)?;

    // A write runs on the shard of its key and is atomic. It returns when the change is durable: at `Fsync`, on disk.
    let set = |keyspace: &mut Keyspace, now| {
        keyspace.set_str(b"greeting", Bytes::from(b"hello".as_slice()), Expire::At(Millis::NEVER), now)
    };
    let version = engine.write(b"greeting", set).await?;
    println!("greeting has version {version}");

    // The engine is also a `Store`, which runs steps.
    let runs = Key::new("runs")?;
    let increment = step_fn(|count: Option<&u64>, _now| {
        let count = count.copied().unwrap_or(0) + 1;
        Change::Put(count, Ttl::Never, count)
    });
    println!("run number {}", engine.apply(&runs, &increment).await?);

    engine.close().await?;

    // What was acknowledged is there after opening again.
    let engine = Engine::open(&options)?;
    let get = |keyspace: &mut Keyspace, now| Ok(keyspace.str(b"greeting", now)?.cloned());
    let greeting = engine.read(b"greeting", get).await?;
    println!("greeting is {:?}", greeting.as_deref().map(String::from_utf8_lossy));
    println!("runs so far: {:?}", engine.get::<u64>(&runs).await?);
    engine.close().await
}
