//! Many keys, and many equal steps of a key, at a time on a store and in memory: equal decisions and states after every round.
//!
//! What callers send at a time a store may send together, in one script, statement or transaction. All steps of a round see one time on the
//! clock. Those of one key are equal, so their replies do not depend on their order, and are compared sorted. The states are compared when
//! the round is over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::{Key, ManualClock, MemoryOptions, MemoryStore, Result, Store};
use keystead_limit::strategy::AnyStrategy;
use tokio::task::JoinSet;

use super::plan::{Act, Op, act, moved, start, valid_strategy};
use super::shrink::Shrinking;
use super::timelines::{Seen, reply_of, state_of};
use crate::failure::{Checked, Failure};
use crate::rng::{Rng, SEED_VARIABLE};

/// How often a part of a counterexample is tried: a race does not end the same way every time.
const TRIES: u32 = 3;

/// How many keys a plan has.
const KEYS: [usize; 4] = [1, 3, 64, 64];

/// One step of a round.
#[derive(Clone, Debug)]
struct Step {
    round: usize,
    key: usize,
    op: Op,
}

/// Policies, the policy of each key, and the steps, in the order of their rounds.
struct Plan {
    strategies: Vec<AnyStrategy>,
    steps: Vec<Step>,
}

/// Runs the plans of these seeds on `store`, whose clock is `clock`, under keys of `prefix`.
///
/// # Errors
/// At the first round that differs from memory, with the fewest steps that show it.
pub async fn compare(
    store: &Arc<dyn Store>,
    clock: &ManualClock,
    prefix: &str,
    seeds: impl Iterator<Item = u64> + Send,
) -> Checked {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::open(MemoryOptions::default().clock(clock.clone()))?);
    let stores = Stores { clock, both: [&memory, store], plans: AtomicU64::new(0), prefix };
    for seed in seeds {
        let plan = Plan::random(&mut Rng::new(seed));
        let failed = |failure: Failure| failure.with_seed(seed);
        let Some(first) = stores.difference(&plan.strategies, &plan.steps).await.map_err(failed)? else {
            continue;
        };
        let Plan { strategies, steps } = plan;
        let mut shrinking = Shrinking::new(steps);
        let mut last = first;
        while let Some(steps) = shrinking.proposal() {
            let difference = stores.tried(&strategies, &steps).await.map_err(failed)?;
            shrinking.shows(difference.is_some());
            last = difference.unwrap_or(last);
        }
        let words = in_words(&strategies, &shrinking.items());
        return Err(last.context(format_args!("{SEED_VARIABLE}={seed}: {words}")).with_seed(seed));
    }
    Ok(())
}

impl Plan {
    fn random(rng: &mut Rng) -> Plan {
        let keys = KEYS[rng.below(KEYS.len() as u64) as usize];
        // Few policies, so that steps of different keys are of the same kind, and often equal.
        let policies: Vec<AnyStrategy> = (0..1 + rng.below(3)).map(|_| valid_strategy(rng)).collect();
        let policy_of: Vec<usize> = (0..keys).map(|_| rng.below(policies.len() as u64) as usize).collect();
        let (mut at, mut steps) = (start(rng), Vec::new());
        for round in 0..2 + rng.below(8) as usize {
            at = moved(rng, at);
            let of_all: Vec<Act> = policies.iter().map(|policy| act(rng, policy, at)).collect();
            let alike = rng.below(2) == 0;
            for (key, &policy) in policy_of.iter().enumerate() {
                let act = if alike { of_all[policy] } else { act(rng, &policies[policy], at) };
                let step = Step { round, key, op: Op { at, act } };
                steps.extend(std::iter::repeat_n(step, times(rng, keys)));
            }
        }
        let strategies = policy_of.iter().map(|&policy| policies[policy]).collect();
        Plan { strategies, steps }
    }
}

/// How often a step is asked for at a time: mostly one time, and sometimes so often that its key is a hot one.
fn times(rng: &mut Rng, keys: usize) -> usize {
    let many = if keys == 1 { 200 } else { 24 };
    1 + match rng.below(if keys == 1 { 2 } else { 16 }) {
        0 => rng.below(many) as usize,
        1 | 2 => rng.below(4) as usize,
        _ => 0,
    }
}

