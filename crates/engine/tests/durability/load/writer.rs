//! The process that writes until it is killed. Its protocol is lines:
//!
//! ```text
//! > R shard revision             once for each shard, when the database is open
//! > S group digest revision      once for each group: its state
//! > ready
//! < n n n ...                    how many operations each group has: it continues from there
//! > A group n revision           each time an operation was acknowledged
//! < close                        closes the database and ends; the end of the input ends it at once
//! ```
//! With a file for acknowledgements they are written there too, so that the file layer records their order.

use std::fs::{File, OpenOptions};
use std::io::{Write, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keystead_core::{Code, Outcome, Result};
use keystead_engine::{Durability, Engine, Options};

use super::ops::Op;
use super::state::read_state;

/// What a writer is started with.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) level: Durability,
    pub(crate) shards: usize,
    pub(crate) seed: u64,
    pub(crate) groups: u32,
    /// Memory budget for values; 0 for unlimited.
    pub(crate) memory_bytes: usize,
    pub(crate) acks: Option<PathBuf>,
}

/// Small, so that segments are filled, archived and recycled all the time.
const SEGMENT_BYTES: u64 = 16 * 1024;
const JOURNAL_BYTES_MAX: u64 = 128 * 1024;

impl Plan {
    pub(crate) fn options(&self) -> Options {
        let options = Options::new(&self.dir)
            .durability(self.level)
            .shards(self.shards)
            .segment_bytes(SEGMENT_BYTES)
            .journal_bytes_max(JOURNAL_BYTES_MAX)
            // Writers live for less than the default.
            .archive_every(Duration::from_millis(200))
            // With 1, the archive reads all whole values from the shard, and every record of elements is a batch of its own.
            .archive_batch_bytes([1, 4096, 1 << 20][self.seed as usize % 3]);
        if self.memory_bytes > 0 { options.memory_bytes(self.memory_bytes) } else { options }
    }

    pub(crate) fn to_args(&self) -> Vec<String> {
        let acks = self.acks.as_ref().map_or(String::new(), |path| path.display().to_string());
        vec![
            self.dir.display().to_string(),
            self.level.as_str().to_owned(),
            self.shards.to_string(),
            self.seed.to_string(),
            self.groups.to_string(),
            self.memory_bytes.to_string(),
            acks,
        ]
    }

    fn from_args(args: &[String]) -> Self {
        let [dir, level, shards, seed, groups, memory_bytes, acks] = args else {
            panic!("a writer needs seven arguments, not {args:?}");
        };
        Plan {
            dir: dir.into(),
            level: level.parse().unwrap(),
            shards: shards.parse().unwrap(),
            seed: seed.parse().unwrap(),
            groups: groups.parse().unwrap(),
            memory_bytes: memory_bytes.parse().unwrap(),
            acks: (!acks.is_empty()).then(|| acks.into()),
        }
    }
}

/// The output for acknowledgements.
struct Acks(Option<File>);

impl Acks {
    fn acknowledge(&self, group: u32, n: u64, revision: u64) {
        let line = format!("A {group} {n} {revision}\n");
        self.note(&line);
        say(&line);
    }

    fn note(&self, line: &str) {
        if let Some(mut file) = self.0.as_ref() {
            file.write_all(line.as_bytes()).unwrap();
        }
    }
}

/// One call, so that a kill leaves whole lines.
pub(crate) fn say(line: &str) {
    let mut out = stdout().lock();
    // The parent may have ended already: then this process ends soon too.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Runs in the child, until it is killed.
pub(crate) fn run(args: &[String]) {
    let plan = Plan::from_args(args);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    if let Err(error) = runtime.block_on(write(&plan)) {
        say(&format!("E {error}\n"));
        std::process::exit(1);
    }
}

async fn write(plan: &Plan) -> Result<()> {
    let engine = Engine::open(&plan.options())?;
    for shard in engine.shard_ids() {
        say(&format!("R {shard} {}\n", engine.revision(shard)));
    }
    for group in 0..plan.groups {
        let state = read_state(&engine, group).await?;
        say(&format!("S {group} {} {}\n", state.digest(), state.revision));
    }
    say("ready\n");
    let numbers = starting_numbers();
    let open = |path: &PathBuf| OpenOptions::new().append(true).create(true).open(path).unwrap();
    let acks = Arc::new(Acks(plan.acks.as_ref().map(open)));
    let mut writers = Vec::new();
    for (group, n) in (0..plan.groups).zip(numbers) {
        // What a reader was shown may never be undone, so it counts as acknowledged from now on.
        if n > 0 {
            acks.note(&format!("A {group} {n} 0\n"));
        }
        let (engine, acks, seed) = (engine.clone(), Arc::clone(&acks), plan.seed);
        writers.push(tokio::spawn(async move { write_group(&engine, &acks, seed, group, n).await }));
    }
    for writer in writers {
        writer.await.expect("a writer panicked")?;
    }
    engine.close().await
}

async fn write_group(engine: &Engine, acks: &Acks, seed: u64, group: u32, mut n: u64) -> Result<()> {
    while !CLOSING.load(Ordering::Relaxed) {
        match Op::new(seed, group, n + 1).submit(engine).await {
            Ok(revision) => {
                n += 1;
                acks.acknowledge(group, n, revision);
            }
            // The journal has its maximum size: give the archive time to follow.
            Err(error)
                if error.code() == Code::StoreUnavailable && error.outcome() == Outcome::NotApplied =>
            {
                assert!(engine.health().shards.iter().all(|shard| shard.poisoned.is_none()), "{error}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

static CLOSING: AtomicBool = AtomicBool::new(false);

/// Reads the one line, then waits for the next: a parent that has ended leaves no child behind.
fn starting_numbers() -> Vec<u64> {
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    std::thread::spawn(|| {
        let mut line = String::new();
        if !stdin().read_line(&mut line).is_ok_and(|read| read > 0) {
            std::process::exit(2);
        }
        CLOSING.store(true, Ordering::Relaxed);
    });
    line.split_whitespace().map(|n| n.parse().unwrap()).collect()
}
