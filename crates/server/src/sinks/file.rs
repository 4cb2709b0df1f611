//! How sinks are written: `[sink.NAME]` tables in the settings file. Pure.
//!
//! ```toml
//! [sink.users]
//! prefix = "user:"
//! target = "postgres://app@127.0.0.1/app"
//! table = "users"
//! columns = { name = "name", email = "contact.email" }
//! ```

use std::time::Duration;

use keystead_core::{Result, parse_duration_ms};
use keystead_sinks::{Deletes, Layout, Values};

use crate::bounds::{
    SINK_BEHIND_AFTER, SINK_FLUSH_BYTES, SINK_FLUSH_BYTES_MAX, SINK_FLUSH_EVERY, SINK_FLUSH_ROWS,
    SINK_FLUSH_ROWS_MAX, SINK_GRACE, SINK_NAME_BYTES_MAX, SINKS_MAX,
};
use crate::failure::failure;
use crate::settings::named_tables::{self, NamedTable, TableKind};
use crate::settings::size::parse_size_bytes;
use crate::stores::StoreName;

/// The name of the table of all sinks.
pub(crate) const TABLE: &str = "sink";

/// An example of a sink, for error messages.
pub(crate) const EXAMPLE: &str =
    "write [sink.users] and below it prefix = \"user:\", target = \"postgres://...\", table = \"users\"";

const TABLES: TableKind = TableKind {
    table: TABLE,
    plural: "sinks",
    example: EXAMPLE,
    tables_max: SINKS_MAX,
    name_bytes_max: SINK_NAME_BYTES_MAX,
};

/// When the target gets a change, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The last value of a key, after the write was acknowledged.
    WriteBack,
    /// The last value of a key, before the write is acknowledged.
    WriteThrough,
    /// Only the columns of fields that have changed, after the write was acknowledged.
    DirtyFields,
    /// Every change as a row of an event log, after the write was acknowledged.
    Events,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::WriteBack, Mode::WriteThrough, Mode::DirtyFields, Mode::Events];

    /// The name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::WriteBack => "write-back",
            Mode::WriteThrough => "write-through",
            Mode::DirtyFields => "dirty-fields",
            Mode::Events => "events",
        }
    }
}

/// The definition of a sink.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The file and line where it begins.
    pub location: String,
    /// Its name.
    pub name: String,
    /// The URL of the target.
    pub target: StoreName,
    /// When the target gets a change.
    pub mode: Mode,
    /// How keys and values become rows.
    pub layout: Layout,
    /// How long a change waits for others; see [`flush_every`](Definition::flush_every).
    pub flush_every: Duration,
    /// How many changed keys are written at once, and written without waiting.
    pub flush_rows: usize,
    /// About how many bytes of rows are written at once, and written without waiting.
    pub flush_bytes: usize,
    /// How long a stop waits for the target.
    pub grace: Duration,
    /// How much longer than `flush_every` a change may wait before health is degraded.
    pub behind_after: Duration,
    /// Of an event log: how old events are that are compacted.
    pub compact_after: Option<Duration>,
    /// Of an event log: how many of the last events are kept as they are.
    pub compact_rows: Option<u64>,
}

impl Definition {
    /// How long a change waits for others.
    #[must_use]
    pub fn flush_every(&self) -> Duration {
        match self.mode {
            Mode::WriteThrough => Duration::ZERO,
            Mode::WriteBack | Mode::DirtyFields | Mode::Events => self.flush_every,
        }
    }
}

/// The sinks of a settings file.
///
/// # Errors
/// `config_invalid` with one line for the user, which begins with the line in `file`.
pub fn parse(text: &str, file: &str) -> Result<Vec<Definition>> {
    let mut definitions: Vec<Definition> = Vec::new();
    for NamedTable { location, name, table } in named_tables::parse(text, file, &TABLES)? {
        let at = format!("{location}: sink.{name}");
        let definition = definition(&name, location, Rows(table)).map_err(|error| error.context(&at))?;
        let same = |other: &&Definition| {
            other.target == definition.target && other.layout.table == definition.layout.table
        };
        if let Some(other) = definitions.iter().find(same) {
            return Err(failure(
                format_args!("{at}: sink.{} writes to the same table", other.name),
                "give each sink a table of its own",
            ));
        }
        definitions.push(definition);
    }
    Ok(definitions)
}

