//! At most one request to the store in flight for a key: other checks wait for its result.
//!
//! The check that sends the request holds a [`Lead`]. If it is dropped without a result (its caller was cancelled), the next check
//! that waits sends a new one, so no check waits for ever.

use keystead_core::{Code, Error, Key, Millis, Result};

use super::local::Local;
use crate::decision::Decision;
use crate::strategy::Grant;

/// What to do with a check.
pub(super) enum Turn<'a> {
    /// It is decided locally.
    Decided(Decision),
    /// A request is in flight; wait for the end of this generation.
    Wait(u64),
    /// Send the request, and wake the others.
    Lead(Lead<'a>),
}

/// The check that sends the request.
pub(super) struct Lead<'a> {
    pub(super) local: &'a Local,
    pub(super) key: &'a Key,
    pub(super) open: bool,
}

impl Lead<'_> {
    /// Applies the result and wakes the checks that wait. Of the granted units, `cost` belongs to this check.
    pub(super) fn finish(mut self, sent_at: Millis, cost: u64, result: Result<&Grant, &Error>) {
        self.open = false;
        self.local.end(self.key, |entry| match result {
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

/// The error for the checks that waited when the request failed.
pub(super) fn same_error(code: Code, message: &str) -> Error {
    Error::new(code, message.to_string())
}
