//! The same random timelines of checks on a store and in memory: equal decisions and states at every step, bit for bit.
//!
//! A timeline has arrivals, costs, clock jumps both ways and numbers near 2^53. The memory store is the reference. A counterexample
//! is shrunk and reported with its seed.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::{Key, ManualClock, MemoryOptions, MemoryStore, Outcome, Result, Step, Store, StoreExt};
use keystead_limit::strategy::{AnyStrategy, Charge, Check, Peek, Refund, Spent, Strategy, StrategyVisitor};

use super::plan::{Act, Op, Timeline};
use super::shrink::Shrinking;
use crate::failure::{Checked, Failure};
use crate::rng::{Rng, SEED_VARIABLE};

/// What a step returned, in words: a difference in any field is a difference here.
pub(super) type Seen = String;

/// Runs the timelines of these seeds on `store`, whose clock is `clock`, under keys of `prefix`.
///
/// # Errors
/// At the first step that differs from memory, with the shortest timeline that shows it.
pub async fn compare(
    store: &dyn Store,
    clock: &ManualClock,
    prefix: &str,
    seeds: impl Iterator<Item = u64> + Send,
) -> Checked {
    let memory = MemoryStore::open(MemoryOptions::default().clock(clock.clone()))?;
    let stores = Stores { clock, memory, other: store, keys: AtomicU64::new(0), prefix };
    for seed in seeds {
        let timeline = Timeline::random(&mut Rng::new(seed));
        let failed = |error: keystead_core::Error| Failure::from(error).with_seed(seed);
        if stores.difference(&timeline).await.map_err(failed)?.is_none() {
            continue;
        }
        let shrunk = stores.shrink(timeline).await.map_err(failed)?;
        let difference = stores.difference(&shrunk).await.map_err(failed)?;
        let difference = difference.unwrap_or_else(|| Failure::new("a difference that did not appear again"));
        return Err(difference.context(format_args!("{SEED_VARIABLE}={seed}: {shrunk}")).with_seed(seed));
    }
    Ok(())
}

/// What a step returned, or the code of its error if it was not applied.
pub(super) fn seen(result: Result<Seen>) -> Result<Seen> {
    match result {
        Err(error) if error.outcome() == Outcome::NotApplied => Ok(error.code().to_string()),
        seen => seen,
    }
}

/// What a store returns for an act on a key.
pub(super) async fn reply_of(store: &dyn Store, key: &Key, strategy: &AnyStrategy, op: &Op) -> Result<Seen> {
    seen(strategy.visit(OneAct { store, key, op }).await)
}

/// The state of a key. A digit that is lost in it seldom changes the next decision.
pub(super) async fn state_of(store: &dyn Store, key: &Key, strategy: &AnyStrategy) -> Result<Seen> {
    seen(strategy.visit(OneState { store, key }).await)
}

async fn apply<S: Step>(store: &dyn Store, key: &Key, step: &S) -> Result<Seen>
where
    S::Reply: Debug,
{
    Ok(format!("{:?}", store.apply(key, step).await?))
}

async fn act<S: Strategy>(store: &dyn Store, key: &Key, strategy: &S, op: &Op) -> Result<Seen> {
    let strategy = strategy.clone();
    match op.act {
        Act::Check(ask) => apply(store, key, &Check { strategy, ask, at: None }).await,
        Act::CheckAt(ask, at) => apply(store, key, &Check { strategy, ask, at: Some(at) }).await,
        Act::Peek(ask) => apply(store, key, &Peek { strategy, ask }).await,
        Act::Charge(ask) => apply(store, key, &Charge { strategy, ask }).await,
        Act::Refund(ask) => {
            let spent = Spent { units: ask.cost, at: op.at, until: op.at.plus_ms(1000), given_back: 0 };
            apply(store, key, &Refund { strategy, ask, spent }).await
        }
        Act::Reset => Ok(format!("{}", store.reset(key).await?)),
    }
}

/// A visit of a strategy that returns words.
type Visit<'a> = Pin<Box<dyn Future<Output = Result<Seen>> + Send + 'a>>;

/// One step of a timeline on one store.
struct OneAct<'a> {
    store: &'a dyn Store,
    key: &'a Key,
    op: &'a Op,
}

impl<'a> StrategyVisitor for OneAct<'a> {
    type Output = Visit<'a>;

    fn visit<S: Strategy>(self, strategy: &S) -> Self::Output {
        let strategy = strategy.clone();
        Box::pin(async move { act(self.store, self.key, &strategy, self.op).await })
    }
}

struct OneState<'a> {
    store: &'a dyn Store,
    key: &'a Key,
}

impl<'a> StrategyVisitor for OneState<'a> {
    type Output = Visit<'a>;

    fn visit<S: Strategy>(self, _strategy: &S) -> Self::Output {
        Box::pin(async move {
            let state = self.store.get::<S::State>(self.key).await?;
            Ok(serde_json::to_string(&state).unwrap_or_else(|error| error.to_string()))
        })
    }
}

struct Stores<'a> {
    clock: &'a ManualClock,
    memory: MemoryStore,
    other: &'a dyn Store,
    keys: AtomicU64,
    prefix: &'a str,
}

impl Stores<'_> {
    /// The first step at which the two stores differ.
    async fn difference(&self, timeline: &Timeline) -> Result<Option<Failure>> {
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        let key = Key::join(self.prefix, format!("timeline {number}"))?;
        for (i, op) in timeline.ops.iter().enumerate() {
            self.clock.set(op.at);
            let mut seen = Vec::with_capacity(2);
            for store in [&self.memory as &dyn Store, self.other] {
                let reply = reply_of(store, &key, &timeline.strategy, op).await?;
                let state = state_of(store, &key, &timeline.strategy).await?;
                seen.push(format!("{reply}, state {state}"));
            }
            if let [memory, other] = &*seen
                && memory != other
            {
                return Ok(Some(Failure::differs(format_args!("step {i}"), memory, other)));
            }
        }
        Ok(None)
    }

    /// Removes steps as long as a difference is left.
    async fn shrink(&self, timeline: Timeline) -> Result<Timeline> {
        let Timeline { strategy, ops } = timeline;
        let mut shrinking = Shrinking::new(ops);
        while let Some(ops) = shrinking.proposal() {
            let shows = self.difference(&Timeline { strategy, ops }).await?.is_some();
            shrinking.shows(shows);
        }
        Ok(Timeline { strategy, ops: shrinking.items() })
    }
}
