//! The table of what differs at the edge, in docs/edge.md: each row is named by a test, and a test names no other.

use std::collections::BTreeSet;

use regex::Regex;

#[allow(dead_code, reason = "only its rows are compared here")]
#[path = "../../../server/tests/common/differences.rs"]
mod table;

/// The rows that the tests name: those of the server in Rust, and those of the worker in JavaScript.
fn named() -> BTreeSet<String> {
    let call = Regex::new(r#"\bdiffers\(\s*"([^"]+)"\s*,?\s*\)"#).unwrap();
    let tests = super::files(".rs")
        .into_iter()
        .chain(super::files(".cjs"))
        .filter(|(path, _)| path.contains("/tests/"));
    tests
        .flat_map(|(_, text)| call.captures_iter(&text).map(|found| found[1].to_owned()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn each_difference_at_the_edge_is_shown_by_a_test() {
    let rows: BTreeSet<String> = table::rows().into_iter().collect();
    assert!(rows.len() > 10, "the table was not found: {rows:?}");
    let named = named();
    let unused: Vec<_> =
        rows.difference(&named).map(|row| format!("no test shows the row '{row}'")).collect();
    let unknown: Vec<_> =
        named.difference(&rows).map(|row| format!("docs/edge.md has no row '{row}'")).collect();
    super::none("differences at the edge", &[unused, unknown].concat());
}
