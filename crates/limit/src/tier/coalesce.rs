//! One question in flight for a key: who comes while it is under way waits for its answer.
//!
//! Whoever asks holds a [`Lead`]. If it is dropped without an answer (its request was given up) the next one who waits asks
//! anew, so nobody waits for ever.

use keystead_core::{Code, Error, Key, Millis, Result};

use super::local::Local;
use crate::decision::Decision;
use crate::strategy::Grant;

/// What to do with a check.
pub(super) enum Turn<'a> {
    /// It is decided here.
    Decided(Decision),
    /// Somebody is asking; wait for the end of this generation of the question.
    Wait(u64),
    /// Ask, and tell the others.
    Lead(Lead<'a>),
}

/// The one who asks.
pub(super) struct Lead<'a> {
    pub(super) local: &'a Local,
    pub(super) key: &'a Key,
    pub(super) open: bool,
}

impl Lead<'_> {
    /// Takes in the answer and wakes those who wait. Of what was granted, `cost` belongs to the one who asked.
    pub(super) fn finish(mut self, sent_at: Millis, cost: u64, answer: Result<&Grant, &Error>) {
        self.open = false;
        self.local.end(self.key, |entry| match answer {
            Ok(grant) if grant.units > 0 => {
                let spare = grant.units - cost;
                entry.receive(sent_at, spare, grant.good_ms, &grant.decision);
            }
            Ok(grant) => entry.deny(sent_at, cost, &grant.decision),
            Err(error) => entry.fail(error),
        });
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.open {
            self.local.end(self.key, |_| {});
        }
    }
}

/// What those who waited are told when the store could not be asked.
pub(super) fn same_error(code: Code, message: &str) -> Error {
    Error::new(code, message.to_string())
}
