//! Whether a history of one document can be put into an order that explains every answer: Wing and Gong's search, with the
//! states that were seen remembered (Lowe). Pure.
//!
//! A request takes effect at some moment between its call and its answer. One whose answer never came took effect at some
//! moment after its call, or never.

use std::collections::HashSet;

/// A document as these tests write it: `{"a":...,"b":...}`, 0 where the member is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Doc {
    pub(super) version: u64,
    pub(super) a: u64,
    pub(super) b: u64,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Get,
    /// Puts `{"a":id}`, with a condition.
    Put(u64, Option<u64>),
    /// Merges `{"b":id}`, with a condition.
    Patch(u64, Option<u64>),
    Delete(Option<u64>),
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Is(Doc),
    Absent,
    Deleted,
    Conflict(Option<u64>),
}

/// A request in a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) start: u64,
    /// [`u64::MAX`] when no answer came.
    pub(super) end: u64,
    pub(super) call: Call,
    pub(super) came: Option<Came>,
}

type State = Option<Doc>;

/// What a request does to a document, and what it is answered.
fn step(state: State, call: Call) -> (State, Came) {
    let current = state.map(|doc| doc.version);
    let (Call::Put(_, condition) | Call::Patch(_, condition) | Call::Delete(condition)) = call else {
        return (state, state.map_or(Came::Absent, Came::Is));
    };
    if condition.is_some() && condition != current {
        return (state, Came::Conflict(current));
    }
    let version = current.unwrap_or(0) + 1;
    let doc = match call {
        Call::Put(a, _) => Doc { version, a, b: 0 },
        Call::Patch(b, _) => Doc { version, a: state.map_or(0, |doc| doc.a), b },
        _ => return (None, if state.is_some() { Came::Deleted } else { Came::Absent }),
    };
    (Some(doc), Came::Is(doc))
}

/// Whether the history of a document that was absent at first is linearizable.
pub(super) fn is_linearizable(history: &[Event]) -> bool {
    let mut events = history.to_vec();
    events.sort_by_key(|event| event.start);
    let mut search = Search { seen: HashSet::new(), done: vec![0; events.len().div_ceil(64)], events };
    search.goes_on(0, None)
}

struct Search {
    events: Vec<Event>,
    /// A bit for each event that has its place in the order.
    done: Vec<u64>,
    seen: HashSet<(Vec<u64>, State)>,
}

impl Search {
    fn is_done(&self, n: usize) -> bool {
        self.done[n / 64] & 1 << (n % 64) != 0
    }

    /// Whether the events that are left can be put in order after this state. `first`: all before are done.
    fn goes_on(&mut self, mut first: usize, state: State) -> bool {
        while first < self.events.len() && self.is_done(first) {
            first += 1;
        }
        let left = (first..self.events.len()).filter(|n| !self.is_done(*n));
        if left.map(|n| self.events[n]).all(|event| event.came.is_none()) {
            return true;
        }
        if !self.seen.insert((self.done.clone(), state)) {
            return false;
        }
        let mut soonest_end = u64::MAX;
        for n in first..self.events.len() {
            let event = self.events[n];
            if event.start > soonest_end {
                // Something that is left had ended before this began, and so has to come first.
                break;
            }
            if self.is_done(n) {
                continue;
            }
            soonest_end = soonest_end.min(event.end);
            let (next, came) = step(state, event.call);
            if event.came.is_some_and(|told| told != came) || event.came.is_none() && next == state {
                continue;
            }
            self.done[n / 64] |= 1 << (n % 64);
            if self.goes_on(first, next) {
                return true;
            }
            self.done[n / 64] &= !(1 << (n % 64));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start: u64, end: u64, call: Call, came: Came) -> Event {
        Event { start, end, call, came: Some(came) }
    }

    fn doc(version: u64, a: u64) -> Came {
        Came::Is(Doc { version, a, b: 0 })
    }

    #[test]
    fn the_checker_tells_orders_from_contradictions() {
        let put = event(1, 4, Call::Put(7, None), doc(1, 7));
        let old = |start, end| event(start, end, Call::Get, Came::Absent);
        let new = |start, end| event(start, end, Call::Get, doc(1, 7));
        assert!(is_linearizable(&[put, old(2, 3), new(5, 6)]));
        assert!(is_linearizable(&[put, new(2, 3), new(5, 6)]));
        assert!(!is_linearizable(&[put, old(5, 6)]), "a stale read");
        let slow = Event { end: 9, ..put };
        assert!(!is_linearizable(&[slow, new(2, 3), old(4, 5)]), "a reader goes back");
        let other = event(2, 3, Call::Put(8, None), doc(1, 8));
        assert!(!is_linearizable(&[put, other]), "a version is given twice");
        let second = event(2, 3, Call::Put(8, None), doc(2, 8));
        assert!(is_linearizable(&[put, second]));
        let swap = |start, a, version| event(start, 20, Call::Put(a, Some(1)), doc(version, a));
        assert!(!is_linearizable(&[put, swap(5, 1, 2), swap(6, 2, 3)]), "two winners");
        let lost = Event { start: 5, end: u64::MAX, call: Call::Put(9, None), came: None };
        assert!(is_linearizable(&[put, lost, new(8, 9), event(10, 11, Call::Get, doc(2, 9))]));
        assert!(is_linearizable(&[put, lost, new(8, 9)]), "it may never happen");
        assert!(!is_linearizable(&[put, lost, event(6, 7, Call::Get, doc(2, 9)), new(8, 9)]));
    }
}
