//! The conventions of this repository, as tests, so that no reviewer has to repeat them.
//!
//! | To find | open |
//! |---|---|
//! | length, header, clock, lints, changelog | this file |
//! | source files that no crate compiles | `orphans` |
//! | words that the project does not use, in names, documentation and comments | `words` |
//! | the tests that ARCHITECTURE.md names | `invariants` |
//! | the tests that show what differs at the edge | `differences` |

#![allow(clippy::unwrap_used, reason = "a test may")]

mod differences;
mod invariants;
mod orphans;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// A longer file is split into a folder of the same name.
const FILE_LINES_MAX: usize = 500;

/// Markers of unfinished work, written so that this file does not contain them.
const UNFINISHED: [&str; 4] =
    [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME"), concat!("#[", "ignore")];

/// Calls that read the machine's clock or sleep, written in the same way.
const REAL_TIME: [&str; 3] =
    [concat!("SystemTime", "::now"), concat!("Instant", "::now"), concat!("thread", "::sleep")];

/// The only folder that reads the clock.
const CLOCK: &str = "crates/core/src/clock/";

/// Folders without sources of ours.
const SKIPPED: [&str; 5] = ["target", "node_modules", "corpus", "artifacts", "coverage"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every source file of the repository whose name ends like this: its path from the root, and its text.
fn files(ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for top in ["crates", "bench", "fuzz", "edge"] {
        collect(&root().join(top), ending, &mut found);
    }
    assert!(found.len() > 3, "found hardly any {ending}: is {} the repository?", root().display());
    found
}

fn collect(dir: &Path, ending: &str, found: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                collect(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            let from_root = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            found.push((from_root, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Fails with one line for each violation.
#[track_caller]
fn none(what: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{what}:\n  {}", violations.join("\n  "));
}

/// Lines of code that contain one of the words, as `path:line: text`.
fn lines_with(words: &[&str], exempt: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files(".rs").iter().filter(|(path, _)| !exempt(path)) {
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            // A comment may mention what code may not do, but may not postpone work.
            let has = |word: &str| line.contains(word) && (!comment || word.starts_with("FIX"));
            if words.iter().any(|word| has(word)) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn no_file_is_too_long() {
    let long = files(".rs").into_iter().map(|(path, text)| (path, text.lines().count()));
    let long: Vec<_> =
        long.filter(|&(_, lines)| lines > FILE_LINES_MAX).map(|(p, n)| format!("{p}: {n} lines")).collect();
    none("files to split", &long);
}

#[test]
fn every_file_opens_with_its_purpose() {
    let bare = files(".rs").into_iter().filter(|(_, text)| !text.starts_with("//! "));
    none("files that do not open with //!", &bare.map(|(path, _)| path).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_unfinished() {
    none("unfinished", &lines_with(&UNFINISHED, |_| false));
}

#[test]
fn only_the_clock_reads_the_clock() {
    let bench = |path: &str| path.starts_with("bench/") || path.contains("/benches/");
    none("take a Clock instead", &lines_with(&REAL_TIME, |path| path.starts_with(CLOCK) || bench(path)));
}

#[test]
fn every_crate_inherits_the_lints_of_the_workspace() {
    let manifests = files("Cargo.toml");
    // The fuzz targets and the worker are workspaces of their own.
    let own = |path: &str| path.starts_with("fuzz/") || path.starts_with("edge/");
    let members = manifests.into_iter().filter(|(path, _)| !own(path));
    let lax = members.filter(|(_, text)| {
        !text.contains("[lints]\nworkspace = true") && !text.contains("lints.workspace = true")
    });
    none("crates without lints.workspace = true", &lax.map(|(path, _)| path).collect::<Vec<_>>());
}

#[test]
fn the_changelog_has_the_current_version() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let package = manifest.split("[workspace.package]").nth(1).unwrap();
    let version = package.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"');
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap_or_default();
    assert!(changelog.contains(version), "CHANGELOG.md does not mention {version}");
}
