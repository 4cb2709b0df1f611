//! What is durable when: child processes are killed, disks lose unsynced data, are held back and full.
//!
//! | To find                                     | open       |
//! |---------------------------------------------|------------|
//! | SIGKILL at random moments                   | [`crash`]  |
//! | power loss: unsynced data is lost           | [`power`]  |
//! | a disk that is held back                    | [`held`]   |
//! | disks that fill up or fail                  | [`faults`] |
//! | SIGKILL in a certain stage                  | [`stages`] |
//! | the load, and what must be left of it       | [`load`]   |
//! | child processes                             | [`child`]  |
//! | the file layer                              | [`shim`]   |
//!
//! The binary starts itself again as a child: hence no test harness of its own. Random tests print their seed;
//! `KEYSTEAD_SEED` repeats it, `KEYSTEAD_KILLS` and `KEYSTEAD_POINTS` make them longer.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

mod child;
mod crash;
mod faults;
mod held;
mod load;
mod power;
mod scene;
mod shim;
mod stages;

use std::io::Write;
use std::process::ExitCode;

use keystead_engine::Durability;
use libtest_mimic::{Arguments, Failed, Trial};

use power::Levels;
use scene::{Act, Scene};

/// A test that kills a child in a certain stage.
type Stage = (&'static str, fn() -> Result<(), Failed>);

/// Names each scene after its function.
macro_rules! scenes {
    ($($module:ident::$scene:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($scene)), $module::$scene)),*]
    };
}

/// The tests that run in a child whose disk they control. A function that has no row here is unused, which is an error.
const SCENES: &[(&str, Act)] = scenes![
    held::a_read_never_shows_what_is_not_yet_durable,
    held::an_error_waits_for_what_it_depends_on,
    held::a_sequence_is_delivered_when_it_is_durable,
    faults::a_full_disk_under_the_journal_poisons_until_a_restart,
    faults::a_failed_write_of_the_journal_poisons_until_a_restart,
    faults::a_failed_sync_of_the_journal_poisons_until_a_restart,
    faults::a_full_disk_for_a_new_segment_poisons_until_a_restart,
    faults::a_full_disk_under_the_archive_rejects_writes_until_there_is_space,
    faults::a_checkpoint_that_fails_rejects_writes_until_it_succeeds,
    faults::a_close_with_a_full_archive_loses_nothing,
    faults::a_full_disk_at_creation_is_reported_and_leaves_no_obstacle,
    faults::a_directory_that_another_process_has_open_is_rejected,
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, rest @ ..] = &args[..]
        && flag == child::CHILD
    {
        run_child(name, rest);
        return ExitCode::SUCCESS;
    }
    let mut trials: Vec<Trial> =
        SCENES.iter().map(|(name, _)| Trial::test(*name, || scene::play(name))).collect();
    for level in [Durability::Fsync, Durability::Commit] {
        for shards in [1, 4] {
            let name = format!(
                "crash::every_acknowledged_write_survives_kills_at_{}_on_{shards}_shards",
                level.as_str()
            );
            trials.push(Trial::test(name, move || {
                crash::every_acknowledged_write_survives_kills(level, shards)
            }));
        }
    }
    for (levels, shards) in
        [(Levels::Fsync, 1), (Levels::Fsync, 4), (Levels::Mixed, 1), (Levels::Mixed, 2), (Levels::Commit, 1)]
    {
        let promise = match levels {
            Levels::Commit => "the_test_finds_losses_at_commit",
            Levels::Fsync => "nothing_acknowledged_is_lost_at_fsync",
            Levels::Mixed => "nothing_shown_at_fsync_is_lost_after_commit",
        };
        let name = format!("power::{promise}_on_{shards}_shards");
        trials.push(Trial::test(name, move || power::nothing_acknowledged_is_lost(levels, shards)));
    }
    let stages: [Stage; 3] = [
        ("kills_while_acknowledgements_are_delayed", stages::kills_while_acknowledgements_are_delayed),
        ("kills_while_free_space_is_returned", stages::kills_while_free_space_is_returned),
        ("kills_while_a_schema_is_migrated", stages::kills_while_a_schema_is_migrated),
    ];
    trials.extend(stages.map(|(name, test)| Trial::test(format!("stages::{name}"), test)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run_child(name: &str, args: &[String]) {
    match (name, args) {
        ("writer", plan) => load::writer::run(plan),
        ("stage", [stage, home]) => stages::run_child(stage, home),
        ("opener", [home]) => faults::open_and_report(home),
        ("scene", [wanted, home]) => {
            let (_, act) = SCENES.iter().find(|(name, _)| name == wanted).expect("there is no such scene");
            act(&Scene::new(home.as_ref()));
        }
        _ => panic!("there is no child {name} {args:?}"),
    }
}

/// Prints a line to the test's output.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn number_from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