fn definition(name: &str, location: String, mut rows: Rows) -> Result<Definition> {
    let prefix = rows.required("prefix", "the keys of the sink begin with it: \"\" for all keys")?;
    let target =
        rows.required("target", "write a URL such as postgres://USER@HOST/DATABASE or sqlite:PATH")?;
    let table = rows.text("table")?.unwrap_or_else(|| name.to_owned());
    let mode = rows.word("mode", &Mode::ALL.map(|mode| (mode.as_str(), mode)))?.unwrap_or(Mode::WriteBack);
    if mode == Mode::Events {
        rows.reject_columns()?;
    }
    let deletes = [("delete", Deletes::Delete), ("tombstone", Deletes::Tombstone)];
    let deletes = rows.word("deletes", &deletes)?.unwrap_or(Deletes::Delete);
    let values = rows.values(mode)?;
    let layout = match mode {
        Mode::Events => Layout::events(name, &prefix, &table),
        _ => Layout {
            sink: name.to_owned(),
            prefix,
            table,
            key: rows.text("key")?.unwrap_or_else(|| "key".to_owned()),
            strip_prefix: rows.bool("stripPrefix")?.unwrap_or(false),
            values,
            deletes,
        },
    };
    let flush_every = rows.duration("flushEvery", SINK_FLUSH_EVERY)?;
    let flush_rows = rows.number("flushRows", SINK_FLUSH_ROWS, SINK_FLUSH_ROWS_MAX)?;
    let flush_bytes = match rows.text("flushBytes")? {
        None => SINK_FLUSH_BYTES,
        Some(text) => match parse_size_bytes(&text) {
            Ok(bytes) if (1..=SINK_FLUSH_BYTES_MAX as u64).contains(&bytes) => bytes as usize,
            _ => {
                let most = SINK_FLUSH_BYTES_MAX >> 20;
                return Err(failure(
                    "flushBytes",
                    format_args!("write a size up to {most}mb, such as \"4mb\""),
                ));
            }
        },
    };
    let grace = rows.duration("grace", SINK_GRACE)?;
    let behind_after = rows.duration("behindAfter", SINK_BEHIND_AFTER)?;
    let (compact_after, compact_rows) = rows.compaction(mode)?;
    if let Some(unknown) = rows.0.keys().next() {
        return Err(failure(
            format_args!("unknown key '{unknown}'"),
            "the keys are prefix, target, table, key, stripPrefix, value, columns, mode, deletes, flushEvery, flushRows, \
             flushBytes, grace, behindAfter, compactAfter, compactRows",
        ));
    }
    let (name, target) = (name.to_owned(), StoreName::new(target));
    Ok(Definition {
        location,
        name,
        target,
        mode,
        layout,
        flush_every,
        flush_rows,
        flush_bytes,
        grace,
        behind_after,
        compact_after,
        compact_rows,
    })
}

/// The rows of a table that were not read yet.
struct Rows(toml::Table);

