//! What is written to a target: rows, and the position that they reach. Pure.

use keystead_core::{Code, Error, Result, Revision, ShardId, Version};
use serde_json::Value;

use crate::bounds::REASON_BYTES_MAX;
use crate::event::Event;
use crate::layout::{Layout, Values};

/// How far a target is.
///
/// Batches of a sink are numbered. A batch is written only if the target has the one before it, so a late or repeated one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The id of the database that writes to it.
    pub database: String,
    /// The number of the last batch. The first is 1.
    pub batch: u64,
    /// Of each shard, the revision up to which every change is in the target.
    pub revisions: Vec<Revision>,
    /// While all keys are being written again: the first batch of that. It begins anew if it is interrupted.
    pub resync: Option<u64>,
}

impl Position {
    /// The revisions as text.
    #[must_use]
    pub fn revisions_text(&self) -> String {
        let numbers: Vec<u64> = self.revisions.iter().map(|revision| revision.0).collect();
        Value::from(numbers).to_string()
    }

    /// The position with these parts, as a target stores them.
    ///
    /// # Errors
    /// `corrupt` when somebody else has written them.
    pub fn of_parts(database: String, batch: i64, revisions: &str, resync: Option<i64>) -> Result<Position> {
        let numbers: Option<Vec<u64>> = serde_json::from_str(revisions).ok();
        let whole = |number: i64| u64::try_from(number).ok();
        match (whole(batch), numbers) {
            (Some(batch), Some(numbers)) => Ok(Position {
                database,
                batch,
                revisions: numbers.into_iter().map(Revision).collect(),
                resync: resync.and_then(whole),
            }),
            _ => Err(Error::new(Code::Corrupt, "the target's position is not one that Keystead has written")),
        }
    }
}

/// One key of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The key, with its prefix.
    pub key: String,
    /// Its version; that of a deleted key is 0.
    pub version: Version,
    /// Its shard, and a revision of it at which this was so.
    pub shard: ShardId,
    /// See `shard`.
    pub revision: Revision,
    /// What the target must have.
    pub change: Change,
}

/// What a target has of a key, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key, with its prefix.
    pub key: String,
    /// The version.
    pub version: u64,
    /// The value: the text of its column, or of several a JSON object of texts.
    pub value: String,
}

impl Shown {
    /// The row of a statement that [`look`](crate::statement::look) has built.
    #[must_use]
    pub fn of_cells(layout: &Layout, cells: Vec<Option<String>>) -> Shown {
        let mut cells = cells.into_iter();
        let key = layout.key_of(cells.next().flatten().unwrap_or_default());
        let version = cells.next().flatten().and_then(|text| text.parse().ok()).unwrap_or(0);
        let value = match &layout.values {
            Values::Whole(_) | Values::Events => cells.next().flatten().unwrap_or_else(|| "NULL".to_owned()),
            Values::Fields(_) => {
                let names = layout.columns().map(str::to_owned);
                let of =
                    |(name, cell): (String, Option<String>)| (name, cell.map_or(Value::Null, Value::from));
                Value::Object(names.zip(cells).map(of).collect()).to_string()
            }
        };
        Shown { key, version, value }
    }
}

/// What a key has become.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It has this value.
    Put {
        /// The value as JSON: a document, or a hash as an object of strings.
        value: Value,
        /// The names of its fields that have changed. None: all of them.
        changed: Option<Vec<String>>,
    },
    /// There is no such key.
    Delete,
    /// An event that is appended to a log.
    Event(Box<Event>),
    /// An event that replaces the row of the same `seq`, which was rejected.
    Repair(Box<Event>),
}

/// Rows of distinct keys, and the position after them.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The database and batch that the target must have reached. None: it has no position.
    pub expected: Option<(String, u64)>,
    /// The position that it then has.
    pub next: Position,
    /// The rows.
    pub rows: Vec<Row>,
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Everything is in the target.
    Done,
    /// The target has another position than expected: nothing was written.
    Fenced,
    /// The target rejects some rows: nothing was written.
    Rejected(Vec<Rejection>),
}

/// A row that the target rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which row of the batch.
    pub row: usize,
    /// The target's reason.
    pub reason: String,
}

impl Rejection {
    /// With the first [`REASON_BYTES_MAX`] bytes of the reason.
    #[must_use]
    pub fn new(row: usize, reason: &str) -> Rejection {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Rejection { row, reason: reason[..end].to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_parts() {
        let position = Position {
            database: "d".to_owned(),
            batch: 7,
            revisions: vec![Revision(0), Revision(1 << 60)],
            resync: Some(3),
        };
        let text = position.revisions_text();
        assert_eq!(Position::of_parts("d".to_owned(), 7, &text, Some(3)).unwrap(), position);
        for (batch, text) in [(-1, "[1]"), (1, "[-1]"), (1, "{}"), (1, "[1.5]")] {
            let error = Position::of_parts("d".to_owned(), batch, text, None).unwrap_err();
            assert_eq!(error.code(), Code::Corrupt);
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = Rejection::new(0, &"ü".repeat(REASON_BYTES_MAX)).reason;
        assert_eq!(reason.len(), REASON_BYTES_MAX);
        assert_eq!(Rejection::new(0, &format!("a{reason}")).reason.len(), REASON_BYTES_MAX - 1);
    }
}
