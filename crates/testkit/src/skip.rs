//! Tests that find out while they run that they cannot, because a server or a right is missing. They must not count as passed:
//! `./test` names a file, and takes what is written there off the count.

use std::fs::OpenOptions;
use std::io::Write;

use keystead_conformance::NotOpened;

/// The variable with the file in which such tests are listed.
pub const VARIABLE: &str = "KEYSTEAD_SKIPPED";

/// Ends a test that cannot run on this machine, or fails it if `REQUIRE` has `all` or the start of this name.
///
/// # Panics
/// If it is required.
#[track_caller]
pub fn skipped(name: &str, reason: &str) {
    list("ended early", name, reason);
}

/// The same for a part of a test, whose other parts run.
///
/// # Panics
/// If it is required.
#[track_caller]
pub fn skipped_in_part(name: &str, reason: &str) {
    list("in part", name, reason);
}

#[track_caller]
fn list(how: &str, name: &str, reason: &str) {
    let required = std::env::var("REQUIRE").unwrap_or_default();
    let is_required = |word: &str| word == "all" || !word.is_empty() && name.starts_with(word);
    assert!(!required.split(',').map(str::trim).any(is_required), "{name} is required: {reason}");
    let Some(list) = std::env::var_os(VARIABLE) else { return };
    // A line is appended in one write, so that tests of several processes do not mix.
    let line = format!("{how} [skipped: {reason}]\n");
    let listed = OpenOptions::new().create(true).append(true).open(list);
    let listed = listed.and_then(|mut list| list.write_all(line.as_bytes()));
    assert!(listed.is_ok(), "{VARIABLE} names no file that can be written: {listed:?}");
}

/// What was opened; `None` if it is not on this machine and not required, which ends the test.
///
/// # Panics
/// If it is required, or is there and does not work.
#[track_caller]
pub fn found<T>(name: &str, opened: Result<T, NotOpened>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(NotOpened::Missing(reason)) => {
            skipped(name, &reason);
            None
        }
        Err(broken) => panic!("{broken}"),
    }
}
