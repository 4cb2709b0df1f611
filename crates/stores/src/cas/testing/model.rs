//! Every single fault, every pair of faults, and random sets of faults, in a small scene of several handles on one key.
//!
//! Each step appends its own number to a list, so the list shows which steps were applied, how often, and in which order.

use std::fmt;
use std::sync::Arc;

use keystead_core::{Change, Key, ManualClock, Millis, Outcome, Result, Step, Store, StoreExt, Ttl, step_fn};

use super::{CallFault, Effect, FaultyBackend, Plan, Reply};
use crate::cas::CasStore;
use crate::cas::fault::Fault;
use crate::cas::record::Record;

pub(super) type List = Vec<u64>;

pub(super) fn append(number: u64) -> impl Step<State = List, Reply = List> {
    step_fn(move |list: Option<&List>, _now| {
        let before = list.cloned().unwrap_or_default();
        let mut after = before.clone();
        after.push(number);
        Change::Put(after, Ttl::Ms(3_600_000), before)
    })
}

/// How a step ended, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    /// It was acknowledged, with the list before it.
    Applied(List),
    NotApplied,
    Unknown,
}

/// What a scene does besides appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    Appends,
    /// The second handle removes the key in between.
    Resets,
}

#[derive(Clone)]
struct Run {
    plan: Plan,
    seed: u64,
    scene: Scene,
    fault: Option<Fault>,
    deletes_tombstones: bool,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut plan: Vec<_> = self.plan.iter().collect();
        plan.sort_by_key(|(call, _)| **call);
        write!(f, "{:?}, seed {}, faults {plan:?}", self.scene, self.seed)
    }
}

/// What a run showed.
struct Seen {
    calls: usize,
    ended: Vec<(u64, Ended)>,
    list: List,
}

