//! The statements of an event log: creating its tables, appending, reading, compacting. Pure.

use super::event::{COLUMNS, Event, KEY_COLUMN};
use super::{Compaction, Query};
use crate::batch::{Batch, Change};
use crate::layout::{BATCH_COLUMN, LOGS_TABLE, Layout, VERSION_COLUMN};
use crate::param::{Kind, Param};
use crate::statement::{Dialect, Grammar, Statement};
use crate::table::{Column, Table};

/// Events that are about no key.
const MARKS: &str = "('flush', 'begin', 'gap', 'complete')";
/// Marks that are about all shards.
const BOUNDS: &str = "('begin', 'gap', 'complete')";
/// Events after which earlier ones of the key are needless.
const WHOLE: &str = "('put', 'delete')";

/// Creates the table of a log, whose keys are of this type.
pub(crate) fn create(layout: &Layout, quoted: &str, dialect: &Dialect, key: &str) -> String {
    let types = &dialect.types;
    let (integer, text, json) = (types.integer, types.text, types.json);
    let name = |column: &str| dialect.quoted(column);
    let mut columns = vec![format!("{} {integer} PRIMARY KEY", name(&layout.key))];
    for (column, kind) in COLUMNS.into_iter().zip([
        format!("{integer} NOT NULL"),
        format!("{integer} NOT NULL"),
        format!("{key} NOT NULL"),
        format!("{text} NOT NULL"),
        text.to_owned(),
        json.to_owned(),
        integer.to_owned(),
        format!("{integer} NOT NULL"),
    ]) {
        columns.push(format!("{} {kind}", name(column)));
    }
    for column in [VERSION_COLUMN, BATCH_COLUMN] {
        columns.push(format!("{column} {integer} NOT NULL DEFAULT 0"));
    }
    columns.push(format!("UNIQUE ({}, {})", name(COLUMNS[KEY_COLUMN]), name(&layout.key)));
    format!("CREATE TABLE IF NOT EXISTS {quoted} ({})", columns.join(", "))
}

/// Creates the table of all logs.
pub(crate) fn create_logs(dialect: &Dialect) -> String {
    let types = &dialect.types;
    format!(
        "CREATE TABLE IF NOT EXISTS {LOGS_TABLE} (sink {} PRIMARY KEY, last_seq {integer} NOT NULL, first_seq {integer} NOT NULL)",
        types.key,
        integer = types.integer,
    )
}

/// Adds a log to that table, unless it is there.
pub(crate) fn register(layout: &Layout, quoted: &str, dialect: &Dialect) -> Statement {
    let mut build = Builder::new(dialect);
    let sink = build.text(&layout.sink);
    let nothing = match dialect.grammar {
        Grammar::Conflict => "ON CONFLICT (sink) DO NOTHING",
        Grammar::Duplicate => "ON DUPLICATE KEY UPDATE sink = VALUES(sink)",
    };
    let seq = dialect.quoted(&layout.key);
    // Without WHERE, the parser of SQLite would take ON for a part of the SELECT.
    build.finish(format!(
        "INSERT INTO {LOGS_TABLE} (sink, last_seq, first_seq) \
         SELECT {sink}, COALESCE(MAX({seq}), 0), 0 FROM {quoted} WHERE 1 = 1 {nothing}"
    ))
}

/// Says what the last event is after a batch; nothing if it has none.
pub(crate) fn advance(layout: &Layout, dialect: &Dialect, batch: &Batch) -> Option<Statement> {
    let events = batch.rows.iter().filter_map(|row| match &row.change {
        Change::Event(event) => Some(event.seq),
        _ => None,
    });
    let last = events.max()?;
    let mut build = Builder::new(dialect);
    let sink = build.text(&layout.sink);
    Some(build.finish(format!("UPDATE {LOGS_TABLE} SET last_seq = {last} WHERE sink = {sink}")))
}

struct Builder<'d> {
    dialect: &'d Dialect,
    params: Vec<Param>,
}

