//! The section of docs/redis.md about CONFIG SET, generated from the table. It touches nothing.
//!
//! `tests/docs.rs` fails when the page differs.

use std::fmt::Write;

use super::table::{ROWS, Row, Rule};

/// The whole section.
pub(crate) fn page() -> String {
    let mut page = String::from("| These take effect at once | Default |\n|---|---|\n");
    for row in ROWS.iter().filter(|row| matches!(row.rule, Rule::Effective(_))) {
        let _ = writeln!(page, "| {} | {} |", name(row), value(row));
    }
    page.push_str("\n| These accept only their current value | because |\n|---|---|\n");
    let mut reasons: Vec<&str> = Vec::new();
    for why in ROWS.iter().filter_map(reason) {
        if !reasons.contains(&why) {
            reasons.push(why);
            let of_it: Vec<_> = ROWS.iter().filter(|row| reason(row) == Some(why)).map(shown).collect();
            let _ = writeln!(page, "| {} | {why} |", of_it.join(", "));
        }
    }
    let _ = write!(
        page,
        "\nAccepted and stored until the server stops, without effect, because they tune internals of Redis that do not exist here, or \
         concern only a cluster or replicas: {}.\n\nCannot be set at run time (`can't set immutable config`): {}.\n",
        names(|rule| matches!(rule, Rule::Tunes)),
        names(|rule| matches!(rule, Rule::Immutable)),
    );
    page
}

/// Why a setting is rejected.
fn reason(row: &Row) -> Option<&'static str> {
    match row.rule {
        Rule::Start(_, why) | Rule::Rejected(why) | Rule::Hidden(why) => Some(why),
        Rule::Effective(_) | Rule::Tunes | Rule::Immutable => None,
    }
}

/// A setting with its value, where it is constant.
fn shown(row: &Row) -> String {
    match row.rule {
        Rule::Rejected(_) => format!("{} {}", name(row), value(row)),
        _ => name(row),
    }
}

fn value(row: &Row) -> String {
    if row.default.is_empty() { "empty".to_owned() } else { format!("`{}`", row.default) }
}

fn name(row: &Row) -> String {
    match row.also {
        "" => format!("`{}`", row.name),
        also => format!("`{}` (`{also}`)", row.name),
    }
}

fn names(of: fn(&Rule) -> bool) -> String {
    ROWS.iter().filter(|row| of(&row.rule)).map(name).collect::<Vec<_>>().join(", ")
}
