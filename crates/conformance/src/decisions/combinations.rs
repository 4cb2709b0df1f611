//! Random combinations of limits on a store and in memory: equal decisions, and nothing consumed by a denied one. A counterexample is shrunk
//! and reported with its seed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Millis, Outcome, Result, Store};
use keystead_limit::strategy::AnyStrategy;
use keystead_limit::{Combined, FailMode, Limiter, Policy, Rule};

use super::plan::{Act, Timeline};
use super::shrink::Shrinking;
use crate::failure::{Checked, Failure};
use crate::rng::{Rng, SEED_VARIABLE};

/// Several limits as one, and checks of one key.
#[derive(Clone)]
struct Combination {
    rule: Rule,
    limits: Vec<AnyStrategy>,
    /// When, and how much.
    checks: Vec<(Millis, u64)>,
}

impl Combination {
    fn random(rng: &mut Rng) -> Combination {
        let rule = if rng.below(2) == 0 { Rule::All } else { Rule::Any };
        let timelines: Vec<Timeline> = (0..1 + rng.below(4)).map(|_| Timeline::random(rng)).collect();
        let checks = timelines[0].ops.iter().filter_map(|op| match op.act {
            Act::Check(ask) | Act::CheckAt(ask, _) => Some((op.at, ask.cost)),
            _ => None,
        });
        let limits = timelines.iter().map(|timeline| timeline.strategy).collect();
        Combination { rule, limits, checks: checks.collect() }
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of", self.rule)?;
        self.limits.iter().try_for_each(|limit| write!(f, "\n  {limit:?}"))?;
        self.checks.iter().try_for_each(|(at, cost)| write!(f, "\n  at {}: a check of {cost}", at.0))?;
        writeln!(f)
    }
}

/// Runs the combinations of these seeds on `store`, whose clock is `clock`, under keys of `prefix`.
///
/// # Errors
/// At the first check that differs from memory, with the fewest limits and checks that show it.
pub async fn compare(
    store: &Arc<dyn Store>,
    clock: &ManualClock,
    prefix: &str,
    seeds: impl Iterator<Item = u64> + Send,
) -> Checked {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::open(MemoryOptions::default().clock(clock.clone()))?);
    let stores = Stores { clock, memory: &memory, other: store, keys: AtomicU64::new(0), prefix };
    for seed in seeds {
        let combination = Combination::random(&mut Rng::new(seed));
        let failed = |error: keystead_core::Error| Failure::from(error).with_seed(seed);
        if stores.difference(&combination).await.map_err(failed)?.is_none() {
            continue;
        }
        let shrunk = stores.shrink(combination).await.map_err(failed)?;
        let difference = stores.difference(&shrunk).await.map_err(failed)?;
        let difference = difference.unwrap_or_else(|| Failure::new("a difference that did not appear again"));
        return Err(difference.context(format_args!("{SEED_VARIABLE}={seed}: {shrunk}")).with_seed(seed));
    }
    Ok(())
}

struct Stores<'a> {
    clock: &'a ManualClock,
    memory: &'a Arc<dyn Store>,
    other: &'a Arc<dyn Store>,
    keys: AtomicU64,
    prefix: &'a str,
}

impl Stores<'_> {
    /// The first check after which the two stores differ.
    async fn difference(&self, combination: &Combination) -> Result<Option<Failure>> {
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        let policies: Vec<Policy> = combination.limits.iter().map(|limit| Policy::from(*limit)).collect();
        // A tag, so that a cluster has all keys in one slot.
        let prefix = format!("{}:combination {number}", self.prefix);
        let key = format!("{{{} {number}}}", self.prefix);
        let ours = On { policies: &policies, rule: combination.rule, store: self.memory, prefix: &prefix };
        let other = On { store: self.other, ..ours };
        for (i, (at, cost)) in combination.checks.iter().enumerate() {
            self.clock.set(*at);
            let (expected, got) = (ours.seen(&key, *cost).await?, other.seen(&key, *cost).await?);
            if expected != got {
                return Ok(Some(Failure::differs(format_args!("check {i}"), expected, got)));
            }
        }
        Ok(None)
    }

    /// Removes checks, and then limits, as long as a difference is left.
    async fn shrink(&self, mut combination: Combination) -> Result<Combination> {
        let mut shrinking = Shrinking::new(combination.checks.clone());
        while let Some(checks) = shrinking.proposal() {
            let shows = self.difference(&Combination { checks, ..combination.clone() }).await?.is_some();
            shrinking.shows(shows);
        }
        combination.checks = shrinking.items();
        let mut shrinking = Shrinking::new(combination.limits.clone());
        while let Some(limits) = shrinking.proposal() {
            let shows = self.difference(&Combination { limits, ..combination.clone() }).await?.is_some();
            shrinking.shows(shows);
        }
        combination.limits = shrinking.items();
        Ok(combination)
    }
}

#[derive(Clone, Copy)]
struct On<'a> {
    policies: &'a [Policy],
    rule: Rule,
    store: &'a Arc<dyn Store>,
    prefix: &'a str,
}

impl On<'_> {
    /// A check, and what remains of each limit after it, in words.
    async fn seen(&self, key: &str, cost: u64) -> Result<String> {
        let combined = match self.rule {
            Rule::All => Combined::all(self.policies, Arc::clone(self.store), FailMode::Closed)?,
            Rule::Any => Combined::any(self.policies, Arc::clone(self.store), FailMode::Closed)?,
        };
        let mut seen = match combined.prefix(self.prefix).check(key, cost).await {
            Ok(mut combination) => {
                // The ids of leases are random.
                for decision in combination.parts.iter_mut().chain([&mut combination.decision]) {
                    decision.lease_id = decision.lease_id.map(|_| 0);
                }
                format!("{combination:?}")
            }
            Err(error) if error.outcome() == Outcome::NotApplied => error.code().to_string(),
            Err(error) => return Err(error),
        };
        for (i, policy) in self.policies.iter().enumerate() {
            let limiter = Limiter::new(policy.clone(), Arc::clone(self.store), FailMode::Closed);
            let peeked = limiter.prefix(format!("{}:{i}", self.prefix)).peek(key).await?;
            seen.push_str(&format!(", {i}: {peeked:?}"));
        }
        Ok(seen)
    }
}
