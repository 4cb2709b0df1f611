//! Runs a batch of steps one after the other on one state in memory. Pure: what it decides is persisted by one swap, or run again.

use keystead_core::{AnyState, Code, ErasedStep, Error, Millis, Result, Verdict};

use super::record::Record;

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

/// The state after a batch has run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// Nothing is to be written.
    Unchanged,
    /// This is to be written; without a state, a tombstone.
    Changed { state: Option<String>, expires_at: Millis },
}

/// Runs all jobs on the state of `base`.
///
/// A job that fails changes nothing, and the others go on.
pub(crate) fn run(jobs: &mut [Job], base: Option<&Record>, now: Millis, state_bytes_max: usize) -> Ran {
    let mut working = Working::of(base);
    for job in jobs.iter_mut() {
        job.result = working.run(&mut job.work, now);
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
        job.result = working.run(&mut job.work, now);
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

/// The state of a key while a batch runs.
pub(crate) struct Working {
    held: Held,
    expires_at: Millis,
    changed: bool,
}

enum Held {
    Absent,
    /// As it was read. It is decoded by the first step.
    Text(String),
    Native(AnyState),
}

impl Working {
    pub(crate) fn of(base: Option<&Record>) -> Working {
        let held = base.and_then(|record| record.state.clone()).map_or(Held::Absent, Held::Text);
        Working { held, expires_at: base.map_or(Millis::NEVER, |record| record.expires_at), changed: false }
    }

    fn run(&mut self, work: &mut Work, now: Millis) -> Result<()> {
        match work {
            Work::Step(step) => self.apply(&mut **step, now),
            Work::Reset { existed } => {
                self.expire(now);
                *existed = self.remove();
                Ok(())
            }
        }
    }

    /// Runs a step.
    pub(crate) fn apply(&mut self, step: &mut dyn ErasedStep, now: Millis) -> Result<()> {
        self.expire(now);
        self.step(step, now)
    }

    /// An expired state is removed, not only hidden: it must not reappear when the clock jumps back.
    fn expire(&mut self, now: Millis) {
        if now >= self.expires_at {
            self.remove();
        }
    }

    /// Returns whether there was a state.
    fn remove(&mut self) -> bool {
        self.expires_at = Millis::NEVER;
        match std::mem::replace(&mut self.held, Held::Absent) {
            Held::Absent => false,
            _ => {
                self.changed = true;
                true
            }
        }
    }

    fn step(&mut self, step: &mut dyn ErasedStep, now: Millis) -> Result<()> {
        if let Held::Text(text) = &self.held {
            self.held = Held::Native(step.decode(text)?);
        }
        let mut slot = match std::mem::replace(&mut self.held, Held::Absent) {
            Held::Native(state) => Some(state),
            _ => None,
        };
        let ran = match step.run(&mut slot, now) {
            // The state of the step before has another type. Its text may still be one of this step's, as if it had been read.
            Err(error) if error.code() == Code::WrongType => match decode_again(slot.as_ref(), step) {
                Some(state) => {
                    slot = Some(state);
                    step.run(&mut slot, now)
                }
                None => Err(error),
            },
            ran => ran,
        };
        self.held = slot.map_or(Held::Absent, Held::Native);
        match ran? {
            Verdict::Keep => {}
            Verdict::Put(ttl) => {
                self.expires_at = ttl.expires_at(now, self.expires_at);
                self.changed = true;
            }
            Verdict::Delete => drop(self.remove()),
        }
        Ok(())
    }

    /// What is to be written.
    pub(crate) fn finish(self, state_bytes_max: usize) -> Result<Ran> {
        if !self.changed {
            return Ok(Ran::Unchanged);
        }
        let state = match self.held {
            Held::Absent => None,
            Held::Text(text) => Some(text),
            Held::Native(state) => Some(state.encode()?),
        };
        let len = state.as_ref().map_or(0, String::len);
        if len > state_bytes_max {
            let message =
                format!("max state size exceeded. Limit: {state_bytes_max} bytes, Actual: {len} bytes");
            return Err(Error::new(Code::TooLarge, message));
        }
        Ok(Ran::Changed { state, expires_at: self.expires_at })
    }
}

fn decode_again(state: Option<&AnyState>, step: &dyn ErasedStep) -> Option<AnyState> {
    step.decode(&state?.encode().ok()?).ok()
}
