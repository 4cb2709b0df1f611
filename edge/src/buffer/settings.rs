//! Sinks of the edge, from the variable `SINKS`: a JSON object with one for each name, as `[sink.NAME]` in the server's settings file.
//! Touches the environment of the Worker.

use std::collections::BTreeMap;

use keystead_core::{Code, Error, Result, parse_duration_ms};
use keystead_rows::layout::{Deletes, Layout, Values};
use serde::Deserialize;
use worker::Env;

use crate::bounds::{FLUSH_EVERY_MS, FLUSH_EVERY_MS_MAX, FLUSH_ROWS, FLUSH_ROWS_MAX, SINKS_MAX};

const SINKS: &str = "SINKS";
const EXAMPLE: &str = r#"write {"users":{"prefix":"user:","table":"users"}}"#;
/// What a target begins with: the name of a D1 binding follows.
const D1: &str = "d1:";

/// One sink.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The binding of its D1 database.
    pub(crate) binding: String,
    pub(crate) layout: Layout,
    /// How long a change waits for others.
    pub(crate) flush_every_ms: u64,
    pub(crate) flush_rows: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Table {
    prefix: String,
    target: Option<String>,
    table: Option<String>,
    key: Option<String>,
    #[serde(default)]
    strip_prefix: bool,
    value: Option<String>,
    columns: Option<BTreeMap<String, String>>,
    deletes: Option<Word>,
    flush_every: Option<String>,
    flush_rows: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Delete,
    Tombstone,
}

/// The sinks of this environment, in the order of their names.
///
/// # Errors
/// `config_invalid` with what is wrong.
pub(crate) fn sinks(env: &Env) -> Result<Vec<Definition>> {
    let Some(text) = env.var(SINKS).ok().map(|text| text.to_string()) else { return Ok(Vec::new()) };
    let invalid = |why: String| Error::new(Code::ConfigInvalid, format!("the variable {SINKS}: {why}"));
    let tables: BTreeMap<String, Table> =
        serde_json::from_str(&text).map_err(|error| invalid(format!("{error}: {EXAMPLE}")))?;
    if crate::spread::objects(env)? > 1 {
        return Err(invalid(
            "a database of several objects (OBJECTS) has no sinks: remove one of the two variables"
                .to_owned(),
        ));
    }
    if tables.len() > SINKS_MAX {
        return Err(invalid(format!("at most {SINKS_MAX} sinks are allowed")));
    }
    let all: Vec<Definition> = tables
        .into_iter()
        .map(|(name, table)| definition(&name, table).map_err(|why| invalid(format!("{name}: {why}"))))
        .collect::<Result<_>>()?;
    for (n, one) in all.iter().enumerate() {
        let same =
            |other: &&Definition| (&other.binding, &other.layout.table) == (&one.binding, &one.layout.table);
        if let Some(other) = all[..n].iter().find(same) {
            let why = format!(
                "{} writes to the same table as {}: give each a table of its own",
                one.name, other.name
            );
            return Err(invalid(why));
        }
    }
    Ok(all)
}

fn definition(name: &str, table: Table) -> std::result::Result<Definition, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 48 || !name.bytes().all(is_word) {
        return Err("a name is 1 to 48 letters, digits, '.', '_' or '-'".to_owned());
    }
    let target = table.target.as_deref().unwrap_or("d1:DB");
    let binding = target.strip_prefix(D1).filter(|binding| !binding.is_empty());
    let binding = binding.ok_or_else(|| "target is d1:BINDING, the binding of a D1 database".to_owned())?;
    let values = match (table.value, table.columns) {
        (Some(_), Some(_)) => return Err("value and columns exclude each other".to_owned()),
        (None, Some(columns)) if columns.is_empty() => {
            return Err(r#"columns is empty: write {"email":"contact.email"}"#.to_owned());
        }
        (None, Some(columns)) => Values::Fields(columns.into_iter().collect()),
        (value, None) => Values::Whole(value.unwrap_or_else(|| "value".to_owned())),
    };
    let flush_every_ms = match table.flush_every {
        None => FLUSH_EVERY_MS,
        Some(text) => parse_duration_ms(&text).map_err(|error| format!("flushEvery: {}", error.message()))?,
    };
    if flush_every_ms > FLUSH_EVERY_MS_MAX {
        return Err("flushEvery is at most 24h".to_owned());
    }
    let flush_rows = table.flush_rows.unwrap_or(FLUSH_ROWS);
    if !(1..=FLUSH_ROWS_MAX).contains(&flush_rows) {
        return Err(format!("flushRows is 1 to {FLUSH_ROWS_MAX}"));
    }
    let layout = Layout {
        sink: name.to_owned(),
        prefix: table.prefix,
        table: table.table.unwrap_or_else(|| name.to_owned()),
        key: table.key.unwrap_or_else(|| "key".to_owned()),
        strip_prefix: table.strip_prefix,
        values,
        deletes: match table.deletes {
            None | Some(Word::Delete) => Deletes::Delete,
            Some(Word::Tombstone) => Deletes::Tombstone,
        },
    };
    Ok(Definition { name: name.to_owned(), binding: binding.to_owned(), layout, flush_every_ms, flush_rows })
}
