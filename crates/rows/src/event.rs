//! An event: one change of one key, or a mark about the log itself; and its row. Pure.

use std::fmt;

use keystead_core::{Code, Error, Millis, Result, Revision, ShardId, Version};
use serde_json::Value;

use crate::batch::{Change, Row};
use crate::param::Param;

/// Cells of a row as text; nothing is NULL.
pub type Cells = Vec<Option<String>>;

/// The number of an event in its log. The first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The key has this value, whatever it was.
    Put,
    /// Elements of a collection were set and removed.
    Change,
    /// Only the expiry has changed.
    Expire,
    /// The key was deleted, or has expired.
    Delete,
    /// All keys of the shard were deleted.
    Flush,
    /// A change whose value is not in the log: it has no form as JSON, or the target rejects it.
    Rejected,
    /// A snapshot of all keys begins: what is before it no longer counts.
    Begin,
    /// The same, and changes before it are missing.
    Gap,
    /// The snapshot is complete.
    Complete,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Put,
        Kind::Change,
        Kind::Expire,
        Kind::Delete,
        Kind::Flush,
        Kind::Rejected,
        Kind::Begin,
        Kind::Gap,
        Kind::Complete,
    ];

    /// The name in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Change => "change",
            Kind::Expire => "expire",
            Kind::Delete => "delete",
            Kind::Flush => "flush",
            Kind::Rejected => "rejected",
            Kind::Begin => "begin",
            Kind::Gap => "gap",
            Kind::Complete => "complete",
        }
    }

    /// Whether it is about no key.
    #[must_use]
    pub const fn is_mark(self) -> bool {
        matches!(self, Kind::Flush | Kind::Begin | Kind::Gap | Kind::Complete)
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number.
    pub seq: Seq,
    /// The shard of the key, and the revision of the change there.
    pub shard: ShardId,
    /// See `shard`.
    pub revision: Revision,
    /// The key; empty for a mark.
    pub key: String,
    /// The version of the key after it.
    pub version: Version,
    /// What has happened.
    pub kind: Kind,
    /// The type of the value: `json`, `string`, `state`, `hash`, `list`, `set`, `zset`, `stream`.
    pub of: Option<String>,
    /// The value, what was set and removed, or the reason.
    pub value: Option<Value>,
    /// The expiry that was set; [`Millis::NEVER`] when it was removed.
    pub expires_at: Option<Millis>,
    /// When the sink has read it.
    pub time: Millis,
}

/// The columns beside `seq`, the version and the number of the batch.
pub const COLUMNS: [&str; 8] = ["shard", "revision", "key", "kind", "type", "value", "expires_ms", "time_ms"];
/// Where the key is among them.
pub const KEY_COLUMN: usize = 2;
/// Where the value is among them.
pub const VALUE_COLUMN: usize = 5;

/// A cell as a whole number.
#[must_use]
pub fn number(row: &Cells, at: usize) -> Option<u64> {
    row.get(at)?.as_deref()?.parse().ok()
}

/// The error for a row that is not as it was written.
#[must_use]
pub fn corrupt() -> Error {
    Error::new(Code::Corrupt, "a row of the event log is not one that Keystead has written")
}

fn whole(number: u64) -> Param {
    Param::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

impl Event {
    /// As a row of a batch.
    #[must_use]
    pub fn into_row(self) -> Row {
        let (key, version, shard, revision) = (self.key.clone(), self.version, self.shard, self.revision);
        Row { key, version, shard, revision, change: Change::Event(Box::new(self)) }
    }

    /// As a row that replaces the one of a rejected event.
    #[must_use]
    pub fn into_repair(self) -> Row {
        let Row { key, version, shard, revision, change } = self.into_row();
        let change = match change {
            Change::Event(event) => Change::Repair(event),
            other => other,
        };
        Row { key, version, shard, revision, change }
    }

    /// The values of [`COLUMNS`].
    pub(crate) fn params(&self) -> Vec<Param> {
        let text = |text: &str| Param::Text(text.to_owned());
        vec![
            whole(self.shard.0 as u64),
            whole(self.revision.0),
            text(&self.key),
            text(self.kind.as_str()),
            self.of.as_deref().map_or(Param::Null, text),
            self.value.as_ref().map_or(Param::Null, |value| Param::Text(value.to_string())),
            self.expires_at.map_or(Param::Null, |at| whole(at.0)),
            whole(self.time.0),
        ]
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.params().iter().map(Param::size).sum()
    }

    /// The event of a row of [`COLUMNS`], with `seq` and the version before them.
    ///
    /// # Errors
    /// `corrupt` when somebody else has written it.
    pub fn of_cells(row: &Cells) -> Result<Event> {
        let text = |at: usize| row.get(at).and_then(|cell| cell.as_deref());
        let integer = |at: usize| number(row, at).ok_or_else(corrupt);
        let value = text(2 + VALUE_COLUMN).map(serde_json::from_str).transpose().map_err(|_| corrupt())?;
        // The largest number of a column is the largest that it can have.
        let expires_at =
            number(row, 8).map(|at| if at >= i64::MAX as u64 { Millis::NEVER } else { Millis(at) });
        Ok(Event {
            seq: Seq(integer(0)?),
            version: Version(integer(1)?),
            shard: ShardId(integer(2)? as usize),
            revision: Revision(integer(3)?),
            key: text(2 + KEY_COLUMN).ok_or_else(corrupt)?.to_owned(),
            kind: text(5).and_then(Kind::named).ok_or_else(corrupt)?,
            of: text(6).map(str::to_owned),
            value,
            expires_at,
            time: Millis(integer(9)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.as_str()), Some(kind));
        }
        assert_eq!(Kind::named("other"), None);
    }
}
