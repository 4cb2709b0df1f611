//! Every single fault, every pair, a server or a process that dies at each call, and random plans, whose seeds are kept.

use super::model::{Ended, Run, Scene};
use super::{CallFault, Effect, Manner, Plan, Reply};
use crate::bounds::WRITERS_MAX;
use crate::cas::fault::Fault;
use crate::cas::nonce::random;

const SCENES: [Scene; 3] = [Scene::Appends, Scene::Resets, Scene::Expires];

const EFFECTS: [Effect; 5] =
    [Effect::Now, Effect::Never, Effect::Late(1), Effect::Late(3), Effect::Late(usize::MAX / 2)];

/// Every fault of one call.
fn faults() -> Vec<CallFault> {
    let refused = CallFault { reply: Reply::Refused, effect: Effect::Never };
    let of = |reply| EFFECTS.map(|effect| CallFault { reply, effect });
    [vec![refused], of(Reply::Lost).to_vec(), of(Reply::Hangs).to_vec()].concat()
}

/// Every plan of one or two faults among the first calls.
fn pairs(calls: usize) -> impl Iterator<Item = Plan> {
    let faults = faults();
    let single: Vec<(usize, CallFault)> =
        (0..calls).flat_map(|call| faults.iter().map(move |fault| (call, *fault))).collect();
    let pairs: Vec<Plan> = single
        .iter()
        .enumerate()
        .flat_map(|(i, first)| single[i + 1..].iter().map(move |second| (*first, *second)))
        .filter(|(first, second)| first.0 != second.0)
        .map(|(first, second)| Plan::from_iter([first, second]))
        .collect();
    single.into_iter().map(|one| Plan::from_iter([one])).chain(pairs)
}

/// Every plan of a server that dies at a call, which it may still have run, and comes back after some calls or never.
fn deaths_of_the_server(calls: usize) -> impl Iterator<Item = Plan> {
    let down = [Reply::Refused, Reply::Hangs].map(|reply| CallFault { reply, effect: Effect::Never });
    let each = (0..calls).flat_map(move |call| EFFECTS.map(|effect| (call, effect)));
    each.flat_map(move |(call, effect)| {
        down.into_iter().flat_map(move |fault| {
            let last = CallFault { reply: Reply::Lost, effect };
            let for_ever = Plan { from: Some((call + 1, fault)), ..Plan::from_iter([(call, last)]) };
            let for_a_while = [1, 2, 3, 5, 9].map(|count| {
                let meanwhile = (call + 1..call + 1 + count).map(|call| (call, fault));
                Plan::from_iter(meanwhile.chain([(call, last)]))
            });
            for_a_while.into_iter().chain([for_ever])
        })
    })
}

/// Every plan in which all calls from one on have the same fault.
fn lasting_faults(calls: usize) -> impl Iterator<Item = Plan> {
    let each = (0..calls).flat_map(|call| faults().into_iter().map(move |fault| (call, fault)));
    each.map(|from| Plan { from: Some(from), ..Plan::default() })
}

/// Every plan in which the process that makes a call ends, and what it has sent arrives now, late, or never; with one more fault.
fn deaths_of_a_handle(calls: usize) -> impl Iterator<Item = Plan> {
    let deaths = (0..calls).flat_map(|call| EFFECTS.map(|effect| (call, effect)));
    deaths.flat_map(move |(call, effect)| {
        let death = (call, CallFault { reply: Reply::Dies, effect });
        let others = (0..calls).filter(move |other| *other != call);
        let others = others.flat_map(|other| faults().into_iter().map(move |fault| (other, fault)));
        std::iter::once(Plan::from_iter([death]))
            .chain(others.map(move |other| Plan::from_iter([death, other])))
    })
}

/// The calls of the scene in which faults are placed. Retries make further calls, which are not disturbed.
const CALLS: usize = 10;

/// Runs every scene with these plans, of which there is one list for each scene. Returns how many runs there were, and the first violation.
fn search<I: Iterator<Item = Plan>>(
    plans: impl Fn() -> I,
    change: impl Fn(Run) -> Run,
) -> (usize, Option<String>) {
    let mut runs = 0;
    for scene in SCENES {
        for seed in 1..=2 {
            for plan in plans() {
                runs += 1;
                if let Some(violation) = change(Run::plain(plan, seed, scene)).check() {
                    return (runs, Some(violation));
                }
            }
        }
    }
    (runs, None)
}

fn every_pair(change: impl Fn(Run) -> Run) -> (usize, Option<String>) {
    search(|| pairs(CALLS), change)
}

#[test]
fn every_pair_of_faults_leaves_exact_counts() {
    let (runs, violation) = every_pair(|run| run);
    assert_eq!(violation, None);
    assert!(runs > 30_000, "{runs} runs");
}

