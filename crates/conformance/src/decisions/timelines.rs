//! The same random timelines of checks on a store and in memory: equal decisions and states at every step, bit for bit.
//!
//! A timeline has arrivals, costs, clock jumps both ways and numbers near 2^53. The memory store is the reference. A counterexample
//! is shrunk and reported with its seed.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::{Key, ManualClock, MemoryOptions, MemoryStore, Outcome, Result, Step, Store, StoreExt};
use keystead_limit::strategy::{Charge, Check, Peek, Refund, Spent, Strategy, StrategyVisitor};

use super::plan::{Act, Op, Timeline};
use crate::failure::{Checked, Failure};
use crate::rng::{Rng, SEED_VARIABLE};

/// What a step returned, in words: a difference in any field is a difference here.
type Seen = String;

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
        return Err(difference
            .context(format_args!("{SEED_VARIABLE}={seed}: {shrunk:#?}\n"))
            .with_seed(seed));
    }
    Ok(())
}

async fn apply<S: Step>(store: &dyn Store, key: &Key, step: &S) -> Result<Seen>
where
    S::Reply: Debug,
{
    Ok(format!("{:?}", store.apply(key, step).await?))
}

async fn act<S: Strategy>(store: &dyn Store, key: &Key, strategy: &S, op: &Op) -> Result<Seen> {
    let strategy = strategy.clone();
    let reply = match op.act {
        Act::Check(ask) => apply(store, key, &Check { strategy, ask, at: None }).await?,
        Act::CheckAt(ask, at) => apply(store, key, &Check { strategy, ask, at: Some(at) }).await?,
        Act::Peek(ask) => apply(store, key, &Peek { strategy, ask }).await?,
        Act::Charge(ask) => apply(store, key, &Charge { strategy, ask }).await?,
        Act::Refund(ask) => {
            let spent = Spent { units: ask.cost, at: op.at, until: op.at.plus_ms(1000), given_back: 0 };
            apply(store, key, &Refund { strategy, ask, spent }).await?
        }
        Act::Reset => format!("{}", store.reset(key).await?),
    };
    // A digit that is lost in the state seldom changes the next decision, so the state is compared, too.
    let state = store.get::<S::State>(key).await?;
    let state = serde_json::to_string(&state).unwrap_or_else(|error| error.to_string());
    Ok(format!("{reply}, state {state}"))
}

/// One step of a timeline on one store.
struct OneAct<'a> {
    store: &'a dyn Store,
    key: &'a Key,
    op: &'a Op,
}

impl<'a> StrategyVisitor for OneAct<'a> {
    type Output = Pin<Box<dyn Future<Output = Result<Seen>> + Send + 'a>>;

    fn visit<S: Strategy>(self, strategy: &S) -> Self::Output {
        let strategy = strategy.clone();
        Box::pin(async move { act(self.store, self.key, &strategy, self.op).await })
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
                let result = timeline.strategy.visit(OneAct { store, key: &key, op }).await;
                seen.push(match result {
                    Ok(seen) => seen,
                    Err(error) if error.outcome() == Outcome::NotApplied => format!("{}", error.code()),
                    Err(error) => return Err(error),
                });
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
    async fn shrink(&self, mut timeline: Timeline) -> Result<Timeline> {
        let mut i = 0;
        while i < timeline.ops.len() {
            let mut shorter = timeline.clone();
            shorter.ops.remove(i);
            match self.difference(&shorter).await?.is_some() {
                true => timeline = shorter,
                false => i += 1,
            }
        }
        Ok(timeline)
    }
}
