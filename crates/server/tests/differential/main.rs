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
//! | the worker of `edge/` as the subject      | [`edge`]         |
//!
//! A test is a family of commands; a failure prints a small script, the replies, and `KEYSTEAD_SEED` to repeat it.
//! `KEYSTEAD_COMMANDS=N` sends so many commands in each test, `KEYSTEAD_COMMANDS=endless` goes on until something differs,
//! `KEYSTEAD_DIFFERENCES=N` until so many commands differ.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

#[path = "../upstash/client.rs"]
#[allow(dead_code, reason = "these tests need little of it")]
mod client;
mod compare;
mod coverage;
#[path = "../common/edge.rs"]
mod database;
mod dataset;
mod edge;
mod families;
mod generate;
mod grammar;
mod known;
mod own;
mod peers;
mod pools;
mod regressions;
#[path = "../common/rest.rs"]
mod rest;
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
        trials.push(compared(program.name, Subject::family(family)));
    }
    for subject in [Subject::mixed(), Subject::mixed_at_commit(), Subject::mixed_on_shards()] {
        trials.push(compared(REDIS.name, subject));
    }
    for subject in edge::subjects() {
        trials.push(compared("edge", subject));
    }
    trials.push(beside(&[THROTTLECRAB], "throttlecrab::rate_limits", throttle::compare));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn compared(label: &str, subject: Subject) -> Trial {
    let name = format!("{label}::{}", subject.name);
    let missing = subject.at_edge.then(edge::missing).flatten().map(|reason| (reason, "edge"));
    let subject_is_at_edge = subject.at_edge;
    let run = move || trial::run_all(&subject).map_err(Failed::from);
    match missing {
        Some(missing) => skipped(missing, &name),
        None if subject_is_at_edge => Trial::test(name, run),
        None => beside(&[REDIS, VALKEY], &name, run),
    }
}

/// A test beside these servers; skipped with the reason where one is missing, unless it is required.
fn beside(
    programs: &[Program],
    name: &str,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let missing = programs.iter().find_map(|program| Some((program.find().err()?.to_owned(), program.name)));
    match missing {
        None => Trial::test(name, run),
        Some(missing) => skipped(missing, name),
    }
}

/// A test that cannot run, and why.
fn skipped((reason, program): (String, &'static str), name: &str) -> Trial {
    let required = std::env::var("REQUIRE").unwrap_or_default().to_lowercase();
    if required.split(',').any(|r| matches!(r.trim(), "all") || r.trim() == program) {
        let words = format!("{program} is required and missing: {reason}");
        return Trial::test(name, move || Err(Failed::from(words)));
    }
    let words = format!("skipped: {reason}");
    let kind = words.clone();
    Trial::test(name, move || Err(Failed::from(words))).with_ignored_flag(true).with_kind(kind)
}
