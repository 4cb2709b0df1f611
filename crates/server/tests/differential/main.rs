//! The same random scripts to a real Redis 7, a real Valkey 9 and Keystead: every reply is compared byte for byte.
//!
//! | To find                                   | open             |
//! |-------------------------------------------|------------------|
//! | the commands and their arguments          | [`families`], [`pools`] |
//! | how they become scripts                   | [`grammar`], [`generate`], [`script`] |
//! | the servers, and how scripts are sent     | [`peers`], [`wire`], [`run`] |
//! | how replies are compared, and exceptions  | [`compare`], [`rules`], [`known`] |
//! | what the servers hold afterwards          | [`dataset`]      |
//! | how a failure becomes small               | [`shrink`]       |
//! | scripts that once failed                  | [`regressions`]  |
//! | replies that are Keystead's own           | [`own`]          |
//! | which commands were hit                   | [`coverage`]     |
//! | rate limits beside throttlecrab           | [`throttle`]     |
//!
//! A test is a family of commands; a failure prints a small script, the replies, and `KEYSTEAD_SEED` to repeat it.
//! `KEYSTEAD_COMMANDS=N` sends so many commands in each test, `KEYSTEAD_COMMANDS=endless` goes on until something differs,
//! `KEYSTEAD_DIFFERENCES=N` until so many commands differ.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

mod compare;
mod coverage;
mod dataset;
mod families;
mod generate;
mod grammar;
mod known;
mod own;
mod peers;
mod pools;
mod regressions;
mod rules;
mod run;
mod script;
mod shrink;
mod throttle;
mod trial;
mod wire;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use families::FAMILIES;
use peers::{Program, REDIS, THROTTLECRAB, VALKEY};
use script::Judges;
use trial::Subject;

fn main() -> ExitCode {
    let mut trials =
        vec![Trial::test("every_row_of_the_table_has_a_template", trial::every_row_has_a_template)];
    for family in FAMILIES {
        let program = if family.judges == Judges::Both { REDIS } else { VALKEY };
        trials.push(compared(&program, family.name, Subject::family(family)));
    }
    for subject in [Subject::mixed(), Subject::mixed_at_commit(), Subject::mixed_on_shards()] {
        trials.push(compared(&REDIS, subject.name, subject));
    }
    trials.push(beside(&[THROTTLECRAB], "throttlecrab::rate_limits", throttle::compare));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn compared(label: &Program, name: &str, subject: Subject) -> Trial {
    let run = move || trial::run_all(&subject).map_err(Failed::from);
    beside(&[REDIS, VALKEY], &format!("{}::{name}", label.name), run)
}

/// A test beside these servers; skipped with the reason where one is missing, unless it is required.
fn beside(
    programs: &[Program],
    name: &str,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let required = std::env::var("REQUIRE").unwrap_or_default().to_lowercase();
    let missing = programs.iter().find_map(|program| Some((program.find().err()?, program.name)));
    match missing {
        None => Trial::test(name, run),
        Some((reason, program))
            if required.split(',').any(|r| matches!(r.trim(), "all") || r.trim() == program) =>
        {
            Trial::test(name, move || {
                Err(Failed::from(format!("{program} is required and missing: {reason}")))
            })
        }
        Some((reason, _)) => Trial::test(name, move || Err(Failed::from(format!("skipped: {reason}"))))
            .with_ignored_flag(true)
            .with_kind(format!("skipped: {reason}")),
    }
}
