//! Power loss: a disk that loses what was not synced, or keeps any part of it, torn at any byte.
//!
//! A writer is started several times with every change of its files recorded; some runs end with a kill, some with a close. From
//! this one log a crash at any point is computed: what the disk must have, and a random part of what it may have. Then the
//! database is opened from there. At `fsync` nothing acknowledged may be missing; at `commit` the same test must find losses,
//! which proves that it can fail.
//!
//! | To find                               | open     |
//! |---------------------------------------|----------|
//! | the log and its entries               | [`log`]  |
//! | what a disk has and may have          | [`disk`] |

mod disk;
mod log;

use std::path::Path;
use std::time::Duration;

use keystead_core::Stopwatch;
use keystead_engine::{Durability, Engine, check};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use libtest_mimic::Failed;

use crate::child::{Writer, quick_dir, when_free};
use crate::load::ledger::{Ledger, Truth, Verdict};
use crate::load::state::read_state;
use crate::load::writer::Plan;
use crate::{number_from_env, say, shim};
use disk::Disk;
use log::Entry;

/// Points for each durability level, unless the environment sets another number.
const POINTS: u64 = 150;
const POINTS_VARIABLE: &str = "KEYSTEAD_POINTS";

const GROUPS: u32 = 12;
const LIVES: u64 = 6;

/// Changes of files until a run ends.
const CHANGES_MAX: u64 = 4000;

/// How long a sync takes, so that others write meanwhile.
const SYNC_US: u64 = 300;

/// The level of each run, and which acknowledgements must survive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Levels {
    Fsync,
    Commit,
    /// Runs at `commit` and at `fsync` in turns. What was acknowledged or read at `fsync` must stay.
    Mixed,
}

pub(crate) fn nothing_acknowledged_is_lost(levels: Levels, shards: usize) -> Result<(), Failed> {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let points = number_from_env(POINTS_VARIABLE).unwrap_or(POINTS);
    say(&format!("KEYSTEAD_SEED={seed} {POINTS_VARIABLE}={points}"));
    let watch = Stopwatch::start();
    let mut truth = Truth::new(seed, GROUPS);
    let record = quick_dir();
    let home = record.path().canonicalize()?.join("disk");
    std::fs::create_dir(&home)?;
    let entries = live(levels, shards, seed, &home, &mut truth);
    let recorded = watch.elapsed();
    let mut rng = Rng::new(seed ^ 1);
    let mut wanted: Vec<u64> = (0..points).map(|_| rng.below(entries.len() as u64 + 1)).collect();
    wanted.sort_unstable();
    let mut disk = Disk::new(&home);
    let mut promises = Promises::new(levels, shards);
    let (mut done, mut lost) = (0, 0);
    for point in wanted {
        for entry in &entries[done..point as usize] {
            disk.take(entry);
            promises.take(entry);
        }
        done = point as usize;
        let dir = quick_dir();
        let choice = disk.lose_power(dir.path(), &mut rng);
        let what = format!("KEYSTEAD_SEED={seed}, power loss after {point} changes, {choice}");
        lost += u64::from(come_back(&dir.path().join("data"), &promises, &mut truth, &what));
    }
    let acks = promises.acks;
    say(&format!(
        "{} changes, {acks} acknowledged writes, recorded in {recorded:?}; {points} power losses, \
         {lost} with lost writes, {:?}",
        entries.len(),
        watch.elapsed()
    ));
    match levels {
        Levels::Commit => assert!(lost > 0, "at commit a power loss costs something: this test cannot fail"),
        _ => assert_eq!(lost, 0),
    }
    assert!(acks > 500, "only {acks} writes were acknowledged");
    Ok(())
}

