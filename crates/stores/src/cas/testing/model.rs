//! A small scene of several handles on one key, and what is wrong with what it showed.
//!
//! Each step appends its own number to a list, so the values that the key has had show which steps were applied, how often, and in which
//! order.

use std::fmt;
use std::sync::Arc;

use keystead_core::{
    Change, Clock, Key, ManualClock, Millis, Outcome, Result, Step, Store, StoreExt, Ttl, step_fn,
};

use super::{FaultyBackend, Manner, Plan};
use crate::cas::CasStore;
use crate::cas::fault::Fault;
use crate::cas::record::Record;

pub(super) type List = Vec<u64>;

pub(super) fn append(number: u64) -> impl Step<State = List, Reply = List> {
    append_for(number, 3_600_000)
}

fn append_for(number: u64, ttl_ms: u64) -> impl Step<State = List, Reply = List> {
    step_fn(move |list: Option<&List>, _now| {
        let before = list.cloned().unwrap_or_default();
        let mut after = before.clone();
        after.push(number);
        Change::Put(after, Ttl::Ms(ttl_ms), before)
    })
}

/// How a step ended, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was acknowledged, with the list before it.
    Applied(List),
    NotApplied,
    Unknown,
}

/// What a scene does besides appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    Appends,
    /// Every second handle removes the key in between.
    Resets,
    /// The clock moves, mostly forward, and the list expires.
    Expires,
}

#[derive(Clone)]
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) seed: u64,
    pub(super) scene: Scene,
    /// How many handles there are.
    pub(super) handles: u64,
    pub(super) fault: Option<Fault>,
    pub(super) manner: Manner,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { plan, seed, scene, handles, .. } = self;
        write!(f, "{scene:?}, {handles} handles, seed {seed}, faults {plan:?}")
    }
}

/// What a run showed.
pub(super) struct Seen {
    pub(super) calls: usize,
    pub(super) ended: Vec<(u64, Ended)>,
    /// The lists that the key has had.
    pub(super) lists: Vec<List>,
}

pub(super) fn store(backend: &FaultyBackend, fault: Option<Fault>) -> Arc<CasStore<FaultyBackend>> {
    store_on(backend, fault, Arc::new(ManualClock::at(Millis(1_000_000))))
}

fn store_on(
    backend: &FaultyBackend,
    fault: Option<Fault>,
    clock: Arc<dyn Clock>,
) -> Arc<CasStore<FaultyBackend>> {
    let mut store = CasStore::new(backend.clone(), clock, 800).unwrap();
    Arc::get_mut(&mut store.inner).unwrap().fault = fault;
    Arc::new(store)
}

fn ended(result: Result<List>) -> Ended {
    match result {
        Ok(before) => Ended::Applied(before),
        Err(error) if error.outcome() == Outcome::NotApplied => Ended::NotApplied,
        Err(_) => Ended::Unknown,
    }
}

impl Run {
    pub(super) fn plain(plan: Plan, seed: u64, scene: Scene) -> Run {
        Run { plan, seed, scene, handles: 2, fault: None, manner: Manner::Correct }
    }

    pub(super) fn run(&self) -> Seen {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(self.scene())
    }

    /// Several handles, each with two steps at the same time and one after them.
    async fn scene(&self) -> Seen {
        // Half of the seeds are of a server that does not return the current value.
        let backend = FaultyBackend::new(self.plan.clone(), self.seed, self.seed.is_multiple_of(2));
        let backend = backend.of_manner(self.manner);
        let clock = ManualClock::at(Millis(1_000_000));
        let tasks: Vec<_> = (0..self.handles)
            .map(|handle| tokio::spawn(self.clone().handle(handle, backend.clone(), clock.clone())))
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        backend.arrive_all();
        let list = |text: &String| match Record::decode(text).unwrap().state {
            Some(state) => serde_json::from_str(&state).unwrap(),
            None => List::new(),
        };
        Seen { calls: backend.calls(), ended: all, lists: backend.history().iter().map(list).collect() }
    }

    async fn handle(self, handle: u64, backend: FaultyBackend, clock: ManualClock) -> [(u64, Ended); 3] {
        let store = store_on(&backend, self.fault, Arc::new(clock.clone()));
        let (key, number) = (Key::new("key").unwrap(), |i| handle * 10 + i);
        let ttl_ms = if self.scene == Scene::Expires { 40 } else { 3_600_000 };
        let (step_1, step_2, step_3) =
            (append_for(number(1), ttl_ms), append_for(number(2), ttl_ms), append_for(number(3), ttl_ms));
        let both = tokio::join!(store.apply(&key, &step_1), store.apply(&key, &step_2));
        match self.scene {
            Scene::Resets if handle % 2 == 1 => {
                // Its outcome does not matter.
                let _ = store.reset(&key).await;
            }
            // Some handles find the list expired, others do not, and for one of four the clock jumps back.
            Scene::Expires => match (self.seed + handle) % 4 {
                0 => clock.set(Millis(clock.now().0 - 15)),
                n => clock.set(clock.now().plus_ms(15 * n)),
            },
            _ => {}
        }
        let last = store.apply(&key, &step_3).await;
        [(number(1), ended(both.0)), (number(2), ended(both.1)), (number(3), ended(last))]
    }

    /// What is wrong with what the run showed, if anything.
    fn violation(&self, seen: &Seen) -> Option<String> {
        for (number, ended) in &seen.ended {
            let listed: Vec<bool> = seen.lists.iter().map(|list| list.contains(number)).collect();
            let first = listed.iter().position(|listed| *listed);
            let times = |list: &List| list.iter().filter(|listed| *listed == number).count();
            // It may go with the list, and must not come again.
            let begins = listed.windows(2).filter(|two| !two[0] && two[1]).count()
                + usize::from(listed.first() == Some(&true));
            if begins > 1 || seen.lists.iter().any(|list| times(list) > 1) {
                return Some(format!("{number} was applied twice"));
            }
            match (ended, first) {
                (Ended::NotApplied, Some(_)) => {
                    return Some(format!("{number} was reported not applied and landed"));
                }
                (Ended::Applied(_), None) => {
                    return Some(format!("{number} was acknowledged and is missing"));
                }
                (Ended::Applied(before), Some(first)) => {
                    let list = &seen.lists[first];
                    let at = list.iter().position(|listed| listed == number)?;
                    if list[..at] != before[..] {
                        return Some(format!("{number} saw {before:?}"));
                    }
                    // What was there stays until the list is removed or expires.
                    let lost = |two: &[List]| two[0].contains(number) && !two[1].contains(number);
                    if self.scene == Scene::Appends && seen.lists.windows(2).any(lost) {
                        return Some(format!("{number} was acknowledged and is lost"));
                    }
                }
                _ => {}
            }
        }
        None
    }

    pub(super) fn check(&self) -> Option<String> {
        let seen = self.run();
        let violation = self.violation(&seen)?;
        Some(format!("{self}: {violation}: {:?}, {:?}", seen.lists, seen.ended))
    }
}
