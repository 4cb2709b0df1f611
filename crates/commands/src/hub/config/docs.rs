//! The part of docs/redis.md about CONFIG SET, made from the table. It touches nothing.
//!
//! `tests/docs.rs` fails when the page says something else.

use std::fmt::Write;

use super::table::{ROWS, Row, Rule};

/// The whole part.
pub(crate) fn page() -> String {
    let mut page = String::from("| These take effect at once | Value at the start |\n|---|---|\n");
    for row in ROWS.iter().filter(|row| matches!(row.rule, Rule::Effective(_))) {
        let _ = writeln!(page, "| {} | {} |", name(row), value(row));
    }
    page.push_str("\n| These may only be set to what they are | because |\n|---|---|\n");
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
        "\nAccepted and remembered until the server ends, because they tune what is inside Redis and built otherwise here, or what only a \
         cluster or replicas feel: {}.\n\nNot to be set while the server runs (`can't set immutable config`): {}.\n",
        names(|rule| matches!(rule, Rule::Tunes)),
        names(|rule| matches!(rule, Rule::Immutable)),
    );
    page
}

/// Why a setting is refused.
fn reason(row: &Row) -> Option<&'static str> {
    match row.rule {
        Rule::Start(_, why) | Rule::Refused(why) | Rule::Hidden(why) => Some(why),
        Rule::Effective(_) | Rule::Tunes | Rule::Immutable => None,
    }
}

/// A setting with its value, where that is always the same.
fn shown(row: &Row) -> String {
    match row.rule {
        Rule::Refused(_) => format!("{} {}", name(row), value(row)),
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
