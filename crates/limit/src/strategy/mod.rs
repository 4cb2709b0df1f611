//! The strategies: one file each, and one row in `strategies!`.
//!
//! A strategy is a pure function of (state, now, request). It calculates in IEEE doubles in a fixed order, so that a script on
//! another server gets the same bits.
//!
//! **A clock that jumps back.** A window, bucket or arrival time that is ahead of the clock stays in effect until the clock has
//! caught up. So nothing is admitted twice, and no request waits longer than the jump.

mod concurrency;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod quota;
mod sliding_window;
mod sliding_window_log;
mod steps;
mod token_bucket;
mod window;

use keystead_core::step::State;
use keystead_core::{Millis, Result, Script, ScriptArg};

use crate::decision::Decision;
use crate::number::{double, moment};
use crate::policy::{Fields, Policy};

pub use steps::{Charge, Check, Forecast, Peek, Refund};
pub use window::{Grant, Take, Windowed};

/// What a check requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Units, at least 1.
    pub cost: u64,
    /// The id that a granted lease will have. Only `concurrency` uses it.
    pub lease_id: u64,
}

impl Ask {
    /// A request for this many units.
    #[must_use]
    pub const fn units(cost: u64) -> Self {
        Ask { cost, lease_id: 0 }
    }
}

/// What an earlier check consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// How many units.
    pub units: u64,
    /// When.
    pub at: Millis,
    /// When all of them are replenished, according to the decision.
    pub until: Millis,
    /// Units of others that were refunded since, which brings that time forward.
    pub given_back: u64,
}

impl Spent {
    /// For how many milliseconds it still counts, if a unit is replenished every `interval_ms`, in the order of the checks. Never too
    /// long: `until` was rounded up, and the time of these units alone, for a key that owed nothing before, is exact.
    pub(crate) fn owed_ms(&self, interval_ms: f64, now: Millis) -> f64 {
        let (at, until, now) = (moment(self.at), moment(self.until), moment(now));
        let of_all = until - 1.0 - now - interval_ms * double(self.given_back);
        let of_these = interval_ms * double(self.units) - (now - at).max(0.0);
        of_all.max(of_these).max(0.0)
    }
}

/// What a strategy decided: the decision, and the state to store with its TTL. A denial stores nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling<S> {
    /// The decision.
    pub decision: Decision,
    /// The new state and its TTL in milliseconds.
    pub put: Option<(S, u64)>,
}

impl<S> Ruling<S> {
    #[inline]
    fn allow(decision: Decision, state: S, ttl_ms: u64) -> Self {
        Ruling { decision, put: Some((state, ttl_ms)) }
    }

    #[inline]
    fn deny(decision: Decision) -> Self {
        Ruling { decision, put: None }
    }
}

/// The algorithm of one kind of limit.
pub trait Strategy: Clone + Send + Sync + 'static {
    /// What is stored under a key.
    type State: State;

    /// The limit that decisions report.
    fn limit(&self) -> u64;

    /// Decides. A cost of 0 is never denied and reports the current state.
    fn decide(&self, state: Option<&Self::State>, now: Millis, ask: &Ask) -> Ruling<Self::State>;

    /// The state after a refund of `ask`, which is a part of `spent`, as far as that still counts: what has been replenished since is
    /// not refunded a second time.
    fn refund(&self, state: &Self::State, spent: &Spent, now: Millis, ask: &Ask) -> Option<Self::State>;

    /// The state and its TTL after `ask` is consumed, even beyond the limit: a debt. `None` if this strategy has no debts.
    fn charge(&self, state: Option<&Self::State>, now: Millis, ask: &Ask) -> Option<(Self::State, u64)>;

    /// In how many milliseconds the whole limit is replenished: the window of the headers.
    fn window_ms(&self) -> f64;

    /// [`decide`](Strategy::decide) as a script, if there is one and it is small enough to run on a server that does nothing else
    /// meanwhile. Its reply is allowed (0 or 1), `remaining`, `reset_at`, `retry_after_ms`, and if there is one, `delay_ms` plus 1,
    /// and 1 if a lease is granted.
    fn script(&self, _ask: &Ask) -> Option<Script> {
        None
    }
}

