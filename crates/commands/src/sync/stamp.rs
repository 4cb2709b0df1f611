//! Which of two mutations wins, and what happens with times that are too far ahead or too old. Pure.
//!
//! A stamp is a hybrid logical clock: the client's time, which clients keep ahead of every server time that they have seen, and then
//! the client and the id, so that no two mutations have the same one. Invariant: no stamp is more than [`SYNC_SKEW_MS_MAX`] ahead of the
//! server's time when it is accepted, so a client whose clock is a year ahead does not win for a year.

use keystead_core::Millis;
use serde::{Deserialize, Serialize};

use crate::bounds::{SYNC_RETENTION_MS, SYNC_SKEW_MS_MAX};

/// When a mutation was made. The greater one wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The time in milliseconds.
    pub ms: u64,
    /// The client; empty for a write by another API.
    pub client: String,
    /// The id of the mutation.
    pub id: u64,
}

impl Stamp {
    /// The stamp of a write by another API at this time.
    #[must_use]
    pub fn outside(ms: u64) -> Stamp {
        Stamp { ms, client: String::new(), id: 0 }
    }
}

/// The time of a mutation as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// As the client says.
    AsSent(u64),
    /// It was too far ahead: this is the server's time.
    Clamped(u64),
    /// It is older than tombstones are kept.
    TooOld,
}

/// What the time of a mutation counts as.
#[must_use]
pub fn counted(ts: u64, now: Millis) -> Counted {
    if ts > now.0.saturating_add(SYNC_SKEW_MS_MAX) {
        return Counted::Clamped(now.0);
    }
    if is_over(ts, now) { Counted::TooOld } else { Counted::AsSent(ts) }
}

/// Whether a stamp of this time is no longer needed: a mutation that is as old is not accepted.
#[must_use]
pub fn is_over(ms: u64, now: Millis) -> bool {
    ms.saturating_add(SYNC_RETENTION_MS) < now.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_too_far_ahead_becomes_the_time_of_the_server() {
        let now = Millis(10 * SYNC_RETENTION_MS);
        assert_eq!(counted(now.0 + SYNC_SKEW_MS_MAX, now), Counted::AsSent(now.0 + SYNC_SKEW_MS_MAX));
        assert_eq!(counted(now.0 + SYNC_SKEW_MS_MAX + 1, now), Counted::Clamped(now.0));
        assert_eq!(counted(u64::MAX, now), Counted::Clamped(now.0));
        assert_eq!(counted(now.0 - SYNC_RETENTION_MS, now), Counted::AsSent(now.0 - SYNC_RETENTION_MS));
        assert_eq!(counted(now.0 - SYNC_RETENTION_MS - 1, now), Counted::TooOld);
    }

    #[test]
    fn stamps_are_ordered_by_time_then_client_then_id() {
        let stamp = |ms, client: &str, id| Stamp { ms, client: client.into(), id };
        let sorted =
            [Stamp::outside(5), stamp(5, "a", 9), stamp(5, "b", 1), stamp(5, "b", 2), Stamp::outside(6)];
        assert!(sorted.is_sorted());
    }
}
