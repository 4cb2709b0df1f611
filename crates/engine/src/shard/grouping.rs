//! Group commit: when a batch is sent to the journal, if every batch costs a sync.
//!
//! One sync runs at a time; what changes meanwhile becomes the next batch. When a sync is over, the clients that it has acknowledged send
//! their next requests, and a batch that is sent before they arrive would split the clients into two halves that wait for each other's
//! syncs. So a batch is sent when as many requests have arrived as were waiting when the last sync ended, or when passes of the loop
//! bring no more. A client that is alone is never waited for, and no timer is involved.

use keystead_core::Revision;

use super::{Journal, Shard};
use crate::bounds::GROUP_PASSES_MAX;

/// Passes without a new request after which a batch is sent. The requests that one pass finds are run in the next one.
const QUIET_PASSES: u32 = 2;

/// The requests of the next batch, and those that are expected.
#[derive(Default)]
pub(super) struct Grouping {
    /// The last revision that was sent.
    sent: Revision,
    sent_requests: u32,
    /// Requests in the next batch.
    requests: u32,
    /// Requests that the next batch probably gets.
    expected: u32,
    /// `requests` in the pass before.
    seen: u32,
    quiet_passes: u32,
    passes: u32,
}

impl Grouping {
    /// Counts a request that has changed something.
    #[inline]
    pub(super) fn count(&mut self) {
        self.requests += 1;
    }

    /// Whether the batch is sent now. Asked once in every pass of the loop while there is something to send.
    pub(super) fn is_due(&mut self, durable: Revision) -> bool {
        if self.sent > durable {
            return false;
        }
        self.passes += 1;
        self.quiet_passes = if self.requests == self.seen { self.quiet_passes + 1 } else { 0 };
        self.seen = self.requests;
        self.requests >= self.expected || self.quiet_passes >= QUIET_PASSES || self.passes >= GROUP_PASSES_MAX
    }

    /// Whether a sync is running.
    pub(super) fn is_syncing(&self, durable: Revision) -> bool {
        self.sent > durable
    }

    /// A sync is over: its clients may send more.
    pub(super) fn synced(&mut self) {
        self.expected = self.sent_requests.saturating_add(self.requests);
        (self.seen, self.quiet_passes, self.passes) = (self.requests, 0, 0);
    }

    /// The batch was sent.
    pub(super) fn sent(&mut self, last: Revision) {
        (self.sent, self.sent_requests) = (last, self.requests);
        (self.requests, self.seen, self.quiet_passes, self.passes) = (0, 0, 0, 0);
    }
}

impl Shard {
    /// Sends changes to the journal if that is due, and delivers the results that are durable. Returns whether the next pass of the loop
    /// must try again.
    pub(crate) fn finish_when_due(&mut self) -> bool {
        if matches!(self.journal, Journal::Fsync(_)) {
            let durable = self.shared.progress.durable();
            if !self.keyspace.effects().is_empty() && !self.grouping.is_due(durable) {
                // A sync that runs wakes the loop when it is over.
                return !self.grouping.is_syncing(durable);
            }
        }
        self.finish();
        false
    }

    /// A sync may be over: delivers results, and returns whether there is something to send.
    pub(crate) fn after_sync(&mut self) -> bool {
        if !self.grouping.is_syncing(self.shared.progress.durable()) {
            self.grouping.synced();
        }
        self.open_gate();
        !self.keyspace.effects().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(grouping: &mut Grouping, requests: u32) {
        for _ in 0..requests {
            grouping.count();
        }
    }

    #[test]
    fn a_lone_client_is_not_delayed() {
        let mut grouping = Grouping::default();
        for round in 1..4 {
            grouping.count();
            assert!(grouping.is_due(Revision(round - 1)));
            grouping.sent(Revision(round));
            assert!(grouping.is_syncing(Revision(round - 1)));
            grouping.synced();
            assert!(!grouping.is_syncing(Revision(round)));
        }
    }

    #[test]
    fn nothing_is_sent_while_a_sync_runs() {
        let mut grouping = Grouping::default();
        grouping.count();
        grouping.sent(Revision(1));
        count(&mut grouping, 1000);
        for _ in 0..1000 {
            assert!(!grouping.is_due(Revision(0)));
        }
    }

    #[test]
    fn two_halves_become_one_group() {
        let mut grouping = Grouping::default();
        count(&mut grouping, 25);
        grouping.sent(Revision(25));
        count(&mut grouping, 25);
        grouping.synced();
        assert!(!grouping.is_due(Revision(25)), "the first half has not returned");
        count(&mut grouping, 20);
        assert!(!grouping.is_due(Revision(25)));
        count(&mut grouping, 5);
        assert!(grouping.is_due(Revision(25)), "all are there");
    }

    #[test]
    fn clients_that_do_not_return_are_not_waited_for() {
        let mut grouping = Grouping::default();
        count(&mut grouping, 50);
        grouping.sent(Revision(50));
        grouping.synced();
        grouping.count();
        assert!(!grouping.is_due(Revision(50)));
        assert!(!grouping.is_due(Revision(50)));
        assert!(grouping.is_due(Revision(50)), "two passes brought nothing");
    }

    #[test]
    fn a_trickle_of_requests_does_not_delay_the_first_for_ever() {
        let mut grouping = Grouping::default();
        count(&mut grouping, 1000);
        grouping.sent(Revision(1000));
        grouping.synced();
        let mut passes = 0;
        loop {
            passes += 1;
            grouping.count();
            if grouping.is_due(Revision(1000)) {
                break;
            }
        }
        assert_eq!(passes, GROUP_PASSES_MAX);
    }
}