impl<'d> Builder<'d> {
    fn new(dialect: &'d Dialect) -> Builder<'d> {
        Builder { dialect, params: Vec::new() }
    }

    fn parameter(&mut self, text: &str, column: &Column) -> String {
        self.params.push(Param::Text(text.to_owned()));
        (self.dialect.parameter)(self.params.len(), column)
    }

    fn text(&mut self, text: &str) -> String {
        let type_name = self.dialect.types.text.to_owned();
        let column = Column { quoted: String::new(), name: String::new(), type_name, kind: Kind::Text };
        self.parameter(text, &column)
    }

    fn finish(self, sql: String) -> Statement {
        Statement { sql, params: self.params, otherwise: None }
    }
}

/// The names of the columns, as in statements.
struct Names<'t> {
    table: &'t str,
    seq: &'t str,
    key: &'t Column,
    shard: &'t str,
    kind: &'t str,
    of: &'t str,
    value: &'t Column,
    expires: &'t str,
    time: &'t str,
}

impl<'t> Names<'t> {
    /// None: the table is not that of a log.
    fn of(table: &'t Table) -> Option<Names<'t>> {
        let [shard, _, key, kind, of, value, expires, time] = &table.values[..] else { return None };
        Some(Names {
            table: &table.quoted,
            seq: &table.key.quoted,
            key,
            shard: &shard.quoted,
            kind: &kind.quoted,
            of: &of.quoted,
            value,
            expires: &expires.quoted,
            time: &time.quoted,
        })
    }
}

/// The least text that is greater than all that begin with this one; none if there is no such text.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// The statement of a query. None: the table is not that of a log.
pub(crate) fn read(query: &Query, layout: &Layout, table: &Table, dialect: &Dialect) -> Option<Statement> {
    let names = Names::of(table)?;
    let Names { table: name, seq, key, shard, kind, time, .. } = &names;
    let mut build = Builder::new(dialect);
    let as_text = match dialect.grammar {
        Grammar::Conflict => |what: &str| format!("CAST({what} AS TEXT)"),
        Grammar::Duplicate => |what: &str| format!("CAST({what} AS CHAR)"),
    };
    // Columns in another form keep their names in PostgreSQL, so the order is by those of the table.
    let all = || {
        let columns = table.values.iter().map(|column| column.quoted.as_str());
        let columns = [*seq, VERSION_COLUMN].into_iter().chain(columns).map(as_text);
        columns.collect::<Vec<_>>().join(", ")
    };
    let sql = match query {
        Query::Extent => {
            let sink = build.text(&layout.sink);
            let (last, first) = (as_text("last_seq"), as_text("first_seq"));
            format!("SELECT {last}, {first} FROM {LOGS_TABLE} WHERE sink = {sink}")
        }
        Query::Events { prefix, after, through, most } => {
            let range = range(&mut build, key, prefix);
            format!(
                "SELECT {} FROM {name} WHERE {seq} > {after} AND {seq} <= {through} \
                 AND ({kind} IN {MARKS} OR ({} = '' AND {kind} = 'rejected') OR ({range})) ORDER BY {name}.{seq} LIMIT {most}",
                all(),
                key.quoted
            )
        }
        Query::Marks { through } => format!(
            "SELECT {kind}, {}, {} FROM {name} WHERE {} = '' AND {kind} IN {MARKS} AND {seq} <= {through} GROUP BY {kind}, {shard}",
            as_text(shard),
            as_text(&format!("MAX({seq})")),
            key.quoted
        ),
        Query::Keys { prefix, after, base, through, only_several, most } => {
            let mut range = range(&mut build, key, prefix);
            if let Some(after) = after {
                let parameter = build.parameter(after, key);
                range = format!("{range} AND {} > {parameter}", key.quoted);
            }
            let several = if *only_several { " HAVING COUNT(*) > 1" } else { "" };
            format!(
                "SELECT {key} FROM {name} WHERE {range} AND {seq} > {base} AND {seq} <= {through} AND {kind} NOT IN {MARKS} \
                 AND NOT ({key} = '' AND {kind} = 'rejected') GROUP BY {key}{several} ORDER BY {key} LIMIT {most}",
                key = key.quoted
            )
        }
        Query::OfKey { key: wanted, base, through, most } => {
            let (one, other) = (build.parameter(wanted, key), build.parameter(wanted, key));
            let within = format!("{seq} > {base} AND {seq} <= {through}");
            format!(
                "SELECT {all} FROM {name} WHERE {key} = {one} AND {within} AND {kind} NOT IN {MARKS} AND {seq} >= COALESCE(\
                 (SELECT MAX({seq}) FROM {name} WHERE {key} = {other} AND {within} AND {kind} IN {WHOLE}), 0) \
                 ORDER BY {name}.{seq} LIMIT {most}",
                all = all(),
                key = key.quoted
            )
        }
        Query::Next { after, before_ms, most } => format!(
            "SELECT {}, {}, {} FROM (SELECT {seq}, {time} FROM {name} WHERE {seq} > {after} ORDER BY {seq} LIMIT {most}) AS x",
            as_text("COUNT(*)"),
            as_text(&format!("MAX({seq})")),
            as_text(&format!("MAX(CASE WHEN {time} < {before_ms} THEN {seq} END)")),
        ),
    };
    Some(build.finish(sql))
}

/// Keys that begin with a prefix.
fn range(build: &mut Builder<'_>, key: &Column, prefix: &str) -> String {
    let from = build.parameter(prefix, key);
    match after_prefix(prefix) {
        Some(end) => {
            let end = build.parameter(&end, key);
            format!("{key} >= {from} AND {key} < {end}", key = key.quoted)
        }
        None => format!("{} >= {from}", key.quoted),
    }
}

/// The statements of a change. None: the table is not that of a log.
pub(crate) fn change(
    change: &Compaction,
    layout: &Layout,
    table: &Table,
    dialect: &Dialect,
) -> Option<Vec<Statement>> {
    let names = Names::of(table)?;
    let Names { table: name, seq, key, shard, kind, .. } = &names;
    let mut build = Builder::new(dialect);
    let sql = match change {
        Compaction::Begin(first) => {
            let sink = build.text(&layout.sink);
            format!("UPDATE {LOGS_TABLE} SET first_seq = {first} WHERE sink = {sink} AND first_seq < {first}")
        }
        // Of a derived table, since MySQL does not read the table that it changes.
        Compaction::Superseded { after, through, window } => format!(
            "DELETE FROM {name} WHERE {seq} IN (SELECT {seq} FROM (SELECT e.{seq} FROM {name} AS e \
             WHERE e.{seq} > {after} AND e.{seq} <= {through} AND e.{kind} NOT IN {MARKS} AND EXISTS (\
             SELECT 1 FROM {name} AS n WHERE n.{key} = e.{key} AND n.{seq} > e.{seq} AND n.{seq} <= {window} \
             AND n.{kind} IN {WHOLE})) AS x)",
            key = key.quoted
        ),
        Compaction::Void { after, through, shard: of } => {
            let of = of.map_or(String::new(), |of| format!(" AND {shard} = {of} AND {kind} NOT IN {BOUNDS}"));
            format!("DELETE FROM {name} WHERE {seq} > {after} AND {seq} <= {through}{of}")
        }
        Compaction::Fold(events) => {
            return Some(events.iter().flat_map(|event| fold(event, &names, dialect)).collect());
        }
    };
    Some(vec![build.finish(sql)])
}

fn fold(event: &Event, names: &Names<'_>, dialect: &Dialect) -> [Statement; 2] {
    let Names { table, seq, key, kind, of, value, expires, .. } = names;
    let mut build = Builder::new(dialect);
    let type_name = build.text(event.of.as_deref().unwrap_or_default());
    let json = build.parameter(&event.value.as_ref().map(ToString::to_string).unwrap_or_default(), value);
    let update = build.finish(format!(
        "UPDATE {table} SET {kind} = 'put', {of} = {type_name}, {value} = {json}, {expires} = NULL WHERE {seq} = {}",
        event.seq,
        value = value.quoted
    ));
    let mut build = Builder::new(dialect);
    let wanted = build.parameter(&event.key, key);
    let delete = build.finish(format!(
        "DELETE FROM {table} WHERE {} = {wanted} AND {seq} < {} AND {kind} NOT IN {MARKS}",
        key.quoted, event.seq
    ));
    [update, delete]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_text() {
        for (prefix, end) in [
            ("a", Some("b")),
            ("user:", Some("user;")),
            ("", None),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}
