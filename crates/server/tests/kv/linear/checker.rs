//! Whether the history of one document has an order that explains every response: Wing and Gong's search, with
//! memoisation of the states (Lowe). Pure.
//!
//! A request takes effect at some time between its call and its response. One without a response took effect at some
//! time after its call, or never.

use std::collections::HashSet;

/// A document as these tests write it: `{"a":...,"b":...}`, 0 where the member is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Doc {
    pub(super) version: u64,
    pub(super) a: u64,
    pub(super) b: u64,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Get,
    /// Puts `{"a":id}`, with a condition.
    Put(u64, Option<u64>),
    /// Merges `{"b":id}`, with a condition.
    Patch(u64, Option<u64>),
    Delete(Option<u64>),
}

/// Its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Is(Doc),
    Absent,
    Deleted,
    Conflict(Option<u64>),
}

/// A request in a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) start: u64,
    /// [`u64::MAX`] without a response.
    pub(super) end: u64,
    pub(super) call: Call,
    pub(super) outcome: Option<Outcome>,
}

type State = Option<Doc>;

/// The effect of a request on a document, and its outcome.
fn step(state: State, call: Call) -> (State, Outcome) {
    let current = state.map(|doc| doc.version);
    let (Call::Put(_, condition) | Call::Patch(_, condition) | Call::Delete(condition)) = call else {
        return (state, state.map_or(Outcome::Absent, Outcome::Is));
    };
    if condition.is_some() && condition != current {
        return (state, Outcome::Conflict(current));
    }
    let version = current.unwrap_or(0) + 1;
    let doc = match call {
        Call::Put(a, _) => Doc { version, a, b: 0 },
        Call::Patch(b, _) => Doc { version, a: state.map_or(0, |doc| doc.a), b },
        _ => return (None, if state.is_some() { Outcome::Deleted } else { Outcome::Absent }),
    };
    (Some(doc), Outcome::Is(doc))
}

/// Whether the history of a document that was absent at first is linearizable.
pub(super) fn is_linearizable(history: &[Event]) -> bool {
    let mut events = history.to_vec();
    events.sort_by_key(|event| event.start);
    let mut search = Search { seen: HashSet::new(), done: vec![0; events.len().div_ceil(64)], events };
    search.has_order(0, None)
}

struct Search {
    events: Vec<Event>,
    /// A bit for each event that is ordered already.
    done: Vec<u64>,
    seen: HashSet<(Vec<u64>, State)>,
}

impl Search {
    fn is_done(&self, n: usize) -> bool {
        self.done[n / 64] & 1 << (n % 64) != 0
    }

    /// Whether the events that are left can be put in order after this state. `first`: all before are done.
    fn has_order(&mut self, mut first: usize, state: State) -> bool {
        while first < self.events.len() && self.is_done(first) {
            first += 1;
        }
        let left = (first..self.events.len()).filter(|n| !self.is_done(*n));
        if left.map(|n| self.events[n]).all(|event| event.outcome.is_none()) {
            return true;
        }
        if !self.seen.insert((self.done.clone(), state)) {
            return false;
        }
        let mut soonest_end = u64::MAX;
        for n in first..self.events.len() {
            let event = self.events[n];
            if event.start > soonest_end {
                // An event that is left ended before this one began, so it must be first.
                break;
            }
            if self.is_done(n) {
                continue;
            }
            soonest_end = soonest_end.min(event.end);
            let (next, outcome) = step(state, event.call);
            if event.outcome.is_some_and(|reported| reported != outcome)
                || event.outcome.is_none() && next == state
            {
                continue;
            }
            self.done[n / 64] |= 1 << (n % 64);
            if self.has_order(first, next) {
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

    fn event(start: u64, end: u64, call: Call, outcome: Outcome) -> Event {
        Event { start, end, call, outcome: Some(outcome) }
    }

    fn doc(version: u64, a: u64) -> Outcome {
        Outcome::Is(Doc { version, a, b: 0 })
    }

    #[test]
    fn the_checker_distinguishes_orders_from_contradictions() {
        let put = event(1, 4, Call::Put(7, None), doc(1, 7));
        let old = |start, end| event(start, end, Call::Get, Outcome::Absent);
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
        let lost = Event { start: 5, end: u64::MAX, call: Call::Put(9, None), outcome: None };
        assert!(is_linearizable(&[put, lost, new(8, 9), event(10, 11, Call::Get, doc(2, 9))]));
        assert!(is_linearizable(&[put, lost, new(8, 9)]), "it may never happen");
        assert!(!is_linearizable(&[put, lost, event(6, 7, Call::Get, doc(2, 9)), new(8, 9)]));
    }
}
