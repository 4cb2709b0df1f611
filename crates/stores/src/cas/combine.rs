//! Runs a batch of steps one after the other on one state in memory. Pure: what it decides is persisted by one swap, or run again.

use keystead_core::record::Record;
pub(crate) use keystead_core::record::{Ran, Working};
use keystead_core::{ErasedStep, Millis, Result};

/// What a caller wants of a key.
pub(crate) enum Work {
    Step(Box<dyn ErasedStep>),
    /// Removes the key.
    Reset {
        existed: bool,
    },
}

impl Work {
    pub(crate) fn reset() -> Work {
        Work::Reset { existed: false }
    }
}

/// One piece of work of a batch, and the result of its last run.
pub(crate) struct Job {
    pub(super) work: Work,
    pub(super) result: Result<()>,
}

impl Job {
    pub(super) fn new(work: Work) -> Job {
        Job { work, result: Ok(()) }
    }
}

/// Runs all jobs on the state of `base`.
///
/// A job that fails changes nothing, and the others go on.
pub(crate) fn run(jobs: &mut [Job], base: Option<&Record>, now: Millis, state_bytes_max: usize) -> Ran {
    let mut working = Working::of(base);
    for job in jobs.iter_mut() {
        job.result = run_one(&mut working, &mut job.work, now);
    }
    working.finish(state_bytes_max).unwrap_or_else(|_| run_measured(jobs, base, now, state_bytes_max))
}

/// The same with every new state measured, so that only the step that put too large a state fails. It encodes after each step,
/// so it runs only if the last state was too large.
fn run_measured(jobs: &mut [Job], base: Option<&Record>, now: Millis, state_bytes_max: usize) -> Ran {
    let mut ran = Ran::Unchanged;
    let mut before = base.cloned();
    for job in jobs.iter_mut() {
        let mut working = Working::of(before.as_ref());
        job.result = run_one(&mut working, &mut job.work, now);
        match working.finish(state_bytes_max) {
            Ok(Ran::Unchanged) => {}
            Ok(Ran::Changed { state, expires_at }) => {
                let (version, writers) = (0, Vec::new());
                before = Some(Record { version, expires_at, writers, state: state.clone() });
                ran = Ran::Changed { state, expires_at };
            }
            Err(error) => job.result = Err(error),
        }
    }
    ran
}

fn run_one(working: &mut Working, work: &mut Work, now: Millis) -> Result<()> {
    match work {
        Work::Step(step) => working.apply(&mut **step, now),
        Work::Reset { existed } => {
            *existed = working.reset(now);
            Ok(())
        }
    }
}
