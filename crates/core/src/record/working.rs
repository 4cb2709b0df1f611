//! Steps that run one after the other on the state of a record, in memory. Pure: what they decide is persisted by one swap, or run again.

use super::Record;
use crate::{AnyState, Code, ErasedStep, Error, Millis, Result, Verdict};

/// The state after steps have run.
#[derive(Debug, PartialEq, Eq)]
pub enum Ran {
    /// Nothing is to be written.
    Unchanged,
    /// This is to be written.
    Changed {
        /// The JSON text of the state; `None` is a tombstone.
        state: Option<String>,
        /// When the state expires.
        expires_at: Millis,
    },
}

/// The state of a key while steps run on it, one after the other.
pub struct Working {
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
    /// The state of a record.
    #[must_use]
    pub fn of(base: Option<&Record>) -> Working {
        let held = base.and_then(|record| record.state.clone()).map_or(Held::Absent, Held::Text);
        Working { held, expires_at: base.map_or(Millis::NEVER, |record| record.expires_at), changed: false }
    }

    /// Runs a step.
    ///
    /// # Errors
    /// The step's, after which nothing has changed.
    pub fn apply(&mut self, step: &mut dyn ErasedStep, now: Millis) -> Result<()> {
        self.expire(now);
        self.step(step, now)
    }

    /// Removes the key. Returns whether it was there.
    pub fn reset(&mut self, now: Millis) -> bool {
        self.expire(now);
        self.remove()
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
    ///
    /// # Errors
    /// `too_large` when the state is longer than `state_bytes_max`.
    pub fn finish(self, state_bytes_max: usize) -> Result<Ran> {
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
