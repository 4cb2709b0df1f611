//! Random combinations of limits on a store and in memory: equal decisions, and nothing consumed by a denied one.

use std::sync::Arc;

use keystead_core::{ManualClock, MemoryOptions, MemoryStore, Outcome, Result, Store};
use keystead_limit::{Combined, FailMode, Limiter, Policy, Rule};

use super::plan::{Act, Timeline};
use crate::failure::{Checked, Failure};
use crate::rng::{Rng, SEED_VARIABLE};

/// Runs the combinations of these seeds on `store`, whose clock is `clock`, under keys of `prefix`.
///
/// # Errors
/// At the first check that differs from memory.
pub async fn compare(
    store: &Arc<dyn Store>,
    clock: &ManualClock,
    prefix: &str,
    seeds: impl Iterator<Item = u64> + Send,
) -> Checked {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::open(MemoryOptions::default().clock(clock.clone()))?);
    for (number, seed) in seeds.enumerate() {
        let mut rng = Rng::new(seed);
        let rule = if rng.below(2) == 0 { Rule::All } else { Rule::Any };
        let timelines: Vec<Timeline> = (0..1 + rng.below(4)).map(|_| Timeline::random(&mut rng)).collect();
        let policies: Vec<Policy> =
            timelines.iter().map(|timeline| Policy::from(timeline.strategy)).collect();
        // A tag, so that a cluster has all keys in one slot.
        let (prefix, key) = (format!("{prefix}:combination {number}"), format!("{{{prefix} {number}}}"));
        let ours = On { policies: &policies, rule, store: &memory, prefix: &prefix };
        let other = On { store, ..ours };
        for (i, op) in timelines[0].ops.iter().enumerate() {
            clock.set(op.at);
            let (Act::Check(ask) | Act::CheckAt(ask, _)) = op.act else { continue };
            let failed = |error: keystead_core::Error| Failure::from(error).with_seed(seed);
            let expected = ours.seen(&key, ask.cost).await.map_err(failed)?;
            let got = other.seen(&key, ask.cost).await.map_err(failed)?;
            if expected != got {
                let what =
                    format!("{SEED_VARIABLE}={seed}: {rule:?} of {policies:#?}, check {i} at {}", op.at.0);
                return Err(Failure::differs(what, expected, got).with_seed(seed));
            }
        }
    }
    Ok(())
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
