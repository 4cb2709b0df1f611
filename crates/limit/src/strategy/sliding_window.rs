//! `slidingWindow`: a window of buckets, of which the oldest counts in part.
//!
//! The state is a ring of buckets + 1 counts. Its newest tick determines the tick of every slot; a slot of an older tick reads as 0.
//! With one bucket this is the well-known estimate from two counters.

use keystead_core::bounds::STATE_BYTES_MAX;
use keystead_core::{Millis, Result, Script};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, script};
use crate::bounds::{BUCKETS_MAX, SCRIPT_ENTRIES_MAX};
use crate::decision::Decision;
use crate::number::{ceil, floor, moment, ttl_ms};
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "slidingWindow",
    required: &["limit", "windowMs"],
    optional: &["buckets"],
    about: "close to exact over any window, at a fixed cost a key",
    example: r#"{"kind":"slidingWindow","limit":5,"windowMs":1000}"#,
    build,
};

/// The default number of buckets.
const BUCKETS: u64 = 10;

/// `limit` units in any window, as estimated from buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingWindow {
    limit: u64,
    window_ms: f64,
    buckets: u64,
    bucket_ms: f64,
}

/// The counts of the last ticks. Tick `i` is in slot `i mod (buckets + 1)`.
///
/// A ring with the default number of buckets is stored inline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    tick: u64,
    /// The width of a tick. Ticks of different widths cannot be compared.
    #[serde(rename = "ms")]
    tick_ms: f64,
    counts: SmallVec<[u64; 11]>,
}

impl Ring {
    fn place(&self, tick: u64) -> usize {
        (tick % self.counts.len() as u64) as usize
    }

    /// The count of a tick that is not after the newest one.
    fn count(&self, tick: u64) -> u64 {
        match self.tick - tick < self.counts.len() as u64 {
            true => self.counts[self.place(tick)],
            false => 0,
        }
    }

    /// Advances to `tick`: the slots of all ticks in between are cleared.
    fn advance(&mut self, tick: u64) {
        let passed = (tick - self.tick).min(self.counts.len() as u64);
        for tick in (tick + 1 - passed)..=tick {
            let place = self.place(tick);
            self.counts[place] = 0;
        }
        self.tick = tick;
    }
}

impl SlidingWindow {
    /// `limit` units in any `window_ms`, estimated from that many buckets (default 10).
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range, the buckets are too narrow, or the counts would not fit into a
    /// store.
    pub fn new(limit: u64, window_ms: u64, buckets: Option<u64>) -> Result<Self> {
        let limit = check::whole("limit", limit)?;
        let window_ms = check::span_ms("windowMs", window_ms)? as f64;
        let buckets = check::up_to("buckets", buckets.unwrap_or(BUCKETS), BUCKETS_MAX)?;
        let bucket_ms = check::step_ms("windowMs / buckets", window_ms / buckets as f64)?;
        let digits = (limit / buckets).checked_ilog10().unwrap_or(0) as usize + 2;
        check::fits("buckets", (buckets as usize + 1) * digits + 96 <= STATE_BYTES_MAX)?;
        Ok(SlidingWindow { limit, window_ms, buckets, bucket_ms })
    }

    fn tick(&self, now: f64) -> u64 {
        floor(now / self.bucket_ms)
    }

    fn next_ms(&self, tick: u64) -> f64 {
        (tick as f64 + 1.0) * self.bucket_ms
    }

    /// When this tick no longer counts.
    fn reset_at(&self, tick: u64) -> u64 {
        ceil(self.next_ms(tick) + self.window_ms)
    }

    /// The tick in which units were counted: that of their time, or a later one if the clock had jumped back.
    fn tick_of(&self, spent: &Spent) -> Option<u64> {
        let next = floor((moment(spent.until) - self.window_ms) / self.bucket_ms);
        let ticks = [self.tick(moment(spent.at)), next.saturating_sub(1), next.saturating_sub(2)];
        ticks.into_iter().find(|tick| self.reset_at(*tick) == spent.until.0)
    }

