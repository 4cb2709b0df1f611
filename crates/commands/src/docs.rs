//! The text of docs/commands.md and of a section of docs/redis.md, generated from the tables. It touches nothing.
//!
//! `tests/docs.rs` fails when a file differs.

use std::fmt::Write;

use crate::spec::{Run, Spec, Spread, flag};
use crate::table::{self, FAMILIES};

const HEAD: &str = "\
# Commands

All commands of Keystead, with their arguments as Redis documents them and the version of Redis that introduced them (of RedisJSON for
`JSON.*`, of Keystead for rate limits and `WAITSINK`).
Differences from Redis are listed in [redis.md](redis.md#differences).

This page is generated from the command table: `KEYSTEAD_UPDATE=1 cargo test -p keystead-commands --test docs` writes it.
";

const MARKS: &str = "\
**r** reads keys, **w** may write keys, **b** may block until keys change. In a database of several shards, the keys of a command with
**1** must be on one shard, as keys with the same hash tag are (`{tag}:this` and `{tag}:that`); otherwise it returns
`CROSSSLOT`. **a** runs on all shards; `SCAN` on one after the other.
";

/// The whole page.
#[must_use]
pub fn commands() -> String {
    let mut page = format!("{HEAD}\n{} commands and subcommands, by family:\n\n", table::leaves().count());
    for (title, rows) in FAMILIES.iter().filter(|(_, rows)| !rows.is_empty()) {
        let _ = writeln!(page, "- [{title}](#{}): {}", anchor(title), names(rows));
    }
    let _ = write!(page, "\n{MARKS}");
    for (title, rows) in FAMILIES.iter().filter(|(_, rows)| !rows.is_empty()) {
        let _ = write!(page, "\n## {title}\n\n| Command | | What it does | Since |\n|---|---|---|---|\n");
        for spec in *rows {
            match spec.run {
                Run::Within(subcommands) => {
                    subcommands.iter().for_each(|sub| line(&mut page, Some(spec), sub));
                }
                _ => line(&mut page, None, spec),
            }
        }
    }
    page
}

/// The section of docs/redis.md about CONFIG SET, between [`SETTINGS_BEGIN`] and [`SETTINGS_END`].
#[must_use]
pub fn settings() -> String {
    crate::hub::config_page()
}

/// The line before the generated section of docs/redis.md.
pub const SETTINGS_BEGIN: &str = "<!-- Made from the table of settings: KEYSTEAD_UPDATE=1 cargo test -p keystead-commands --test docs -->\n";
/// The line after it.
pub const SETTINGS_END: &str = "<!-- The end of what is made. -->\n";

/// One row of a table.
fn line(page: &mut String, container: Option<&Spec>, spec: &Spec) {
    let container = container.map(|container| container.upper_name() + " ").unwrap_or_default();
    let call = format!("{container}{} {}", spec.upper_name(), spec.syntax);
    let call = call.trim_end().replace('|', "\\|");
    let summary = spec.summary.replace('|', "\\|");
    let _ = writeln!(page, "| `{call}` | {} | {summary} | {} |", marks(spec), spec.since);
}

fn marks(spec: &Spec) -> String {
    let mut marks = String::new();
    let on_keys = matches!(spec.run, Run::Data(_));
    for (flags, mark) in [(flag::READ, 'r'), (flag::WRITE, 'w'), (flag::BLOCKING, 'b')] {
        if on_keys && spec.flags.has(flags) {
            marks.push(mark);
        }
    }
    if spec.keys.may_be_several() {
        marks.push('1');
    } else if spec.spread != Spread::Local {
        marks.push('a');
    }
    marks
}

fn names(rows: &[Spec]) -> String {
    rows.iter().map(Spec::upper_name).collect::<Vec<_>>().join(", ")
}

/// The anchor of a title, as Markdown derives it.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}
