//! The table of invariants in ARCHITECTURE.md: every test that it names exists.
//!
//! The last cell of a row names tests in code spans: a file or folder under `crates/` (`core/tests/allocations.rs`), another file
//! of the same folder (`random.rs`), or, after a file or folder, functions and modules in it (`crash::*`). After the word "case" it
//! is `group::name` of the conformance suite.

use std::fs;
use std::path::{Path, PathBuf};

use super::{collect, none, root};

/// The rows of the first table after the heading, without its header: all cells but the last, and the last.
fn rows(text: &str) -> Vec<(String, String)> {
    let section = text.split("\n## Invariants\n").nth(1).expect("ARCHITECTURE.md has a section Invariants");
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table
        .skip(2)
        .filter_map(|line| {
            let (invariant, tests) =
                line.trim_end_matches([' ', '|']).trim_start_matches('|').rsplit_once(" | ")?;
            Some((invariant.trim().to_string(), tests.trim().to_string()))
        })
        .collect()
}

/// The code spans of a cell, each with the text before it.
fn spans(cell: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = cell.split('`').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Everything below a file or folder, as text, with the names of its files.
fn contents(path: &Path) -> String {
    let mut found = Vec::new();
    if path.is_dir() {
        collect(path, ".rs", &mut found);
    } else {
        found.push((path.display().to_string(), fs::read_to_string(path).unwrap_or_default()));
    }
    found.iter().map(|(path, text)| format!("{path}\n{text}\n")).collect()
}

/// Whether a source declares this name: as a function, a module, a file, or the name of a test in a table.
fn declares(source: &str, name: &str) -> bool {
    let functions =
        [format!("fn {name}("), format!("fn {name}<"), format!("mod {name};"), format!("mod {name} {{")];
    let others = [format!("\"{name}\""), format!("/{name}.rs\n"), format!("/{name}/")];
    functions.iter().chain(&others).any(|form| source.contains(form.as_str()))
}

/// Where the tests of a row were searched last.
struct TestPath {
    path: PathBuf,
    source: String,
}

/// What is wrong with a cell. `place` is the file or folder that the last name referred to; "the same file" in the next row means it.
fn problems(cell: &str, place: &mut Option<TestPath>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_case = false;
    if spans(cell).is_empty() && !(cell.contains("the same file") && place.is_some()) {
        wrong.push("it names no test".to_string());
    }
    for (before, span) in spans(cell) {
        is_case = if before.contains("case") { true } else { is_case && before.trim() == "," };
        if is_case {
            wrong.extend(missing_case(span));
        } else if span.contains('/') || span.ends_with(".rs") {
            let folder = place.as_ref().and_then(|place| place.path.parent().map(Path::to_path_buf));
            let folder = if span.contains('/') { Some(root().join("crates")) } else { folder };
            let path = folder.unwrap_or_default().join(span);
            if !path.exists() {
                wrong.push(format!("there is no {span}"));
            }
            *place = Some(TestPath { source: contents(&path), path });
        } else {
            match place {
                Some(place) => {
                    let missing = span
                        .split("::")
                        .filter(|part| *part != "*")
                        .find(|part| !declares(&place.source, part));
                    wrong.extend(
                        missing.map(|part| format!("there is no {part} in {}", place.path.display())),
                    );
                }
                None => wrong.push(format!("'{span}' follows no file")),
            }
        }
    }
    wrong
}

/// Why there is no such conformance case.
fn missing_case(case: &str) -> Option<String> {
    let (group, name) = case.split_once("::").unwrap_or((case, "*"));
    let path = root().join(format!("crates/conformance/src/cases/{group}.rs"));
    let Ok(text) = fs::read_to_string(path) else {
        return Some(format!("there is no group of cases '{group}'"));
    };
    let exists = name == "*" || text.contains(&format!("name: \"{name}\""));
    (!exists).then(|| format!("there is no conformance case '{case}'"))
}

#[test]
fn every_test_that_the_table_of_invariants_names_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = rows(&text);
    assert!(rows.len() > 30, "found only {} rows", rows.len());
    let (mut wrong, mut place) = (Vec::new(), None);
    for (invariant, cell) in &rows {
        wrong.extend(problems(cell, &mut place).into_iter().map(|problem| format!("{invariant}: {problem}")));
    }
    none("ARCHITECTURE.md names tests that do not exist", &wrong);
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let wrong = |cell: &str| problems(cell, &mut None).len();
    assert_eq!(wrong("cases `denied::*`, `contention::200_applies_read_back_200`"), 0);
    assert_eq!(
        wrong(
            "`core/tests/allocations.rs`, `core/src/table/wheel.rs`: `random_histories_agree_with_a_sorted_map`"
        ),
        0
    );
    assert_eq!(wrong("`lua/tests/judge.rs`, `random.rs`"), 0);
    for cell in [
        "case `denied::no_such_case`",
        "`core/tests/no_such_file.rs`",
        "`core/src/table/wheel.rs`: `no_such_function`",
        "`lua/tests/judge.rs`, `no_such_file.rs`",
        "`engine/tests/durability`: `no_such_module::*`",
        "the same file",
        "some test",
    ] {
        assert_eq!(wrong(cell), 1, "{cell}");
    }
}