pub(super) fn store(backend: &FaultyBackend, fault: Option<Fault>) -> Arc<CasStore<FaultyBackend>> {
    let clock = Arc::new(ManualClock::at(Millis(1_000_000)));
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
    fn plain(plan: Plan, seed: u64, scene: Scene) -> Run {
        Run { plan, seed, scene, fault: None, deletes_tombstones: false }
    }

    fn run(&self) -> Seen {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(self.scene())
    }

    /// Two handles, each with two steps at the same time and one after them.
    async fn scene(&self) -> Seen {
        // Half of the seeds are of a server that does not return the current value.
        let mut backend = FaultyBackend::new(self.plan.clone(), self.seed, self.seed.is_multiple_of(2));
        if self.deletes_tombstones {
            backend = backend.deletes_tombstones();
        }
        let key = Key::new("key").unwrap();
        let mut tasks = Vec::new();
        for handle in 0..2u64 {
            let store = store(&backend, self.fault);
            let (key, scene) = (key.clone(), self.scene);
            tasks.push(tokio::spawn(async move {
                let number = |i| handle * 10 + i;
                let (step_1, step_2, step_3) = (append(number(1)), append(number(2)), append(number(3)));
                let both = tokio::join!(store.apply(&key, &step_1), store.apply(&key, &step_2));
                if handle == 1 && scene == Scene::Resets {
                    // Its outcome does not matter.
                    let _ = store.reset(&key).await;
                }
                let last = store.apply(&key, &step_3).await;
                [(number(1), ended(both.0)), (number(2), ended(both.1)), (number(3), ended(last))]
            }));
        }
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.unwrap());
        }
        backend.arrive_all();
        let text = backend.value(&key);
        let state = text.and_then(|text| Record::decode(&text).unwrap().state);
        let list = state.map_or(List::new(), |state| serde_json::from_str(&state).unwrap());
        Seen { calls: backend.calls(), ended: all, list }
    }

    /// What is wrong with what the run showed, if anything.
    fn violation(&self, seen: &Seen) -> Option<String> {
        let count = |number: u64| seen.list.iter().filter(|listed| **listed == number).count();
        for (number, ended) in &seen.ended {
            match (ended, count(*number)) {
                (_, 2..) => return Some(format!("{number} was applied twice")),
                (Ended::NotApplied, 1) => {
                    return Some(format!("{number} was reported not applied and landed"));
                }
                (Ended::Applied(_), 0) if self.scene == Scene::Appends => {
                    return Some(format!("{number} was acknowledged and is missing"));
                }
                (Ended::Applied(before), 1) if self.scene == Scene::Appends => {
                    let at = seen.list.iter().position(|listed| listed == number)?;
                    if seen.list[..at] != before[..] {
                        return Some(format!("{number} saw {before:?}"));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn check(&self) -> Option<String> {
        let seen = self.run();
        let violation = self.violation(&seen)?;
        Some(format!("{self}: {violation}: {:?}, {:?}", seen.list, seen.ended))
    }
}

/// Every fault of one call.
fn faults() -> Vec<CallFault> {
    let mut faults = vec![CallFault { reply: Reply::Refused, effect: Effect::Never }];
    for reply in [Reply::Lost, Reply::Hangs] {
        for effect in
            [Effect::Now, Effect::Never, Effect::Late(1), Effect::Late(3), Effect::Late(usize::MAX / 2)]
        {
            faults.push(CallFault { reply, effect });
        }
    }
    faults
}

/// Every plan of one or two faults among the first calls.
fn plans(calls: usize) -> impl Iterator<Item = Plan> {
    let faults = faults();
    let single: Vec<(usize, CallFault)> =
        (0..calls).flat_map(|call| faults.iter().map(move |fault| (call, *fault))).collect();
    let pairs: Vec<Plan> = single
        .iter()
        .enumerate()
        .flat_map(|(i, first)| single[i + 1..].iter().map(move |second| (*first, *second)))
        .filter(|(first, second)| first.0 != second.0)
        .map(|(first, second)| Plan::from([first, second]))
        .collect();
    single.into_iter().map(|one| Plan::from([one])).chain(pairs)
}

/// The calls of the scene in which faults are placed. Retries make further calls, which are not disturbed.
const CALLS: usize = 10;

fn search(change: impl Fn(Run) -> Run) -> (usize, Option<String>) {
    let mut runs = 0;
    for scene in [Scene::Appends, Scene::Resets] {
        for seed in 1..=2 {
            for plan in plans(CALLS) {
                runs += 1;
                if let Some(violation) = change(Run::plain(plan, seed, scene)).check() {
                    return (runs, Some(violation));
                }
            }
        }
    }
    (runs, None)
}

#[test]
fn every_pair_of_faults_leaves_exact_counts() {
    let (runs, violation) = search(|run| run);
    assert_eq!(violation, None);
    assert!(runs > 20_000, "{runs} runs");
}

#[test]
fn without_a_fault_everything_is_acknowledged() {
    for seed in 0..50 {
        let seen = Run::plain(Plan::new(), seed, Scene::Appends).run();
        assert!(seen.ended.iter().all(|(_, ended)| matches!(ended, Ended::Applied(_))), "{:?}", seen.ended);
        assert_eq!(seen.list.len(), 6);
        assert!(seen.calls <= 14, "{} calls for six steps, seed {seed}", seen.calls);
    }
}

#[test]
fn a_layer_without_the_fence_is_caught() {
    let (_, violation) = search(|run| Run { fault: Some(Fault::NoFence), ..run });
    assert!(violation.unwrap().contains("reported not applied and landed"));
}

#[test]
fn a_layer_that_retries_an_unknown_outcome_is_caught() {
    let (_, violation) = search(|run| Run { fault: Some(Fault::RetriesUnknown), ..run });
    assert!(violation.unwrap().contains("applied twice"));
}

#[test]
fn a_layer_that_looks_only_at_the_last_writer_is_caught() {
    let (_, violation) = search(|run| Run { fault: Some(Fault::LastWriterOnly), ..run });
    assert!(violation.unwrap().contains("reported not applied and landed"));
}

#[test]
fn a_server_that_deletes_tombstones_is_caught() {
    let (_, violation) = search(|run| Run { deletes_tombstones: true, ..run });
    assert!(violation.unwrap().contains("reported not applied and landed"));
}