/// Runs a writer several times and returns the log.
fn live(levels: Levels, shards: usize, seed: u64, home: &Path, truth: &mut Truth) -> Vec<Entry> {
    let mut rng = Rng::new(seed);
    let log = home.with_file_name("log");
    let mut ledger = Ledger::new(GROUPS, shards);
    for life in 0..LIVES {
        let level = match levels {
            Levels::Mixed if life % 2 == 0 => Durability::Commit,
            Levels::Mixed | Levels::Fsync => Durability::Fsync,
            Levels::Commit => Durability::Commit,
        };
        let (dir, acks) = (home.join("data"), Some(home.join(log::acks_name(level))));
        let memory_bytes = [0, 256 * 1024][rng.below(2) as usize];
        let plan = Plan { dir, level, shards, seed, groups: GROUPS, memory_bytes, acks };
        let mut environment = shim::environment(home);
        environment.push(("SHIM_LOG", log.display().to_string()));
        environment.push(("SHIM_SYNC_US", SYNC_US.to_string()));
        // A run that closes gets more changes than it needs; the others end in the middle.
        let closes = life % 3 == 2;
        let changes = if closes { 1 << 40 } else { 1 + rng.below(CHANGES_MAX) };
        environment.push(("SHIM_END_AFTER", changes.to_string()));
        let mut writer = Writer::start(&plan, &environment);
        if closes {
            writer.listen(Duration::from_millis(400), &mut ledger, truth);
            writer.close(&mut ledger, truth);
        } else {
            writer.end(&mut ledger, truth);
        }
    }
    log::read(&log)
}

/// Opens what a power loss has left, and returns whether something acknowledged is missing. Any other problem
/// is a failure.
fn come_back(dir: &Path, promises: &Promises, truth: &mut Truth, what: &str) -> bool {
    let demands = matches!(promises.levels, Levels::Fsync | Levels::Mixed);
    let plan = Plan {
        dir: dir.to_path_buf(),
        level: Durability::Fsync,
        shards: promises.shards,
        seed: 0,
        groups: GROUPS,
        memory_bytes: 0,
        acks: None,
    };
    let engine = Engine::open(&plan.options()).unwrap_or_else(|error| keep_and_panic(dir, what, &error));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut lost = false;
    for shard in engine.shard_ids() {
        let (now, known) = (engine.revision(shard).0, promises.ledger.revisions()[shard.0]);
        assert!(!demands || now >= known, "{what}: shard {shard} went back from revision {known} to {now}");
    }
    for group in 0..GROUPS {
        let state = runtime.block_on(read_state(&engine, group)).unwrap();
        let (must, may) = (promises.ledger.acked()[group as usize], promises.may[group as usize] + 1);
        match truth.judge(group, state.digest(), must, may) {
            Verdict::Kept(_) => {}
            Verdict::Lost(n) => {
                lost = true;
                assert!(
                    !demands,
                    "{what}: group {group} has {n} operations of {must} that were acknowledged"
                );
            }
            Verdict::Impossible => {
                let text = &state.text;
                keep_and_panic(
                    dir,
                    what,
                    &format!("group {group} ({must} to {may}) is in no state it ever had:\n{text}"),
                )
            }
        }
    }
    runtime.block_on(engine.close()).unwrap();
    let report = when_free(|| check(dir));
    assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
    lost
}

/// Keeps the directory for debugging.
fn keep_and_panic(dir: &Path, what: &str, error: &dyn std::fmt::Display) -> ! {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("power-loss");
    let _ = std::fs::remove_dir_all(&kept);
    let copied = std::process::Command::new("cp").arg("-r").arg(dir).arg(&kept).status();
    panic!("{what}: {error}\n(kept in {}: {copied:?})", kept.display());
}

/// What was acknowledged up to a point of the log.
struct Promises {
    levels: Levels,
    shards: usize,
    /// What must be there.
    ledger: Ledger,
    /// Operations that are known to have run.
    may: Vec<u64>,
    acks: u64,
}

impl Promises {
    fn new(levels: Levels, shards: usize) -> Self {
        let may = vec![0; GROUPS as usize];
        Promises { levels, shards, ledger: Ledger::new(GROUPS, shards), may, acks: 0 }
    }

    fn take(&mut self, entry: &Entry) {
        let Some((level, ack)) = entry.ack() else { return };
        let (group, n) = (ack.group as usize, ack.n);
        self.may[group] = self.may[group].max(n);
        if !matches!((self.levels, level), (Levels::Mixed, Durability::Commit)) {
            self.ledger.acknowledge(ack.group, n, ack.revision);
            self.acks += 1;
        }
    }
}
