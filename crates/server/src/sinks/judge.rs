//! Whether a target is a past state of this database: where a sink begins. Pure.

use keystead_core::{Code, Error, Result, Revision};
use keystead_engine::Engine;
use keystead_sinks::Position;

/// How a sink begins.
pub(super) enum Begin {
    /// From these revisions.
    Continue(Vec<Revision>),
    /// From these revisions, and all keys again: that was interrupted.
    Interrupted(Vec<Revision>),
    /// With all keys, to a target that has none.
    First,
    /// With all keys, because the target does not have the history of this database.
    Anew(&'static str),
}

/// What is known of the history.
pub(super) struct History<'h> {
    pub(super) engine: &'h Engine,
    pub(super) database: &'h str,
    pub(super) sink: &'h str,
    /// The last batch that may have been sent.
    pub(super) last_batch: Option<u64>,
    /// No target that has followed this history is further than this.
    pub(super) known: &'h [Revision],
}

impl History<'_> {
    /// Whether this is a position of the history. `may_take_over`: also that of another database.
    pub(super) fn judge(&self, found: Option<&Position>, may_take_over: bool) -> Result<Begin> {
        let Some(position) = found else { return Ok(Begin::First) };
        if position.database != self.database {
            if self.engine.copied_from().contains(&position.database) {
                return Ok(Begin::Anew("this database is a copy of the one that has written to the target"));
            }
            if may_take_over {
                return Ok(Begin::Anew("another database has written to the target"));
            }
            let message = format!(
                "the target belongs to another database ({}): keystead sink resync {} makes it follow this one",
                position.database, self.sink
            );
            return Err(Error::new(Code::Conflict, message));
        }
        if self.last_batch.is_none_or(|last| position.batch > last)
            || position.revisions.len() != self.known.len()
            || position.revisions.iter().zip(self.known).any(|(reached, known)| reached > known)
        {
            return Ok(Begin::Anew("this database was restored to a state before that of the target"));
        }
        Ok(match position.resync {
            Some(_) => Begin::Interrupted(position.revisions.clone()),
            None => Begin::Continue(position.revisions.clone()),
        })
    }
}
