//! What is explored, and the broken protocols that must be caught.

use super::explore::Explored;
use super::*;

/// The right protocol, within these bounds.
#[track_caller]
fn holds(nodes: usize, budget: Budget) -> Explored {
    let explored = Model::new(nodes, budget).explore().unwrap_or_else(|violation| panic!("{violation:?}"));
    println!("{nodes} nodes, {budget:?}: {explored:?}");
    // A protocol that moves nothing, or a cluster that accepts nothing, would also lose nothing.
    assert_eq!(explored.acknowledged, usize::from(budget.writes), "some writes are never acknowledged");
    assert_eq!(explored.epoch, 1 + 2 * u64::from(budget.begins), "some migrations never end");
    explored
}

const NONE: Budget =
    Budget { writes: 0, crashes: 0, begins: 0, aborts: 0, damages: 0, discards: 0, give_ups: 0 };

#[test]
fn two_writes_an_abort_and_a_crash_at_every_point() {
    let explored = holds(2, Budget { writes: 2, begins: 1, crashes: 1, aborts: 1, ..NONE });
    assert!(explored.states > 300_000, "{explored:?}");
}

#[test]
fn two_crashes_at_every_pair_of_points() {
    holds(2, Budget { writes: 1, begins: 1, crashes: 2, aborts: 1, ..NONE });
}

#[test]
fn there_and_back_with_a_crash() {
    holds(2, Budget { writes: 1, begins: 2, crashes: 1, aborts: 1, ..NONE });
}

#[test]
fn on_to_a_third_node() {
    holds(3, Budget { writes: 1, begins: 2, ..NONE });
}

#[test]
fn a_discarded_feed_and_a_slow_seal() {
    holds(2, Budget { writes: 2, begins: 1, discards: 1, ..NONE });
    holds(2, Budget { writes: 1, begins: 1, crashes: 1, discards: 1, give_ups: 1, ..NONE });
}

#[test]
fn a_change_that_is_lost_in_the_staging_is_found_and_the_migration_aborted() {
    holds(2, Budget { writes: 2, begins: 1, damages: 1, ..NONE });
    holds(2, Budget { writes: 1, begins: 2, damages: 1, crashes: 1, ..NONE });
}

const TWO: &str = "two nodes serve the slot";
const LOST: &str = "an acknowledged write is missing";
const LEFT: &str = "something is left behind";
const STUCK: &str = "no good end can be reached";

/// Each with bounds in which it fails and the right protocol does not.
const CAUGHT: &[(Broken, Budget, &str)] = &[
    (Broken::ServesFrozen, Budget { writes: 1, begins: 1, ..NONE }, TWO),
    (Broken::ThawsAtDeadline, Budget { writes: 2, begins: 1, ..NONE }, TWO),
    (Broken::ForgetsFreeze, Budget { writes: 1, begins: 1, crashes: 1, ..NONE }, TWO),
    (Broken::SealsBeforeDurable, Budget { writes: 1, begins: 1, crashes: 1, ..NONE }, STUCK),
    (Broken::DeletesEarly, Budget { writes: 1, begins: 1, aborts: 1, ..NONE }, LOST),
    (Broken::NeverDeletes, Budget { writes: 1, begins: 1, ..NONE }, LEFT),
    (Broken::ServesReady, Budget { writes: 1, begins: 1, ..NONE }, LOST),
    (Broken::NoDigest, Budget { writes: 1, begins: 1, damages: 1, ..NONE }, LOST),
    (Broken::ForgetsStaging, Budget { writes: 1, begins: 1, crashes: 1, ..NONE }, LOST),
    (Broken::KeepsStaging, Budget { writes: 1, begins: 1, aborts: 1, ..NONE }, LEFT),
    (Broken::NeverAsksAgain, Budget { begins: 1, ..NONE }, STUCK),
    (Broken::FinishesEarly, Budget { writes: 1, begins: 1, ..NONE }, STUCK),
    (Broken::FinishesAnything, Budget { writes: 1, begins: 2, aborts: 1, ..NONE }, TWO),
    (Broken::GoesBack, Budget { writes: 1, begins: 1, ..NONE }, TWO),
];

#[test]
fn broken_protocols_are_caught() {
    for (broken, budget, what) in CAUGHT {
        let model = Model { broken: Some(*broken), ..Model::new(2, *budget) };
        match model.explore() {
            Ok(explored) => panic!("{broken:?} is not caught: {explored:?}"),
            Err(violation) => {
                println!("{broken:?}: {} in {} states", violation.what, violation.states);
                assert_eq!(violation.what, *what, "{broken:?}");
            }
        }
        let right = Model::new(2, *budget).explore();
        assert!(right.is_ok(), "{broken:?} fails where the right protocol does, too: {right:?}");
    }
}
