//! Killed with SIGKILL at any time, also during recovery from the last kill: every acknowledged write is there, none is
//! half done, versions and revisions never decrease, and the files are consistent.

use std::time::Duration;

use keystead_core::Stopwatch;
use keystead_engine::{Durability, Engine, check};
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use libtest_mimic::Failed;

use crate::child::{Writer, when_free};
use crate::load::ledger::{Ledger, Truth, Verdict};
use crate::load::state::read_state;
use crate::load::writer::Plan;
use crate::{number_from_env, say};

/// Kills for each level and number of shards, unless the environment sets another number.
const KILLS: u64 = 30;
const KILLS_VARIABLE: &str = "KEYSTEAD_KILLS";

const GROUPS: u32 = 24;

/// How long a writer runs at most, from its start or from its first write.
const LIFE_MS: u64 = 120;

pub(crate) fn every_acknowledged_write_survives_kills(
    level: Durability,
    shards: usize,
) -> Result<(), Failed> {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let kills = number_from_env(KILLS_VARIABLE).unwrap_or(KILLS);
    let watch = Stopwatch::start();
    say(&format!("KEYSTEAD_SEED={seed} {KILLS_VARIABLE}={kills}"));
    let mut rng = Rng::new(seed);
    let home = tempfile::tempdir()?;
    let dir = home.path().join("data");
    let mut plan = Plan { dir, level, shards, seed, groups: GROUPS, memory_bytes: 0, acks: None };
    let (mut ledger, mut truth) = (Ledger::new(GROUPS, shards), Truth::new(seed, GROUPS));
    let (mut ready, mut begun, mut killed) = (0, false, 0);
    // On a busy machine writers may be killed before they have archived anything: more of them are needed then.
    for kill in 0..kills * 10 {
        if kill >= kills && oldest_segment(&plan) > 1 {
            break;
        }
        plan.memory_bytes = [0, 256 * 1024][rng.below(2) as usize];
        let mut writer = Writer::start(&plan, &[]);
        if rng.below(4) > 0 {
            writer.listen_until_ready(&mut ledger, &mut truth);
        }
        let ended = writer.listen(Duration::from_millis(rng.below(LIFE_MS)), &mut ledger, &mut truth);
        assert!(!ended, "the writer ended by itself before kill {kill}");
        begun |= writer.is_ready;
        ready += u64::from(writer.is_ready);
        writer.kill(&mut ledger, &mut truth);
        killed += 1;
        // When it was killed before the database was created and anything was acknowledged, a check may fail.
        if begun {
            is_sound(&plan);
        }
    }
    assert!(ready * 3 > killed, "only {ready} of {killed} kills met a writer at work");
    come_back(&plan, &mut ledger, &mut truth);
    let oldest = oldest_segment(&plan);
    assert!(oldest > 1, "the journal never recycled a segment: nothing was checkpointed");
    say(&format!(
        "{killed} kills, {ready} of them at work, {} acknowledged writes, the oldest segment is {oldest}, {:?}",
        ledger.acks,
        watch.elapsed()
    ));
    Ok(())
}

fn is_sound(plan: &Plan) {
    let report = when_free(|| check(&plan.dir));
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Opens it in this process, closes it cleanly, and opens it once more.
fn come_back(plan: &Plan, ledger: &mut Ledger, truth: &mut Truth) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for _ in 0..2 {
        let engine = when_free(|| Engine::open(&plan.options()));
        for shard in engine.shard_ids() {
            ledger.compare_revision(shard, engine.revision(shard).0).unwrap();
        }
        for group in 0..plan.groups {
            let state = runtime.block_on(read_state(&engine, group)).unwrap();
            let verdict = ledger.compare(truth, group, state.digest(), state.revision);
            assert!(matches!(verdict, Verdict::Kept(_)), "group {group}: {verdict:?}\n{}", state.text);
        }
        runtime.block_on(engine.close()).unwrap();
        is_sound(plan);
    }
}

fn oldest_segment(plan: &Plan) -> u64 {
    let first = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".journal")?.parse::<u64>().ok()
    };
    let entries = std::fs::read_dir(plan.dir.join("shard-0/journal")).unwrap().flatten();
    entries.filter_map(first).min().unwrap_or(0)
}