fn in_words(strategies: &[AnyStrategy], steps: &[Step]) -> String {
    let mut words = String::new();
    let keys: BTreeSet<usize> = steps.iter().map(|step| step.key).collect();
    for key in keys {
        // Writing to a string does not fail.
        let _ = write!(words, "\n  key {key}: {:?}", strategies[key]);
    }
    for Step { round, key, op } in steps {
        let _ = write!(words, "\n  round {round}, key {key}, {op}");
    }
    words + "\n"
}

struct Stores<'a> {
    clock: &'a ManualClock,
    /// Memory, and the other.
    both: [&'a Arc<dyn Store>; 2],
    plans: AtomicU64,
    prefix: &'a str,
}

impl Stores<'_> {
    async fn tried(&self, strategies: &[AnyStrategy], steps: &[Step]) -> Checked<Option<Failure>> {
        for _ in 0..TRIES {
            if let Some(difference) = self.difference(strategies, steps).await? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// The first round after which the two stores differ.
    async fn difference(&self, strategies: &[AnyStrategy], steps: &[Step]) -> Checked<Option<Failure>> {
        let number = self.plans.fetch_add(1, Ordering::Relaxed);
        let named = |key: usize| Key::join(self.prefix, format!("plan {number}, key {key}"));
        let keys: Vec<Key> = (0..strategies.len()).map(named).collect::<Result<_>>()?;
        for round in steps.chunk_by(|one, other| one.round == other.round) {
            self.clock.set(round[0].op.at);
            let mut seen = Vec::with_capacity(2);
            for store in self.both {
                seen.push(together(store, &keys, strategies, round).await?);
            }
            if let [memory, other] = &*seen
                && let Some((key, memory, other)) = first_difference(memory, other)
            {
                let what = format!("round {}, key {key}", round[0].round);
                return Ok(Some(Failure::differs(what, memory, other)));
            }
        }
        Ok(None)
    }
}

/// What the steps of each key returned, sorted, and the state that they left.
type SeenOfKeys = BTreeMap<usize, Vec<Seen>>;

fn first_difference(memory: &SeenOfKeys, other: &SeenOfKeys) -> Option<(usize, String, String)> {
    let differs = memory.iter().find(|(key, seen)| other.get(key) != Some(seen));
    differs.map(|(key, seen)| (*key, format!("{seen:?}"), format!("{:?}", other.get(key))))
}

/// Runs the steps of a round at the same time.
async fn together(
    store: &Arc<dyn Store>,
    keys: &[Key],
    strategies: &[AnyStrategy],
    round: &[Step],
) -> Checked<SeenOfKeys> {
    let mut running = JoinSet::new();
    for Step { key: number, op, .. } in round.iter().cloned() {
        let (store, key, strategy) = (Arc::clone(store), keys[number].clone(), strategies[number]);
        running.spawn(async move { (number, reply_of(&*store, &key, &strategy, &op).await) });
    }
    let mut seen = SeenOfKeys::new();
    while let Some(ended) = running.join_next().await {
        let (number, reply) = ended?;
        seen.entry(number).or_default().push(reply?);
    }
    let mut reading = JoinSet::new();
    for &number in seen.keys() {
        let (store, key, strategy) = (Arc::clone(store), keys[number].clone(), strategies[number]);
        reading.spawn(async move { (number, state_of(&*store, &key, &strategy).await) });
    }
    seen.values_mut().for_each(|replies| replies.sort_unstable());
    while let Some(ended) = reading.join_next().await {
        let (number, state) = ended?;
        seen.entry(number).or_default().push(state?);
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_many_keys_and_many_steps_of_a_key() {
        let (mut most_keys, mut most_of_a_key) = (0, 0);
        for seed in 0..200 {
            let plan = Plan::random(&mut Rng::new(seed));
            for round in plan.steps.chunk_by(|one, other| one.round == other.round) {
                most_keys = most_keys.max(round.iter().map(|step| step.key).collect::<BTreeSet<_>>().len());
                for of_key in round.chunk_by(|one, other| one.key == other.key) {
                    most_of_a_key = most_of_a_key.max(of_key.len());
                }
                assert!(round.iter().all(|step| step.op.at == round[0].op.at));
            }
        }
        assert!(most_keys == 64 && most_of_a_key > 64, "{most_keys}, {most_of_a_key}");
    }
}