#[test]
fn a_server_that_dies_at_any_call_leaves_exact_counts() {
    let (runs, violation) = search(|| deaths_of_the_server(CALLS), |run| run);
    assert_eq!(violation, None);
    assert!(runs > 3_000, "{runs} runs");
    let (runs, violation) = search(|| lasting_faults(CALLS), |run| run);
    assert_eq!(violation, None);
    assert!(runs > 600, "{runs} runs");
}

#[test]
fn a_process_that_dies_at_any_call_leaves_exact_counts() {
    let (runs, violation) = search(|| deaths_of_a_handle(CALLS), |run| run);
    assert_eq!(violation, None);
    assert!(runs > 25_000, "{runs} runs");
}

/// SplitMix64: a seed is the same plan on every machine and in every version.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// From few to many faults, among the first calls or all along, with deaths, and up to more writers than a record names.
fn random_run(seed: u64) -> Run {
    let mut rng = Rng(seed);
    let scene = SCENES[rng.below(SCENES.len())];
    let handles = [2, 2, 3, 5, WRITERS_MAX as u64 + 3][rng.below(5)];
    let (calls, one_in) = ([10, 30, 100][rng.below(3)], [2, 4, 10][rng.below(3)]);
    let mut plan = Plan::default();
    for call in 0..calls {
        if rng.below(one_in) == 0 {
            let reply = match rng.below(12) {
                0 => Reply::Dies,
                1..4 => Reply::Refused,
                4..8 => Reply::Lost,
                _ => Reply::Hangs,
            };
            let effect = match (reply, rng.below(3)) {
                (Reply::Refused, _) | (_, 0) => Effect::Never,
                (_, 1) => Effect::Now,
                _ => Effect::Late(rng.below(2 * calls)),
            };
            plan.at.insert(call, CallFault { reply, effect });
        }
    }
    Run { handles, ..Run::plain(plan, seed, scene) }
}

#[test]
fn random_sets_of_faults_leave_exact_counts() {
    // The first seeds are kept; others differ from run to run, and are printed if they find something.
    let fresh = random() >> 1;
    let (mut applied, mut not_applied, mut unknown) = (0, 0, 0);
    for seed in (0..6_000).chain((0..2_000).map(|i| fresh + i)) {
        let run = random_run(seed);
        assert_eq!(run.check(), None);
        if seed < 500 {
            for (_, ended) in run.run().ended {
                match ended {
                    Ended::Applied(_) => applied += 1,
                    Ended::NotApplied => not_applied += 1,
                    Ended::Unknown => unknown += 1,
                }
            }
        }
    }
    // The plans are neither harmless nor hopeless.
    assert!(applied > 500 && not_applied > 500 && unknown > 100, "{applied}, {not_applied}, {unknown}");
}

#[test]
fn without_a_fault_everything_is_acknowledged() {
    for seed in 0..50 {
        let seen = Run::plain(Plan::default(), seed, Scene::Appends).run();
        assert!(seen.ended.iter().all(|(_, ended)| matches!(ended, Ended::Applied(_))), "{:?}", seen.ended);
        assert_eq!(seen.lists.last().map(Vec::len), Some(6));
        assert!(seen.calls <= 14, "{} calls for six steps, seed {seed}", seen.calls);
    }
}

/// More writers than a record names: what was written before them is unknown, never wrong.
#[test]
fn more_writers_than_a_record_names_leave_exact_counts() {
    for seed in 1..=2 {
        for plan in pairs(6).filter(|plan| plan.at.len() == 1) {
            let run = Run { handles: WRITERS_MAX as u64 + 3, ..Run::plain(plan, seed, Scene::Appends) };
            assert_eq!(run.check(), None);
        }
    }
}

#[test]
fn a_layer_without_the_fence_is_caught() {
    let (_, violation) = every_pair(|run| Run { fault: Some(Fault::NoFence), ..run });
    assert!(violation.unwrap().contains("reported not applied and landed"));
}

#[test]
fn a_layer_that_retries_an_unknown_outcome_is_caught() {
    let (_, violation) = every_pair(|run| Run { fault: Some(Fault::RetriesUnknown), ..run });
    assert!(violation.unwrap().contains("applied twice"));
}

#[test]
fn a_layer_that_looks_only_at_the_last_writer_is_caught() {
    let (_, violation) = every_pair(|run| Run { fault: Some(Fault::LastWriterOnly), ..run });
    assert!(violation.unwrap().contains("reported not applied and landed"));
}

#[test]
fn a_server_that_deletes_tombstones_is_caught() {
    let (_, violation) = every_pair(|run| Run { manner: Manner::DeletesTombstones, ..run });
    assert!(violation.unwrap().contains("reported not applied and landed"));
}

/// By random plans, too.
#[test]
fn random_sets_of_faults_catch_each_wrong_layer() {
    for fault in [Fault::NoFence, Fault::RetriesUnknown, Fault::LastWriterOnly] {
        let caught = (0..3_000).find_map(|seed| Run { fault: Some(fault), ..random_run(seed) }.check());
        assert!(caught.is_some(), "{fault:?}");
    }
}
