//! The event log of a sink: a table of the target to which every change is appended, in order, and from which states are rebuilt.
//!
//! | To find                                              | open         |
//! |------------------------------------------------------|--------------|
//! | an event, its kinds and its row                      | [`event`]    |
//! | statements of the two tables                         | `sql`        |
//! | the state of a key after some events                 | [`fold`]     |
//! | pages of events; pages of the state at an event      | [`read`]     |
//! | comparing the last state with keys                   | `verify`     |
//! | removing what no state of the window needs           | [`mod@compact`] |
//!
//! The table of a log has one row for each event, `seq` by `seq` without holes until it is compacted. Beside it, `keystead_logs` has for each log the
//! last `seq` and the first one whose state can be rebuilt.
//!
//! Touches nothing by itself. Invariant: the state at any event of the window, which is not in the middle of a snapshot, can be rebuilt.

pub mod compact;
pub mod fold;
pub mod read;
pub(crate) mod sql;
mod verify;

use keystead_core::{Code, Error, Result};
use keystead_rows::event::{corrupt, number};

use crate::SinkFuture;

pub use compact::{Keep, compact};
pub use fold::{KeyState, State};
pub use keystead_rows::event::{self, Cells, Event, Kind, Seq};
pub use read::{EventPage, StatePage, events, states};
pub use verify::{differing, live_keys, look};

/// How far a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The last event; 0 when there is none.
    pub last: Seq,
    /// The window: states at this event and later ones can be rebuilt, and every event after it is there.
    pub first: Seq,
}

/// What is read from a log.
#[derive(Clone, Debug)]
pub enum Query {
    /// `last`, `first`.
    Extent,
    /// Events of keys with a prefix, and marks, after an event and up to another, in order.
    Events {
        /// What keys begin with.
        prefix: String,
        /// See above.
        after: Seq,
        /// See above.
        through: Seq,
        /// Most rows.
        most: usize,
    },
    /// The last mark of each kind and shard up to an event: `kind`, `shard`, `seq`.
    Marks {
        /// See above.
        through: Seq,
    },
    /// Keys with a prefix that have events after one event and up to another, in ascending order after a key.
    Keys {
        /// What keys begin with.
        prefix: String,
        /// The key before the first one.
        after: Option<String>,
        /// See above.
        base: Seq,
        /// See above.
        through: Seq,
        /// Only keys with more than one event.
        only_several: bool,
        /// Most keys.
        most: usize,
    },
    /// The events of a key from its last whole one on, after one event and up to another, in order.
    OfKey {
        /// The key.
        key: String,
        /// See above.
        base: Seq,
        /// See above.
        through: Seq,
        /// Most rows.
        most: usize,
    },
    /// Of the next rows after an event: how many there are, their last `seq`, and the last `seq` of those from before a time.
    Next {
        /// See above.
        after: Seq,
        /// The time, in milliseconds since 1970.
        before_ms: u64,
        /// Most rows.
        most: usize,
    },
}

/// What is changed in a log when it is compacted. Each is one transaction.
#[derive(Clone, Debug)]
pub enum Compaction {
    /// The window begins here.
    Begin(Seq),
    /// Rows after one event and up to another are removed if a later whole event of their key, up to the window, makes them needless.
    Superseded {
        /// See above.
        after: Seq,
        /// See above.
        through: Seq,
        /// Where the window begins.
        window: Seq,
    },
    /// Rows after one event and up to another are removed, if they are of this shard; of any if there is none.
    Void {
        /// See above.
        after: Seq,
        /// See above.
        through: Seq,
        /// See above.
        shard: Option<usize>,
    },
    /// These events become whole ones, and the earlier events of their keys are removed.
    Fold(Vec<Event>),
}

/// A target with an event log.
pub trait LogTarget: Send + Sync {
    /// Reads rows.
    ///
    /// # Errors
    /// `store_unavailable`.
    fn read<'a>(&'a self, query: &'a Query) -> SinkFuture<'a, Vec<Cells>>;

    /// Changes rows, in one transaction. Returns how many were removed or changed.
    ///
    /// # Errors
    /// `store_unavailable`.
    fn change<'a>(&'a self, change: &'a Compaction) -> SinkFuture<'a, u64>;
}

/// How far a log goes.
///
/// # Errors
/// `store_unavailable`; `corrupt` when somebody else has written it.
pub async fn extent(log: &dyn LogTarget) -> Result<Extent> {
    let rows = log.read(&Query::Extent).await?;
    let Some(row) = rows.first() else { return Ok(Extent { last: Seq(0), first: Seq(0) }) };
    match (number(row, 0), number(row, 1)) {
        (Some(last), Some(first)) => Ok(Extent { last: Seq(last), first: Seq(first) }),
        _ => Err(corrupt()),
    }
}

/// What a target returns that has no log.
pub(crate) fn no_log() -> Error {
    Error::new(Code::Unsupported, "the sink has no event log: its mode is another one")
}
