//! Random policies and timelines.

use std::fmt;

use keystead_core::{Millis, Result};
use keystead_limit::strategy::{
    AnyStrategy, Ask, Cadence, Concurrency, FixedWindow, Gcra, LeakyBucket, Quota, SlidingWindow,
    SlidingWindowLog, TokenBucket,
};

use crate::rng::Rng;

const WHOLE_MAX: u64 = (1 << 53) - 1;

/// One step of a timeline.
#[derive(Clone, Debug)]
pub struct Op {
    /// The time on the clock.
    pub at: Millis,
    /// What is done then.
    pub act: Act,
}

/// What is done.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A check.
    Check(Ask),
    /// A check at an instant of its own.
    CheckAt(Ask, Millis),
    /// A look that consumes nothing.
    Peek(Ask),
    /// A cost that is consumed even beyond the limit.
    Charge(Ask),
    /// A refund.
    Refund(Ask),
    /// The key is removed.
    Reset,
}

/// A policy and what happens to one key.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The limit.
    pub strategy: AnyStrategy,
    /// The steps, in order.
    pub ops: Vec<Op>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {:?}", self.at.0, self.act)
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.strategy)?;
        self.ops.iter().try_for_each(|op| write!(f, "\n  {op}"))?;
        writeln!(f)
    }
}

/// A random policy.
pub(super) fn valid_strategy(rng: &mut Rng) -> AnyStrategy {
    loop {
        // Some combinations are rejected by the policy itself.
        if let Ok(strategy) = strategy(rng) {
            return strategy;
        }
    }
}

impl Timeline {
    /// A random one.
    #[must_use]
    pub fn random(rng: &mut Rng) -> Timeline {
        let strategy = valid_strategy(rng);
        let mut at = start(rng);
        let count = 2 + rng.below(16);
        let ops = (0..count).map(|_| {
            at = moved(rng, at);
            Op { at, act: act(rng, &strategy, at) }
        });
        let ops = ops.collect();
        Timeline { strategy, ops }
    }
}

/// Most are small, so that limits are reached; some are at the end of exact doubles.
fn amount(rng: &mut Rng) -> u64 {
    match rng.below(10) {
        0..7 => 1 + rng.below(8),
        7 => 1 + rng.below(1000),
        8 => 1 + rng.below(1 << 40),
        _ => WHOLE_MAX - rng.below(5),
    }
}

fn span_ms(rng: &mut Rng) -> u64 {
    match rng.below(6) {
        0 => 1 + rng.below(9),
        1 => 1 + rng.below(86_400_000),
        2 => 3_000_000_000_000,
        _ => 1 + rng.below(10_000),
    }
}

fn rate(rng: &mut Rng) -> f64 {
    match rng.below(4) {
        0 => 1.0 + rng.below(10) as f64,
        1 => 1.0 / 3.0,
        2 => (1 + rng.below(1_000_000)) as f64 / 997.0,
        _ => 0.001 * (1 + rng.below(5000)) as f64,
    }
}

fn strategy(rng: &mut Rng) -> Result<AnyStrategy> {
    Ok(match rng.below(8) {
        0 => {
            let burst = (rng.below(2) == 0).then(|| amount(rng));
            AnyStrategy::Gcra(Gcra::new(amount(rng), span_ms(rng), burst)?)
        }
        1 => AnyStrategy::TokenBucket(TokenBucket::new(amount(rng), rate(rng))?),
        2 => AnyStrategy::FixedWindow(FixedWindow::new(amount(rng), span_ms(rng))?),
        3 => {
            let buckets = (rng.below(2) == 0).then(|| 1 + rng.below(30));
            AnyStrategy::SlidingWindow(SlidingWindow::new(amount(rng), span_ms(rng), buckets)?)
        }
        4 => AnyStrategy::SlidingWindowLog(SlidingWindowLog::new(amount(rng), span_ms(rng))?),
        5 => {
            let cadence = match rng.below(4) {
                0 => Cadence::CalendarMonth,
                1 => Cadence::CalendarWeek { starts_on: rng.below(7) as u8 },
                2 => Cadence::CalendarDay,
                _ => Cadence::Fixed { period_ms: span_ms(rng), anchor: rng.below(4_000_000_000_000) },
            };
            let offset = if rng.below(2) == 0 { 0 } else { rng.below(1681) as i64 - 840 };
            AnyStrategy::Quota(Quota::new(amount(rng), cadence, offset)?)
        }
        6 => {
            let max_queue_ms = if rng.below(5) == 0 { 0 } else { span_ms(rng) };
            AnyStrategy::LeakyBucket(LeakyBucket::new(rate(rng), max_queue_ms)?)
        }
        _ => AnyStrategy::Concurrency(Concurrency::new(1 + rng.below(5), span_ms(rng))?),
    })
}

pub(super) fn start(rng: &mut Rng) -> Millis {
    Millis(match rng.below(12) {
        0 => rng.below(1000),
        1 => (1 << 52) - rng.below(2000),
        2 => WHOLE_MAX - rng.below(2000),
        _ => 1_600_000_000_000 + rng.below(500_000_000_000),
    })
}

pub(super) fn moved(rng: &mut Rng, at: Millis) -> Millis {
    match rng.below(10) {
        0..3 => at,
        3..6 => at.plus_ms(rng.below(50)),
        6..9 => at.plus_ms(rng.span_ms()),
        _ => Millis(at.0.saturating_sub(rng.span_ms())),
    }
}

pub(super) fn act(rng: &mut Rng, strategy: &AnyStrategy, at: Millis) -> Act {
    let cost = if rng.below(3) == 0 { amount(rng) } else { 1 + rng.below(3) };
    // Few ids, so that a lease is renewed sometimes; and of 64 bits.
    let ask = Ask { cost, lease_id: u64::MAX - rng.below(8) };
    match rng.below(20) {
        0 => Act::Peek(ask),
        1 => Act::Charge(Ask { cost: ask.cost.min(1 << 40), ..ask }),
        2 => Act::Refund(ask),
        3 => Act::Reset,
        4 => Act::CheckAt(ask, moved(rng, at)),
        5 if !matches!(strategy, AnyStrategy::Concurrency(_)) => Act::Check(Ask { cost: 0, ..ask }),
        _ => Act::Check(ask),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use keystead_limit::strategy::KINDS;

    use super::*;

    #[test]
    fn every_kind_of_policy_has_random_timelines() {
        let mut rng = Rng::new(1);
        let planned: HashSet<&str> = (0..500).map(|_| Timeline::random(&mut rng).strategy.word()).collect();
        let missing: Vec<&str> =
            KINDS.iter().map(|kind| kind.name).filter(|kind| !planned.contains(kind)).collect();
        assert!(missing.is_empty(), "add {missing:?} to strategy()");
    }
}