/// A script of these parts and arguments.
fn script<const N: usize>(
    name: &'static str,
    source: &'static [&'static str],
    args: [ScriptArg; N],
) -> Script {
    Script { name, library: NUMBER, source, args: args.into(), at: None }
}

const NUMBER: &str = include_str!("../number.lua");

/// One kind of policy: its name, its fields, and how it is built from them.
pub struct Kind {
    /// Its name in policies.
    pub name: &'static str,
    /// Its required fields.
    pub required: &'static [&'static str],
    /// Its optional fields.
    pub optional: &'static [&'static str],
    /// What it is good for, in one line.
    pub about: &'static str,
    /// A policy of this kind in JSON, with a limit of 5.
    pub example: &'static str,
    pub(crate) build: fn(&mut Fields<'_>) -> Result<AnyStrategy>,
}

/// Declares the strategies, one row each: a module, its strategy, and the other types that it exports. The list of kinds, the enum
/// and the static dispatch over it derive from the rows, in their order. `$d` is a dollar sign, for the macro that is declared inside.
macro_rules! strategies {
    ($d:tt $($module:ident: $strategy:ident $(, $export:ident)*;)*) => {
        $(pub use $module::{$strategy $(, $export)*};)*

        /// Every kind of policy. The first is the default.
        pub static KINDS: &[Kind] = &[$($module::KIND),*];

        /// A strategy whose kind was chosen at run time.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum AnyStrategy {
            $(#[doc = concat!("[`struct@", stringify!($strategy), "`]")] $strategy($strategy),)*
        }

        impl AnyStrategy {
            /// The name of the strategy, which also identifies the type of its state. A rolling quota is a `slidingWindow`.
            #[must_use]
            pub fn word(&self) -> &'static str {
                match self {
                    $(AnyStrategy::$strategy(_) => $module::KIND.name,)*
                }
            }
        }

        $(impl From<$strategy> for Policy {
            fn from(strategy: $strategy) -> Self {
                Policy::new(AnyStrategy::$strategy(strategy))
            }
        })*

        /// Evaluates an expression with the strategy in an [`AnyStrategy`], once for each type.
        macro_rules! with_strategy {
            ($d any:expr, $d strategy:ident => $d body:expr) => {
                match $d any {
                    $($crate::strategy::AnyStrategy::$strategy($d strategy) => $d body,)*
                }
            };
        }
    };
}

strategies! { $
    gcra: Gcra;
    token_bucket: TokenBucket;
    fixed_window: FixedWindow;
    sliding_window: SlidingWindow, Ring;
    sliding_window_log: SlidingWindowLog, Log;
    quota: Quota, Cadence;
    leaky_bucket: LeakyBucket;
    concurrency: Concurrency, Leases, Release;
}

pub(crate) use with_strategy;

/// A function of a strategy of any type, for [`AnyStrategy::visit`].
pub trait StrategyVisitor {
    /// Its result.
    type Output;

    /// Called with the strategy.
    fn visit<S: Strategy>(self, strategy: &S) -> Self::Output;
}

impl AnyStrategy {
    /// Calls the visitor with the strategy, by its own type.
    pub fn visit<V: StrategyVisitor>(&self, visitor: V) -> V::Output {
        with_strategy!(self, strategy => visitor.visit(strategy))
    }

    /// The limit that decisions report.
    #[must_use]
    pub fn limit(&self) -> u64 {
        with_strategy!(self, strategy => strategy.limit())
    }

    /// In how many milliseconds the whole limit is replenished.
    #[must_use]
    pub fn window_ms(&self) -> f64 {
        with_strategy!(self, strategy => strategy.window_ms())
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Files of this folder that are no strategies.
    const NOT_STRATEGIES: [&str; 4] = ["mod", "steps", "testing", "window"];

    fn camel(snake: &str) -> String {
        let mut words = snake.split('_');
        let first = words.next().unwrap().to_string();
        words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
    }

    #[test]
    fn every_file_has_its_row_and_every_row_its_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/strategy");
        let files: HashSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string())
            .filter(|name| !NOT_STRATEGIES.contains(&name.as_str()))
            .map(|name| camel(&name))
            .collect();
        let rows: HashSet<String> = KINDS.iter().map(|kind| kind.name.to_string()).collect();
        assert_eq!(rows.len(), KINDS.len(), "a name is there twice");
        assert_eq!(files, rows);
    }
}
