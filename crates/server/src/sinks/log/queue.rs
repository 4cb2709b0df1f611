//! Events that are not in the target yet: marks, and the events of each shard in the order of their revisions. Pure.
//!
//! Invariant: what is before [`position`](ShardQueue::position) was taken.

use std::collections::VecDeque;

use keystead_core::{Revision, Stopwatch};
use keystead_sinks::log::Event;

/// An event that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) event: Event,
    /// The first revision that is not in the target before it is.
    pub(super) first: Revision,
    /// Whether it is a row of a snapshot.
    pub(super) is_snapshot: bool,
    pub(super) since: Stopwatch,
    pub(super) bytes: usize,
}

impl Queued {
    pub(super) fn new(event: Event, first: Revision, is_snapshot: bool, since: Stopwatch) -> Queued {
        let bytes = event.size();
        Queued { event, first, is_snapshot, since, bytes }
    }
}

/// The events of a shard.
#[derive(Default)]
pub(super) struct ShardQueue {
    events: VecDeque<Queued>,
    bytes: usize,
}

impl ShardQueue {
    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += queued.bytes;
        self.events.push_back(queued);
    }

    /// Adds rows of a snapshot, which were read at this revision: after the events up to it, and before later ones.
    pub(super) fn insert(&mut self, at: Revision, rows: Vec<Queued>) {
        self.bytes += rows.iter().map(|row| row.bytes).sum::<usize>();
        let later = self.events.partition_point(|queued| queued.event.revision <= at);
        let rest = self.events.split_off(later);
        self.events.extend(rows);
        self.events.extend(rest);
    }

    /// Removes the rows of a snapshot that begins anew.
    pub(super) fn drop_snapshot(&mut self) {
        self.events.retain(|queued| !queued.is_snapshot);
        self.bytes = self.events.iter().map(|queued| queued.bytes).sum();
    }

    /// Takes the next event.
    pub(super) fn take(&mut self) -> Option<Queued> {
        let taken = self.events.pop_front()?;
        self.bytes -= taken.bytes;
        Some(taken)
    }

    /// Puts back what was taken, in its order.
    pub(super) fn put_back(&mut self, taken: Vec<Queued>) {
        for queued in taken.into_iter().rev() {
            self.bytes += queued.bytes;
            self.events.push_front(queued);
        }
    }

    /// The revision up to which everything was taken, when the feed was read up to `read`.
    pub(super) fn position(&self, read: Revision) -> Revision {
        self.events.front().map_or(read, |queued| Revision(queued.first.0 - 1))
    }

    /// When the oldest was noticed.
    pub(super) fn since(&self) -> Option<Stopwatch> {
        self.events.front().map(|queued| queued.since)
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::Millis;
    use keystead_sinks::log::Kind;

    use super::super::change::mark;
    use super::*;

    fn queued(first: u64, last: u64, is_snapshot: bool) -> Queued {
        let event = Event { revision: Revision(last), ..mark(Kind::Put, None, Millis(0)) };
        Queued::new(event, Revision(first), is_snapshot, Stopwatch::start())
    }

    #[test]
    fn a_snapshot_is_between_the_events_before_and_after_it() {
        let mut queue = ShardQueue::default();
        assert_eq!(queue.position(Revision(4)), Revision(4));
        for (first, last) in [(5, 5), (6, 8), (9, 9)] {
            queue.push(queued(first, last, false));
        }
        queue.insert(Revision(8), vec![queued(9, 8, true), queued(9, 8, true)]);
        assert_eq!((queue.len(), queue.position(Revision(9))), (5, Revision(4)));
        let mut taken = Vec::new();
        for (is_snapshot, then) in [(false, 5), (false, 8), (true, 8), (true, 8), (false, 9)] {
            let next = queue.take().unwrap();
            assert_eq!((next.is_snapshot, queue.position(Revision(9))), (is_snapshot, Revision(then)));
            taken.push(next);
        }
        assert_eq!((queue.bytes(), queue.len()), (0, 0));
        queue.put_back(taken);
        assert_eq!((queue.len(), queue.position(Revision(9))), (5, Revision(4)));
        queue.insert(Revision(9), vec![queued(10, 9, true)]);
        let before = queue.bytes();
        assert_eq!(queue.len(), 6);
        queue.drop_snapshot();
        assert_eq!((queue.len(), queue.bytes()), (3, before / 2));
    }
}
