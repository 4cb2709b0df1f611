//! The comparison of decisions with memory can fail: on a broken store it finds a counterexample, makes it as short as it can be, and prints it
//! with its seed; on a correct one it finds none.

use std::pin::Pin;
use std::sync::Arc;

use keystead_core::{ManualClock, Millis, Store};
use keystead_testkit::broken::{Fault, TextStore};
use keystead_testkit::decisions::{combinations, concurrent, timelines};
use keystead_testkit::{Checked, Failure};
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Builder;

type Compared<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;
type Compare = for<'a> fn(&'a Arc<dyn Store>, &'a ManualClock, Seeds) -> Compared<'a>;
type Seeds = std::ops::Range<u64>;

/// A way to compare, and how a step begins in what it prints.
type Way = (&'static str, Compare, &'static str);

const TIMELINES: Way =
    ("timelines", |store, clock, seeds| Box::pin(timelines::compare(&**store, clock, "t", seeds)), "  at ");
const COMBINATIONS: Way = (
    "combinations",
    |store, clock, seeds| Box::pin(combinations::compare(store, clock, "c", seeds)),
    "  at ",
);
const CONCURRENT: Way =
    ("concurrent", |store, clock, seeds| Box::pin(concurrent::compare(store, clock, "n", seeds)), "  round ");

/// What finds which fault, and the most steps that its counterexample needs.
const FOUND: &[(Way, Fault, usize)] = &[
    (TIMELINES, Fault::RoundsDoubles, 1),
    (TIMELINES, Fault::ForgottenTtl, 2),
    (TIMELINES, Fault::MonotonicTime, 3),
    (TIMELINES, Fault::IgnoresReset, 2),
    (COMBINATIONS, Fault::RoundsDoubles, 3),
    (CONCURRENT, Fault::RoundsDoubles, 1),
    (CONCURRENT, Fault::LostUpdate, 2),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, compare, _) in [TIMELINES, COMBINATIONS, CONCURRENT] {
        trials.push(Trial::test(format!("decisions::{name}::None"), move || passes(compare, Fault::None)));
    }
    for &((name, compare, step), fault, most) in FOUND {
        let name = format!("decisions::{name}::{fault:?}");
        trials.push(Trial::test(name, move || is_found(compare, fault, step, most)));
    }
    // One step after the other shows nothing of a store that loses concurrent ones.
    trials.push(Trial::test("decisions::timelines::LostUpdate", || passes(TIMELINES.1, Fault::LostUpdate)));
    trials
}

fn compared(compare: Compare, fault: Fault) -> Checked {
    let clock = ManualClock::at(Millis(2_000_000_000_000));
    let store: Arc<dyn Store> = Arc::new(TextStore::alone(clock.clone(), fault));
    // On one thread concurrent steps take turns at every yield, so that a race ends the same way every time.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(compare(&store, &clock, 1..60))
}

fn passes(compare: Compare, fault: Fault) -> Result<(), Failed> {
    compared(compare, fault).map_err(|failure| Failed::from(failure.to_string()))
}

fn is_found(compare: Compare, fault: Fault, step: &str, most: usize) -> Result<(), Failed> {
    let Err(failure) = compared(compare, fault) else { return Err(Failed::from("it was not found")) };
    let words = failure.to_string();
    let steps = words.lines().filter(|line| line.starts_with(step)).count();
    let names_seed = failure.seed().is_some_and(|seed| words.starts_with(&format!("KEYSTEAD_SEED={seed}: ")));
    match (1..=most).contains(&steps) && names_seed && words.contains(": expected ") {
        true => Ok(()),
        false => Err(Failed::from(Failure::new(format_args!("{steps} steps: {words}")).to_string())),
    }
}