impl Rows {
    fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(toml::Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                Err(failure(format_args!("{name} must be text"), format_args!("write {name} = \"...\"")))
            }
        }
    }

    fn required(&mut self, name: &str, advice: &str) -> Result<String> {
        self.text(name)?.ok_or_else(|| failure(format_args!("{name} is missing"), advice))
    }

    fn bool(&mut self, name: &str) -> Result<Option<bool>> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(toml::Value::Boolean(value)) => Ok(Some(value)),
            Some(_) => {
                Err(failure(format_args!("{name} is true or false"), format_args!("write {name} = true")))
            }
        }
    }

    fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.map(Some).ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            failure(format_args!("{name} is '{text}'"), format_args!("it is one of {}", all.join(", ")))
        })
    }

    fn duration(&mut self, name: &str, default: Duration) -> Result<Duration> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        let parsed = parse_duration_ms(&text).map(Duration::from_millis);
        parsed.map_err(|error| failure(name, error.message()))
    }

    fn number(&mut self, name: &str, default: usize, most: usize) -> Result<usize> {
        match self.0.remove(name) {
            None => Ok(default),
            Some(toml::Value::Integer(number)) if (1..=most as i64).contains(&number) => Ok(number as usize),
            Some(_) => Err(failure(name, format_args!("write a whole number from 1 to {most}"))),
        }
    }

    /// An event log has columns of its own.
    fn reject_columns(&self) -> Result<()> {
        match ["key", "stripPrefix", "value", "columns", "deletes"]
            .into_iter()
            .find(|name| self.0.contains_key(*name))
        {
            Some(name) => Err(failure(
                format_args!("mode events has columns of its own, and there is {name}"),
                format_args!("remove {name}"),
            )),
            None => Ok(()),
        }
    }

    /// Which events are compacted.
    fn compaction(&mut self, mode: Mode) -> Result<(Option<Duration>, Option<u64>)> {
        let names = ["compactAfter", "compactRows"];
        if mode != Mode::Events
            && let Some(name) = names.into_iter().find(|name| self.0.contains_key(*name))
        {
            return Err(failure(
                format_args!("{name} is for event logs"),
                "write mode = \"events\", or remove it",
            ));
        }
        let after = match self.0.contains_key(names[0]) {
            true => Some(self.duration(names[0], Duration::ZERO)?),
            false => None,
        };
        let rows = match self.0.remove(names[1]) {
            None => None,
            Some(toml::Value::Integer(rows)) if rows >= 1 => Some(rows.unsigned_abs()),
            Some(_) => return Err(failure(names[1], "write a whole number from 1")),
        };
        Ok((after, rows))
    }

    /// The columns of the value.
    fn values(&mut self, mode: Mode) -> Result<Values> {
        let whole = self.text("value")?;
        let columns = match self.0.remove("columns") {
            None if mode == Mode::DirtyFields => {
                return Err(failure(
                    "mode dirty-fields needs columns",
                    "map fields to columns, for example columns = { name = \"name\" }",
                ));
            }
            None => return Ok(Values::Whole(whole.unwrap_or_else(|| "value".to_owned()))),
            Some(columns) => columns,
        };
        let example = "write columns = { COLUMN = \"FIELD\", OTHER = \"FIELD.INNER\" }";
        let Some(columns) = columns.as_table().filter(|columns| !columns.is_empty()) else {
            return Err(failure("columns is not a table with columns", example));
        };
        if whole.is_some() {
            return Err(failure("there are value and columns", "leave one of them out"));
        }
        let pairs = columns.iter().map(|(column, path)| match path.as_str() {
            Some(path) if path.split('.').all(|name| !name.is_empty()) => {
                Ok((column.clone(), path.to_owned()))
            }
            _ => Err(failure(format_args!("the column {column} names no field"), example)),
        });
        Ok(Values::Fields(pairs.collect::<Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[sink.users]\nprefix = \"user:\"\ntarget = \"postgres://u:secret@h/d\"\n";

    fn error_of(more: &str) -> String {
        let error = parse(&format!("{ONE}{more}"), "k.toml").unwrap_err().to_string();
        assert!(!error.contains('\n') && !error.contains("secret"), "{error}");
        error
    }

    #[test]
    fn a_sink_has_defaults() {
        let sinks = parse(ONE, "k.toml").unwrap();
        let [sink] = &sinks[..] else { panic!("one sink") };
        assert_eq!(
            (sink.name.as_str(), sink.mode, sink.location.as_str()),
            ("users", Mode::WriteBack, "k.toml:1")
        );
        assert_eq!(sink.layout, Layout::whole("users", "user:", "users"));
        assert_eq!((sink.flush_every, sink.flush_rows), (SINK_FLUSH_EVERY, SINK_FLUSH_ROWS));
        assert!(!format!("{sinks:?}").contains("secret"));
        assert_eq!(parse("http = \"off\"", "k.toml").unwrap(), []);
    }

    #[test]
    fn all_of_a_sink_can_be_set() {
        let more = "table = \"app.users\"\nkey = \"id\"\nstripPrefix = true\nmode = \"dirty-fields\"\ndeletes = \"tombstone\"\n\
                    flushEvery = \"250ms\"\nflushRows = 50\nflushBytes = \"1mb\"\ngrace = \"2s\"\nbehindAfter = \"5m\"\n\
                    columns = { name = \"name\", email = \"contact.email\" }\n";
        let sinks = parse(&format!("{ONE}{more}"), "k.toml").unwrap();
        let sink = &sinks[0];
        assert_eq!((sink.flush_every.as_millis(), sink.flush_rows, sink.flush_bytes), (250, 50, 1 << 20));
        assert_eq!(sink.behind_after.as_secs(), 300);
        assert_eq!(
            (sink.mode, sink.layout.deletes, sink.layout.strip_prefix),
            (Mode::DirtyFields, Deletes::Tombstone, true)
        );
        assert_eq!(sink.layout.columns().collect::<Vec<_>>(), ["email", "name"]);
    }

    #[test]
    fn an_event_log_has_a_layout_of_its_own() {
        let more = "mode = \"events\"\ntable = \"log\"\ncompactAfter = \"7d\"\ncompactRows = 1000\n";
        let sinks = parse(&format!("{ONE}{more}"), "k.toml").unwrap();
        assert_eq!(sinks[0].layout, Layout::events("users", "user:", "log"));
        let week = Duration::from_secs(7 * 24 * 3600);
        assert_eq!((sinks[0].compact_after, sinks[0].compact_rows), (Some(week), Some(1000)));
    }

    #[test]
    fn errors_have_the_line_and_say_what_to_write() {
        for (more, words) in [
            ("colour = 1", "k.toml:1: sink.users: unknown key 'colour': the keys are prefix"),
            (
                "mode = \"back\"",
                "mode is 'back': it is one of write-back, write-through, dirty-fields, events",
            ),
            (
                "mode = \"events\"\ncolumns = { a = \"b\" }",
                "mode events has columns of its own, and there is columns: remove columns",
            ),
            ("mode = \"events\"\ndeletes = \"tombstone\"", "remove deletes"),
            ("compactAfter = \"7d\"", "compactAfter is for event logs: write mode = \"events\""),
            ("mode = \"events\"\ncompactAfter = \"long\"", "compactAfter: 'long' is not a duration"),
            ("mode = \"events\"\ncompactRows = 0", "compactRows: write a whole number from 1"),
            ("mode = \"dirty-fields\"", "mode dirty-fields needs columns"),
            ("flushRows = 0", "flushRows: write a whole number from 1"),
            ("flushEvery = \"fast\"", "flushEvery: 'fast' is not a duration"),
            ("flushBytes = \"4\"", "flushBytes: write a size"),
            ("columns = {}", "columns is not a table with columns"),
            ("columns = { a = \"b..c\" }", "the column a names no field"),
            ("columns = { a = \"b\" }\nvalue = \"v\"", "there are value and columns"),
            ("stripPrefix = 1", "stripPrefix is true or false"),
            (
                "[sink.two]\nprefix = \"x\"\ntable = \"users\"\ntarget = \"postgres://u:secret@h/d\"",
                "writes to the same table: give each sink a table of its own",
            ),
        ] {
            let error = error_of(more);
            assert!(error.contains(words), "{error}");
        }
        assert!(
            parse("[sink.a]\nprefix = \"\"", "k.toml").unwrap_err().to_string().contains("target is missing")
        );
    }
}
