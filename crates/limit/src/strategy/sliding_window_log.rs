//! `slidingWindowLog`: every admitted unit with its time. Exact over any window, at a cost that grows with the limit.
//!
//! The state is the ascending times, each with its units. A time ahead of the clock counts as the current time: the clock has jumped
//! back.

use keystead_core::{Millis, Result, Script};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{AnyStrategy, Ask, Kind, Ruling, Spent, Strategy, script};
use crate::bounds::{LOG_ENTRIES_MAX, SCRIPT_ENTRIES_MAX};
use crate::decision::Decision;
use crate::number::{ceil, floor, moment, ttl_ms};
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "slidingWindowLog",
    required: &["limit", "windowMs"],
    optional: &[],
    about: "exact over any window; memory and time grow with the limit, so for small ones",
    example: r#"{"kind":"slidingWindowLog","limit":5,"windowMs":1000}"#,
    build,
};

/// `limit` units in any window, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingWindowLog {
    limit: u64,
    window_ms: f64,
}

/// Ascending times, each with the units that were admitted. Short logs are stored inline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Log {
    entries: SmallVec<[(u64, u64); 16]>,
}

impl SlidingWindowLog {
    /// `limit` units in any `window_ms`.
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range or the log could hold too many entries.
    pub fn new(limit: u64, window_ms: u64) -> Result<Self> {
        let limit = check::whole("limit", limit)?;
        let window_ms = check::span_ms("windowMs", window_ms)?;
        check::fits("limit", limit.min(window_ms) <= LOG_ENTRIES_MAX)?;
        Ok(SlidingWindowLog { limit, window_ms: window_ms as f64 })
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    let log = SlidingWindowLog::new(fields.whole("limit")?, fields.span_ms("windowMs")?)?;
    Ok(AnyStrategy::SlidingWindowLog(log))
}

impl Strategy for SlidingWindowLog {
    type State = Log;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn decide(&self, state: Option<&Log>, now: Millis, ask: &Ask) -> Ruling<Log> {
        let entries = state.map_or(&[][..], |log| &log.entries);
        let clock = moment(now);
        let now = entries.last().map_or(clock, |(newest, _)| clock.max(moment(Millis(*newest))));
        let live = entries.partition_point(|(at, _)| moment(Millis(*at)) <= now - self.window_ms);
        let live = &entries[live..];
        let used = live.iter().fold(0u64, |used, (_, units)| used.saturating_add(*units));
        let after = used.saturating_add(ask.cost);
        let leaves = |at: f64| at + self.window_ms;
        let oldest = live.first().map_or(now, |(at, _)| moment(Millis(*at)));
        let reset_at = ceil(leaves(oldest));
        if after <= self.limit {
            let mut entries: SmallVec<[(u64, u64); 16]> = SmallVec::with_capacity(live.len() + 1);
            entries.extend_from_slice(live);
            match entries.last_mut() {
                Some((at, units)) if *at == floor(now) => *units = units.saturating_add(ask.cost),
                _ if ask.cost > 0 => entries.push((floor(now), ask.cost)),
                _ => {}
            }
            let decision = Decision::allow(self.limit, self.limit - after, reset_at);
            return Ruling::allow(decision, Log { entries }, ttl_ms(leaves(now) - clock));
        }
        let retry_after_ms = match used {
            0 => self.window_ms,
            _ => leaves(kth_oldest(live, (after - self.limit).clamp(1, used))) - clock,
        };
        let left = self.limit.saturating_sub(used);
        Ruling::deny(Decision::deny(self.limit, left, reset_at, ceil(retry_after_ms)))
    }

