//! How keys and values become rows of a table. Pure.

use serde_json::Value;

use crate::event::COLUMNS as EVENT_COLUMNS;

/// The column with the version of a key, in every table of a sink.
pub const VERSION_COLUMN: &str = "keystead_version";
/// The column with the number of the batch that has written a row last: no batch changes a row that a later one has written.
pub const BATCH_COLUMN: &str = "keystead_batch";
/// The column that is true in a row whose key is deleted, with [`Deletes::Tombstone`].
pub const DELETED_COLUMN: &str = "keystead_deleted";
/// The table of positions, one row for each sink.
pub const POSITIONS_TABLE: &str = "keystead_sinks";
/// The table of event logs, one row for each sink with one.
pub const LOGS_TABLE: &str = "keystead_logs";

/// What of a value is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// All of it, as JSON in this column.
    Whole(String),
    /// These columns, each with the path of a field: names with dots between them.
    Fields(Vec<(String, String)>),
    /// The columns of an event: every change is a row of its own.
    Events,
}

/// What becomes of the row of a deleted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// It is deleted.
    Delete,
    /// It stays, marked as deleted.
    Tombstone,
}

/// How keys and values become rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name of the sink, under which the target has its position.
    pub sink: String,
    /// What its keys begin with.
    pub prefix: String,
    /// The table: `NAME` or `SCHEMA.NAME`.
    pub table: String,
    /// The column of the key.
    pub key: String,
    /// Whether the column has the key without the prefix.
    pub strip_prefix: bool,
    /// The columns of the value.
    pub values: Values,
    /// What deleting a key means.
    pub deletes: Deletes,
}

impl Layout {
    /// Keys in the column `key`, and values as JSON in the column `value`.
    #[must_use]
    pub fn whole(sink: &str, prefix: &str, table: &str) -> Layout {
        Layout {
            sink: sink.to_owned(),
            prefix: prefix.to_owned(),
            table: table.to_owned(),
            key: "key".to_owned(),
            strip_prefix: false,
            values: Values::Whole("value".to_owned()),
            deletes: Deletes::Delete,
        }
    }

    /// An event log in this table.
    #[must_use]
    pub fn events(sink: &str, prefix: &str, table: &str) -> Layout {
        Layout { key: "seq".to_owned(), values: Values::Events, ..Layout::whole(sink, prefix, table) }
    }

    /// The names of the value's columns.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let (whole, fields, events) = match &self.values {
            Values::Whole(column) => (Some(column.as_str()), &[][..], &[][..]),
            Values::Fields(fields) => (None, fields.as_slice(), &[][..]),
            Values::Events => (None, &[][..], &EVENT_COLUMNS[..]),
        };
        whole
            .into_iter()
            .chain(fields.iter().map(|(column, _)| column.as_str()))
            .chain(events.iter().copied())
    }

    /// What a column of the value gets; nothing is NULL.
    #[must_use]
    pub fn value_of<'v>(&self, column: usize, value: &'v Value) -> Option<&'v Value> {
        match &self.values {
            Values::Whole(_) => Some(value),
            // An event is more than its value.
            Values::Events => None,
            Values::Fields(fields) => {
                let (_, path) = fields.get(column)?;
                path.split('.').try_fold(value, |value, name| value.get(name))
            }
        }
    }

    /// Whether a column may have changed when these fields of the value have.
    #[must_use]
    pub fn is_changed(&self, column: usize, changed: &[String]) -> bool {
        match &self.values {
            Values::Whole(_) | Values::Events => true,
            Values::Fields(fields) => fields.get(column).is_some_and(|(_, path)| {
                let first = path.split('.').next().unwrap_or(path);
                changed.iter().any(|name| name == first)
            }),
        }
    }

    /// What the column of the key has.
    #[must_use]
    pub fn key_text<'k>(&self, key: &'k str) -> &'k str {
        match self.strip_prefix {
            true => key.strip_prefix(&self.prefix).unwrap_or(key),
            false => key,
        }
    }

    /// The key of what its column has.
    #[must_use]
    pub fn key_of(&self, text: String) -> String {
        match self.strip_prefix {
            true => format!("{}{text}", self.prefix),
            false => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_by_their_paths() {
        let fields = [("a", "name"), ("b", "contact.email"), ("c", "contact")];
        let fields = fields.map(|(column, path)| (column.to_owned(), path.to_owned()));
        let layout = Layout {
            values: Values::Fields(fields.to_vec()),
            strip_prefix: true,
            ..Layout::whole("s", "user:", "t")
        };
        let value = json!({"name": "A", "contact": {"email": "a@b"}});
        assert_eq!(layout.columns().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(layout.value_of(0, &value), Some(&json!("A")));
        assert_eq!(layout.value_of(1, &value), Some(&json!("a@b")));
        assert_eq!(layout.value_of(1, &json!({"contact": 1})), None);
        let changed = ["contact".to_owned()];
        assert_eq!([0, 1, 2].map(|column| layout.is_changed(column, &changed)), [false, true, true]);
        assert_eq!(layout.key_text("user:7"), "7");
        assert_eq!(layout.key_of("7".to_owned()), "user:7");
    }
}
