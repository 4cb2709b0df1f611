//! The entry function of a command is named after it: the rule in `src/families/mod.rs`, checked in the source of the tables.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::path::{Path, PathBuf};

use keystead_commands::Spec;
use keystead_commands::spec::Run;
use keystead_commands::table;

/// A row as it is written in a table.
struct Row {
    full_name: String,
    /// The last segment of the path of the entry function.
    function: String,
}

#[test]
fn entry_functions_are_named_after_their_commands() {
    let mut rows = Vec::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/families")) {
        rows.extend(rows_in(&fs::read_to_string(file).unwrap()));
    }
    let mut written: Vec<_> = rows.iter().map(|row| row.full_name.as_str()).collect();
    let has_function = |spec: &&Spec| !matches!(spec.run, Run::Control(_));
    let mut listed: Vec<_> = table::leaves().filter(has_function).map(|spec| spec.full_name).collect();
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed, "this test does not find the rows of the table");

    // Commands that do the same share a function, which is named after one of them.
    let names = |name: &Row, row: &Row| container(name) == container(row) && expected(name) == row.function;
    let wrong =
        rows.iter().filter(|row| !rows.iter().any(|name| names(name, row) && name.function == row.function));
    let wrong: Vec<_> = wrong.map(|row| format!("{} runs `{}`", row.full_name, row.function)).collect();
    assert!(wrong.is_empty(), "not named after the command, see src/families/mod.rs: {}", wrong.join(", "));
}

fn container(row: &Row) -> Option<&str> {
    row.full_name.split_once('|').map(|(container, _)| container)
}

/// The name that the entry function should have.
fn expected(row: &Row) -> String {
    let own = row.full_name.rsplit('|').next().unwrap();
    match own {
        "move" | "type" => format!("{own}_"),
        own => own.replace(['.', '-'], "_"),
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The rows with a function: `Spec::data("xgroup|create", ..., group::create)`.
fn rows_in(source: &str) -> Vec<Row> {
    let starts = ["Spec::data(", "Spec::conn(", "Spec::shared("];
    let calls = starts.iter().flat_map(|start| source.split(start).skip(1));
    calls.map(|call| row(arguments(call))).collect()
}

fn row(arguments: &str) -> Row {
    let full_name = arguments.split('"').nth(1).unwrap().to_owned();
    let last = arguments.trim_end().trim_end_matches(',').rsplit([',', ':']).next().unwrap();
    Row { full_name, function: last.trim().to_owned() }
}

/// The text up to the parenthesis that closes the call.
fn arguments(call: &str) -> &str {
    let mut open = 1;
    let end = call.find(|c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open == 0
    });
    &call[..end.unwrap()]
}
