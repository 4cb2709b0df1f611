//! The named cases: what every store must do, one file a group, one row a case.
//!
//! A case may run on a store that other cases and other processes use at the same time, so it accesses only its own keys. A store
//! declares in its capabilities what it cannot do; a case declares what it needs, and where an error is the correct result, another
//! case asserts the error.

mod basics;
mod bounded;
mod bounds;
mod clock;
mod closing;
mod contention;
mod decisions;
mod denied;
mod expiry;
mod handles;
mod keys;
mod random;
mod sync;
mod types;
mod values;

use std::future::Future;
use std::pin::Pin;

use keystead_core::Capabilities;

use crate::failure::Checked;
use crate::scene::Scene;

/// A case that runs.
pub type Running<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// One thing that every store must do.
pub struct Case {
    /// What must hold, as an identifier.
    pub name: &'static str,
    /// What a store must declare for the case to apply.
    pub needs: &'static [Need],
    /// Runs it.
    pub run: for<'a> fn(&'a Scene) -> Running<'a>,
}

/// Cases about one subject.
pub struct Group {
    /// The subject, and the name of its file.
    pub name: &'static str,
    /// Its rows.
    pub cases: &'static [Case],
}

/// What a case needs of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Steps are atomic.
    Atomic,
    /// The data outlives the handle.
    Durable,
    /// Several handles access the same data.
    Shared,
    /// It is synchronous.
    Sync,
    /// It is asynchronous.
    NoSync,
    /// The case can move the time.
    InjectedClock,
    /// The time is the server's.
    ServerClock,
}

impl Need {
    /// Why a store with these capabilities cannot run the case, if so.
    #[must_use]
    pub fn unmet(self, can: Capabilities) -> Option<&'static str> {
        let (met, reason) = match self {
            Need::Atomic => (can.atomic, "its steps are approximate by design"),
            Need::Durable => (can.durable, "it is not durable"),
            Need::Shared => (can.shared, "it is not shared"),
            Need::Sync => (can.sync, "it has no synchronous apply"),
            Need::NoSync => (!can.sync, "it has a synchronous apply"),
            Need::InjectedClock => (can.injected_clock, "its clock cannot be set"),
            Need::ServerClock => (!can.injected_clock, "its clock is injected"),
        };
        (!met).then_some(reason)
    }
}

/// The cases of an unbounded store.
pub const GROUPS: &[Group] = &[
    Group { name: "basics", cases: basics::CASES },
    Group { name: "expiry", cases: expiry::CASES },
    Group { name: "keys", cases: keys::CASES },
    Group { name: "bounds", cases: bounds::CASES },
    Group { name: "denied", cases: denied::CASES },
    Group { name: "contention", cases: contention::CASES },
    Group { name: "values", cases: values::CASES },
    Group { name: "types", cases: types::CASES },
    Group { name: "clock", cases: clock::CASES },
    Group { name: "sync", cases: sync::CASES },
    Group { name: "handles", cases: handles::CASES },
    Group { name: "closing", cases: closing::CASES },
    Group { name: "random", cases: random::CASES },
];

/// The decisions of rate limits. They do not test more of a store than [`GROUPS`] does; they show that limits decide alike on it, to
/// the last bit.
pub const DECISION_GROUPS: &[Group] = &[Group { name: "decisions", cases: decisions::CASES }];

/// The cases of a store that evicts keys beyond a bound. The others assume that it does not.
pub const BOUNDED_GROUPS: &[Group] = &[Group { name: "bounded", cases: bounded::CASES }];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinct_identifiers() {
        let mut seen = HashSet::new();
        for group in GROUPS.iter().chain(DECISION_GROUPS).chain(BOUNDED_GROUPS) {
            assert!(!group.cases.is_empty(), "{} has no cases", group.name);
            for case in group.cases {
                assert!(case.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
                assert!(seen.insert((group.name, case.name)), "{}::{} is there twice", group.name, case.name);
            }
        }
    }

    #[test]
    fn no_case_needs_opposites() {
        for case in GROUPS.iter().chain(BOUNDED_GROUPS).flat_map(|group| group.cases) {
            for pair in [[Need::Sync, Need::NoSync], [Need::InjectedClock, Need::ServerClock]] {
                assert!(!pair.iter().all(|need| case.needs.contains(need)), "{} can never run", case.name);
            }
        }
    }
}
