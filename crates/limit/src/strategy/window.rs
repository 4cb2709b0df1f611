//! Counting in a window that begins and ends at known times, for `fixedWindow` and `quota`.
//!
//! The state is (start of the window, count). A window that is ahead of the clock stays in effect: the clock has jumped back, and
//! what was admitted in that window still counts.

use keystead_core::{Change, Millis, Step, Ttl};

use super::{Ask, Ruling, Spent, Strategy};
use crate::decision::Decision;
use crate::number::{whole, whole_moment};

/// [`decide`] as a script. A part before it defines the function `window`.
pub(super) const SCRIPT: &str = include_str!("window.lua");

/// A strategy that counts in windows with known boundaries. Only such a strategy can lease units to nodes in advance.
pub trait Windowed: Strategy<State = (u64, u64)> {
    /// The window of `now`, `begin <= now < end`. Integers, because this is on the critical path of a check and takes twice as long in
    /// doubles.
    fn window(&self, now: i64) -> (i64, i64);
}

#[inline]
fn moment(now: Millis) -> i64 {
    whole_moment(now) as i64
}

/// The window in effect at `now`, and its count.
#[inline]
fn current<W: Windowed>(strategy: &W, state: Option<&(u64, u64)>, now: i64) -> (u64, i64, u64) {
    let (start, end) = strategy.window(now);
    match state {
        // A start before the epoch is stored as 0, which is unambiguous: clocks begin at the epoch.
        Some((stored, count)) if *stored == whole(start) => (*stored, end, *count),
        Some((stored, count)) if moment(Millis(*stored)) > now => {
            (*stored, strategy.window(moment(Millis(*stored))).1, *count)
        }
        _ => (whole(start), end, 0),
    }
}

#[inline(always)]
pub(super) fn decide<W: Windowed>(
    strategy: &W,
    state: Option<&(u64, u64)>,
    now: Millis,
    ask: &Ask,
) -> Ruling<(u64, u64)> {
    let now = moment(now);
    let (start, end, count) = current(strategy, state, now);
    let (limit, after) = (strategy.limit(), count.saturating_add(ask.cost));
    let (reset_at, rest_ms) = (whole(end), whole(end - now));
    if after <= limit {
        let decision = Decision::allow(limit, limit - after, reset_at);
        return Ruling::allow(decision, (start, after), rest_ms.max(1));
    }
    let left = limit.saturating_sub(count);
    Ruling::deny(Decision::deny(limit, left, reset_at, rest_ms))
}

pub(super) fn refund<W: Windowed>(
    strategy: &W,
    state: &(u64, u64),
    spent: &Spent,
    ask: &Ask,
) -> Option<(u64, u64)> {
    // Compares the end of the window that the decision reported: its time may be in an earlier window if the clock had jumped back.
    let end = whole(strategy.window(moment(Millis(state.0))).1);
    (end == spent.until.0).then(|| (state.0, state.1.saturating_sub(ask.cost)))
}

/// Takes units for a node in advance: as many as it wants, or what remains if that is at least what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Take<W> {
    /// The strategy.
    pub strategy: W,
    /// The minimum: fewer are not taken.
    pub need: u64,
    /// The maximum: more are not taken.
    pub want: u64,
}

/// What a node has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Units, 0 when denied.
    pub units: u64,
    /// For how many milliseconds of the store's clock they are valid: until the window ends.
    pub good_ms: u64,
    /// The state of the limit afterwards.
    pub decision: Decision,
    /// The time of the store.
    pub now: Millis,
}

impl<W: Windowed> Step for Take<W> {
    type State = (u64, u64);
    type Reply = Grant;

    fn run(&self, state: Option<&(u64, u64)>, now: Millis) -> Change<(u64, u64), Grant> {
        let (_, end, count) = current(&self.strategy, state, moment(now));
        let left = self.strategy.limit().saturating_sub(count);
        let units = self.want.max(self.need).min(left).max(self.need);
        let ruling = decide(&self.strategy, state, now, &Ask::units(units));
        let good_ms = whole(end - moment(now));
        let grant = |units| Grant { units, good_ms, decision: ruling.decision, now };
        match ruling.put {
            Some((state, ttl_ms)) => Change::Put(state, Ttl::Ms(ttl_ms), grant(units)),
            None => Change::Keep(grant(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::FixedWindow;

    fn take(state: Option<(u64, u64)>, now: u64, need: u64, want: u64) -> (u64, u64, Option<(u64, u64)>) {
        let step = Take { strategy: FixedWindow::new(10, 1000).unwrap(), need, want };
        match step.run(state.as_ref(), Millis(now)) {
            Change::Put(state, _, grant) => (grant.units, grant.good_ms, Some(state)),
            Change::Keep(grant) => (grant.units, grant.good_ms, None),
            Change::Delete(_) => panic!("a take never deletes"),
        }
    }

    #[test]
    fn a_node_gets_what_it_wants_or_what_is_left_or_nothing() {
        assert_eq!(take(None, 5200, 1, 4), (4, 800, Some((5000, 4))));
        assert_eq!(take(Some((5000, 8)), 5200, 1, 4), (2, 800, Some((5000, 10))));
        assert_eq!(take(Some((5000, 8)), 5200, 3, 4), (0, 800, None));
        assert_eq!(take(Some((5000, 10)), 5999, 1, 4), (0, 1, None));
        assert_eq!(take(Some((5000, 10)), 6000, 1, 4), (4, 1000, Some((6000, 4))), "another window");
        assert_eq!(
            take(Some((6000, 9)), 5999, 1, 4),
            (1, 1001, Some((6000, 10))),
            "the clock has jumped back"
        );
    }
}