    fn refund(&self, state: &Log, spent: &Spent, now: Millis, ask: &Ask) -> Option<Log> {
        let mut log = state.clone();
        let at = log.entries.iter().position(|(time, _)| *time == spent.at.0);
        // While the clock is behind, units are recorded at the newest time. Later that time may belong to other requests.
        let is_back = spent.at >= now && log.entries.last().is_some_and(|(newest, _)| *newest > now.0);
        let place = at.or_else(|| is_back.then(|| log.entries.len() - 1))?;
        log.entries[place].1 = log.entries[place].1.saturating_sub(ask.cost);
        if log.entries[place].1 == 0 {
            log.entries.remove(place);
        }
        Some(log)
    }

    /// A charge is capped at the limit: more at one time has the same effect.
    fn charge(&self, state: Option<&Log>, now: Millis, ask: &Ask) -> Option<(Log, u64)> {
        let ask = Ask { cost: ask.cost.min(self.limit), ..*ask };
        SlidingWindowLog { limit: u64::MAX, ..*self }.decide(state, now, &ask).put
    }

    fn window_ms(&self) -> f64 {
        self.window_ms
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("sliding_window_log.lua")];
        let args = [ask.cost.into(), self.limit.into(), self.window_ms.into()];
        let entries = self.limit.min(floor(self.window_ms));
        (entries <= SCRIPT_ENTRIES_MAX).then(|| script("slidingWindowLog", SOURCE, args))
    }
}

/// When the `k`-th oldest unit was admitted, counted from 1.
fn kth_oldest(live: &[(u64, u64)], k: u64) -> f64 {
    let mut seen = 0;
    let found = live.iter().find(|(_, units)| {
        seen = units.saturating_add(seen);
        seen >= k
    });
    found.map_or(0.0, |(at, _)| moment(Millis(*at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    #[test]
    fn every_unit_leaves_a_window_after_it_came() {
        let mut lab = Lab::new(SlidingWindowLog::new(3, 1000).unwrap());
        assert_eq!(lab.check(5000, 1), allow(3, 2, 6000));
        assert_eq!(lab.check(5200, 1), allow(3, 1, 6000));
        assert_eq!(lab.check(5300, 1), allow(3, 0, 6000));
        assert_eq!(lab.ttl_ms(), 1000);
        assert_eq!(lab.check(5400, 1), deny(3, 0, 6000, 600), "the oldest leaves at 6000");
        assert_eq!(lab.check(5400, 2), deny(3, 0, 6000, 800), "the second oldest leaves at 6200");
        assert_eq!(lab.check(5400, 9), deny(3, 0, 6000, 900), "no more than three can leave");
        assert_eq!(lab.check(5999, 1), deny(3, 0, 6000, 1));
        assert_eq!(lab.check(6000, 1), allow(3, 0, 6200));
        assert_eq!(lab.check(8000, 4), deny(3, 3, 9000, 1000), "an empty log reports a whole window");
    }

    #[test]
    fn units_of_one_moment_are_one_entry() {
        let mut lab = Lab::new(SlidingWindowLog::new(1_000_000_000, 1000).unwrap());
        assert_eq!(lab.check(5000, 999_999_999), allow(1_000_000_000, 1, 6000));
        assert_eq!(lab.check(5000, 1), allow(1_000_000_000, 0, 6000));
        assert_eq!(lab.state().unwrap().entries[..], [(5000, 1_000_000_000)]);
    }

    #[test]
    fn a_log_ahead_of_the_clock_goes_on() {
        let mut lab = Lab::new(SlidingWindowLog::new(2, 1000).unwrap());
        assert_eq!(lab.check(9000, 1), allow(2, 1, 10_000));
        assert_eq!(lab.check(4000, 1), allow(2, 0, 10_000));
        assert_eq!(lab.ttl_ms(), 6000);
        assert_eq!(lab.check(4000, 1), deny(2, 0, 10_000, 6000));
        assert_eq!(lab.check(10_000, 2), allow(2, 0, 11_000));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        rejected(SlidingWindowLog::new(0, 1000), "limit must be");
        rejected(SlidingWindowLog::new(1, 0), "windowMs must be");
        rejected(SlidingWindowLog::new(30_001, 60_000), "limit");
    }
}
