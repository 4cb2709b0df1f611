//! The one table of what differs at the edge, in docs/edge.md. A row is named by its first cell, without the marks of Markdown.

const PAGE: &str = include_str!("../../../../docs/edge.md");

/// The names of the rows.
pub(crate) fn rows() -> Vec<String> {
    let (_, section) = PAGE.split_once("\n## What is different\n").expect("the page has the section");
    let (section, _) = section.split_once("\n## ").expect("another section follows");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    // The head begins with an empty cell.
    cells.filter(|cell| !cell.starts_with('|')).map(|cell| cell.replace('`', "")).collect()
}

/// Whether a row applies: to the worker, all do.
///
/// # Panics
/// If the table has no such row.
#[track_caller]
pub(crate) fn differs(row: &str) -> bool {
    assert!(rows().iter().any(|name| name == row), "docs/edge.md has no row '{row}': {:?}", rows());
    true
}