    /// A ring with other buckets belongs to an earlier policy of this name and counts as empty.
    fn ring<'a>(&self, state: Option<&'a Ring>) -> Option<&'a Ring> {
        state.filter(|ring| ring.counts.len() as u64 == self.buckets + 1 && ring.tick_ms == self.bucket_ms)
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    let (limit, window_ms) = (fields.whole("limit")?, fields.span_ms("windowMs")?);
    Ok(AnyStrategy::SlidingWindow(SlidingWindow::new(limit, window_ms, fields.whole_if("buckets")?)?))
}

impl Strategy for SlidingWindow {
    type State = Ring;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn decide(&self, state: Option<&Ring>, now: Millis, ask: &Ask) -> Ruling<Ring> {
        let (now, width, limit) = (moment(now), self.bucket_ms, self.limit as f64);
        let ring = self.ring(state);
        // A ring ahead of the clock stays in effect: the clock has jumped back.
        let tick = self.tick(now).max(ring.map_or(0, |ring| ring.tick));
        let tick_ms = tick as f64 * width;
        let elapsed = (now - tick_ms).max(0.0);
        let weight = ((width - elapsed) / width).clamp(0.0, 1.0);
        // The newest tick of the ring is never after this one, so every count is in a full tick or in the oldest one.
        let count = |tick: u64| ring.filter(|ring| tick <= ring.tick).map_or(0, |ring| ring.count(tick));
        let first = (tick + 1).saturating_sub(self.buckets);
        let full = (first..=tick).map(count).fold(0, u64::saturating_add) as f64;
        let oldest = if tick < self.buckets { 0.0 } else { count(tick - self.buckets) as f64 };
        let estimate = full + oldest * weight;
        let projected = estimate + ask.cost as f64;
        let (next_ms, reset_at) = (self.next_ms(tick), self.reset_at(tick));
        if projected <= limit {
            let decision = Decision::allow(self.limit, floor(limit - projected), reset_at);
            let ring = self.add(ring, tick, ask.cost);
            // From the newest tick, which is ahead of a clock that has jumped back.
            let ahead = (tick_ms - now).max(0.0);
            return Ruling::allow(decision, ring, ttl_ms(self.window_ms + width + ahead));
        }
        let over = projected - limit;
        let retry_after_ms = match oldest > 0.0 && over <= oldest * weight {
            true => ceil(over * width / oldest),
            false => ceil(next_ms - now),
        };
        let left = floor(limit - estimate);
        Ruling::deny(Decision::deny(self.limit, left, reset_at, retry_after_ms))
    }

    fn refund(&self, state: &Ring, spent: &Spent, _now: Millis, ask: &Ask) -> Option<Ring> {
        let mut ring = self.ring(Some(state))?.clone();
        let tick = self.tick_of(spent).filter(|tick| *tick <= ring.tick && ring.count(*tick) > 0)?;
        let place = ring.place(tick);
        ring.counts[place] = ring.counts[place].saturating_sub(ask.cost);
        Some(ring)
    }

    /// A charge is capped at the limit: more in one tick has the same effect.
    fn charge(&self, state: Option<&Ring>, now: Millis, ask: &Ask) -> Option<(Ring, u64)> {
        let ask = Ask { cost: ask.cost.min(self.limit), ..*ask };
        SlidingWindow { limit: u64::MAX, ..*self }.decide(state, now, &ask).put
    }

    fn window_ms(&self) -> f64 {
        self.window_ms
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("sliding_window.lua")];
        let (cost, limit, window_ms) = (ask.cost.into(), self.limit.into(), self.window_ms.into());
        let args = [cost, limit, window_ms, self.buckets.into(), self.bucket_ms.into()];
        (self.buckets <= SCRIPT_ENTRIES_MAX).then(|| script("slidingWindow", SOURCE, args))
    }
}

impl SlidingWindow {
    fn add(&self, ring: Option<&Ring>, tick: u64, cost: u64) -> Ring {
        let mut ring = match ring {
            Some(ring) => ring.clone(),
            None => {
                let counts = SmallVec::from_elem(0, self.buckets as usize + 1);
                Ring { tick, tick_ms: self.bucket_ms, counts }
            }
        };
        ring.advance(tick);
        let place = ring.place(tick);
        ring.counts[place] = ring.counts[place].saturating_add(cost);
        ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    #[test]
    fn two_counters_weigh_the_last_window() {
        let mut lab = Lab::new(SlidingWindow::new(10, 1000, Some(1)).unwrap());
        assert_eq!(lab.check(5000, 8), allow(10, 2, 7000));
        assert_eq!(lab.ttl_ms(), 2000);
        assert_eq!(lab.check(5999, 3), deny(10, 2, 7000, 1));
        // A quarter of the new window is over: 8 * 0.75 = 6 of the last one still count.
        assert_eq!(lab.check(6250, 4), allow(10, 0, 8000));
        assert_eq!(lab.check(6250, 1), deny(10, 0, 8000, 125), "8 units leave within 1000 ms, one in 125");
        assert_eq!(lab.check(6375, 1), allow(10, 0, 8000));
        assert_eq!(lab.check(6375, 6), deny(10, 0, 8000, 625), "more than the oldest can free");
    }

    #[test]
    fn buckets_slide_one_by_one() {
        let mut lab = Lab::new(SlidingWindow::new(4, 1000, Some(4)).unwrap());
        assert_eq!(lab.check(0, 1), allow(4, 3, 1250));
        assert_eq!(lab.check(250, 2), allow(4, 1, 1500));
        assert_eq!(lab.check(999, 1), allow(4, 0, 2000));
        assert_eq!(lab.check(999, 1), deny(4, 0, 2000, 1));
        assert_eq!(lab.check(1000, 1), deny(4, 0, 2250, 250), "the first bucket still counts in full");
        assert_eq!(lab.check(1249, 1), deny(4, 0, 2250, 1));
        assert_eq!(lab.check(1250, 1), allow(4, 0, 2500), "it has expired, the second counts in full");
        assert_eq!(lab.check(10_000, 4), allow(4, 0, 11_250), "all have expired");
    }

    #[test]
    fn a_ring_ahead_of_the_clock_goes_on() {
        let mut lab = Lab::new(SlidingWindow::new(3, 1000, Some(2)).unwrap());
        assert_eq!(lab.check(9000, 2), allow(3, 1, 10_500));
        assert_eq!(lab.check(2000, 1), allow(3, 0, 10_500));
        assert_eq!(lab.check(2000, 1), deny(3, 0, 10_500, 7500));
        assert_eq!(lab.check(9499, 1), deny(3, 0, 10_500, 1));
        assert_eq!(lab.check(10_500, 3), allow(3, 0, 12_000));
    }

    #[test]
    fn a_ring_of_another_policy_counts_nothing() {
        let mut old = Lab::new(SlidingWindow::new(3, 1000, Some(2)).unwrap());
        old.check(9000, 3);
        for new in [SlidingWindow::new(3, 1000, Some(7)), SlidingWindow::new(3, 60_000, Some(2))] {
            let decision = new.unwrap().decide(old.state(), Millis(9000), &Ask::units(3)).decision;
            assert!(decision.allowed);
            assert!(decision.reset_at < 9000 + 2 * 60_000, "ticks of another width are not compared");
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        rejected(SlidingWindow::new(0, 1000, None), "limit must be");
        rejected(SlidingWindow::new(1, 0, None), "windowMs must be");
        rejected(SlidingWindow::new(1, 1000, Some(0)), "buckets must be");
        rejected(SlidingWindow::new(1, 1000, Some(100_001)), "buckets must be");
        rejected(SlidingWindow::new(1, 1, Some(100_000)), "windowMs / buckets");
        rejected(SlidingWindow::new((1 << 53) - 1, 1_000_000, Some(100_000)), "buckets");
        SlidingWindow::new(1_000_000, 1_000_000, Some(100_000)).unwrap();
    }
}
