//! Type-erased steps and states, so that a store can be chosen at run time.
//!
//! Features use [`Step`] and typed replies, stores use [`ErasedStep`]; [`StoreExt`](crate::StoreExt) converts between them.
//! The memory store runs the step on a native state in place and allocates nothing; a store with its own thread
//! sends a [detached](ErasedStep::detach) copy to it; any other store decodes the text it has stored, runs the step and
//! encodes the result.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;

use crate::bounds::STATE_BYTES_MAX;
use crate::clock::Millis;
use crate::error::{Code, Error, Result};
use crate::script::{Script, ScriptReply};
use crate::step::{Change, State, Step, Ttl};
use crate::store::no_reply;

/// A native state whose type is known only to its step.
///
/// The small states of the rate limits are stored inline, any other in a box: with a million keys, that saves a cache miss
/// for each check.
#[derive(Clone)]
pub struct AnyState(Repr);

#[derive(Clone)]
enum Repr {
    Double(f64),
    Integer(u64),
    DoubleInteger((f64, u64)),
    Integers((u64, u64)),
    Boxed(Box<dyn BoxedState>),
}

impl AnyState {
    /// Wraps `state`.
    pub fn new<T: State>(state: T) -> Self {
        // Each comparison is decided when this is compiled for `T`; only one branch remains.
        let mut state = Some(state);
        let any: &mut dyn Any = &mut state;
        AnyState(if let Some(double) = take::<f64>(any) {
            Repr::Double(double)
        } else if let Some(integer) = take::<u64>(any) {
            Repr::Integer(integer)
        } else if let Some(both) = take::<(f64, u64)>(any) {
            Repr::DoubleInteger(both)
        } else if let Some(both) = take::<(u64, u64)>(any) {
            Repr::Integers(both)
        } else {
            match state {
                Some(state) => Repr::Boxed(Box::new(state)),
                None => Repr::Integer(0),
            }
        })
    }

    /// The state, if it is of this type.
    #[inline]
    #[must_use]
    pub fn get<T: State>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Double(state) => same(state),
            Repr::Integer(state) => same(state),
            Repr::DoubleInteger(state) => same(state),
            Repr::Integers(state) => same(state),
            Repr::Boxed(state) => state.as_any().downcast_ref(),
        }
    }

    #[inline]
    fn get_mut<T: State>(&mut self) -> Option<&mut T> {
        match &mut self.0 {
            Repr::Double(state) => same_mut(state),
            Repr::Integer(state) => same_mut(state),
            Repr::DoubleInteger(state) => same_mut(state),
            Repr::Integers(state) => same_mut(state),
            Repr::Boxed(state) => state.as_any_mut().downcast_mut(),
        }
    }

    /// The JSON text that every store except memory stores.
    ///
    /// # Errors
    /// `internal` when the state has no JSON form, `too_large` when the text exceeds the bound.
    pub fn encode(&self) -> Result<String> {
        let text = match &self.0 {
            Repr::Double(state) => serde_json::to_string(state),
            Repr::Integer(state) => serde_json::to_string(state),
            Repr::DoubleInteger(state) => serde_json::to_string(state),
            Repr::Integers(state) => serde_json::to_string(state),
            Repr::Boxed(state) => state.to_json(),
        };
        let text = text.map_err(|e| Error::new(Code::Internal, "a state has no JSON form").with_source(e))?;
        let len = text.len();
        if len > STATE_BYTES_MAX {
            return Err(Error::new(
                Code::TooLarge,
                format!("max state size exceeded. Limit: {STATE_BYTES_MAX} bytes, Actual: {len} bytes"),
            ));
        }
        Ok(text)
    }
}

impl fmt::Debug for AnyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.encode() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "({error})"),
        }
    }
}

/// The same reference, if both types are the same. Decided at compile time.
#[inline]
fn same<A: 'static, T: 'static>(state: &A) -> Option<&T> {
    (state as &dyn Any).downcast_ref()
}

#[inline]
fn same_mut<A: 'static, T: 'static>(state: &mut A) -> Option<&mut T> {
    (state as &mut dyn Any).downcast_mut()
}

fn take<T: 'static>(any: &mut dyn Any) -> Option<T> {
    any.downcast_mut::<Option<T>>()?.take()
}

trait BoxedState: Send {
    fn to_json(&self) -> serde_json::Result<String>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn clone_boxed(&self) -> Box<dyn BoxedState>;
}

impl<T: State> BoxedState for T {
    fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn clone_boxed(&self) -> Box<dyn BoxedState> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn BoxedState> {
    fn clone(&self) -> Self {
        (**self).clone_boxed()
    }
}

/// What the store must do after a step ran. The new state is already in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the slot was not touched.
    Keep,
    /// Store what is in the slot, with this TTL.
    Put(Ttl),
    /// Remove the key. The slot still holds the old state.
    Delete,
}

/// A step whose types are known only to the caller. It stores its own reply.
pub trait ErasedStep: Send {
    /// Runs on the state in `slot` (empty when the key is absent or expired). A state that is put replaces it in place.
    ///
    /// # Errors
    /// `wrong_type` when the slot holds a state of another type; the slot is then untouched.
    fn run(&mut self, slot: &mut Option<AnyState>, now: Millis) -> Result<Verdict>;

    /// Decodes the text form of this step's state.
    ///
    /// # Errors
    /// `wrong_type` when the text is not a state of this step.
    fn decode(&self, text: &str) -> Result<AnyState>;

    /// An owned copy, to be run on another thread.
    fn detach(&self) -> Box<dyn ErasedStep>;

    /// Returns the reply of the last run.
    fn take_reply(&mut self) -> Option<Box<dyn Any + Send>>;

    /// Sets the reply that a detached copy returned.
    fn put_reply(&mut self, reply: Box<dyn Any + Send>);

    /// The same step as a script, if there is one.
    fn script(&self) -> Option<Script>;

    /// Sets the reply from what its script returned.
    ///
    /// # Errors
    /// `internal` when that is not a reply of it. The step has run.
    fn put_script_reply(&mut self, reply: &ScriptReply<'_>) -> Result<()>;
}

/// Runs `step` through `apply`, which does not know its types, and returns its reply.
///
/// # Errors
/// The error of `apply`.
pub fn reply_of<S: Step>(
    step: &S,
    apply: impl FnOnce(&mut dyn ErasedStep) -> Result<()>,
) -> Result<S::Reply> {
    let mut erased = Erased::<&S, S>::new(step);
    apply(&mut erased)?;
    erased.reply.ok_or_else(no_reply)
}

/// A typed step together with its reply: the only implementation of [`ErasedStep`]. `P` borrows the step where
/// it is run in place and owns it once it is detached.
pub(crate) struct Erased<P, S: Step> {
    step: P,
    pub(crate) reply: Option<S::Reply>,
}

impl<P: Borrow<S>, S: Step> Erased<P, S> {
    pub(crate) fn new(step: P) -> Self {
        Erased { step, reply: None }
    }
}

impl<P: Borrow<S> + Send, S: Step> ErasedStep for Erased<P, S> {
    /// Always inlined: a memory store that is called with a known step then runs it in place.
    #[inline(always)]
    fn run(&mut self, slot: &mut Option<AnyState>, now: Millis) -> Result<Verdict> {
        run(self.step.borrow(), &mut self.reply, slot, now)
    }

    fn decode(&self, text: &str) -> Result<AnyState> {
        let state: S::State = serde_json::from_str(text).map_err(|e| wrong_type().with_source(e))?;
        Ok(AnyState::new(state))
    }

    fn detach(&self) -> Box<dyn ErasedStep> {
        Box::new(Erased::<S, S>::new(self.step.borrow().clone()))
    }

    fn take_reply(&mut self) -> Option<Box<dyn Any + Send>> {
        self.reply.take().map(|r| Box::new(r) as _)
    }

    fn put_reply(&mut self, reply: Box<dyn Any + Send>) {
        self.reply = reply.downcast().ok().map(|r| *r);
    }

    fn script(&self) -> Option<Script> {
        self.step.borrow().script()
    }

    fn put_script_reply(&mut self, reply: &ScriptReply<'_>) -> Result<()> {
        self.reply = self.step.borrow().script_reply(reply);
        match self.reply {
            Some(_) => Ok(()),
            None => Err(no_reply()),
        }
    }
}

#[inline(always)]
fn run<S: Step>(
    step: &S,
    reply: &mut Option<S::Reply>,
    slot: &mut Option<AnyState>,
    now: Millis,
) -> Result<Verdict> {
    let mut state: Option<&mut S::State> = match slot {
        Some(state) => Some(state.get_mut().ok_or_else(wrong_type)?),
        None => None,
    };
    let (verdict, step_reply) = match step.run(state.as_deref(), now) {
        Change::Keep(step_reply) => (Verdict::Keep, step_reply),
        Change::Delete(step_reply) => (Verdict::Delete, step_reply),
        Change::Put(new, ttl, step_reply) => {
            match &mut state {
                Some(old) => **old = new,
                None => *slot = Some(AnyState::new(new)),
            }
            (Verdict::Put(ttl), step_reply)
        }
    };
    *reply = Some(step_reply);
    Ok(verdict)
}

#[cold]
fn wrong_type() -> Error {
    Error::new(Code::WrongType, "the key holds a state of another kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<T: State + PartialEq + fmt::Debug>(state: &T) {
        let mut kept = AnyState::new(state.clone());
        assert_eq!(kept.get::<T>(), Some(state));
        assert_eq!(kept.get_mut::<T>().map(|s| &*s), Some(state));
        assert_eq!(kept.clone().get::<T>(), Some(state));
        assert_eq!(kept.get::<i8>(), None, "another type is not returned");
        assert_eq!(kept.encode().unwrap(), serde_json::to_string(state).unwrap());
    }

    #[test]
    fn a_state_keeps_its_type_inline_or_boxed() {
        round(&0.1f64);
        round(&u64::MAX);
        round(&(0.5f64, 7u64));
        round(&(1u64, 2u64));
        round(&vec![1u8, 2, 3]);
        round(&"text".to_string());
        assert!(size_of::<Option<AnyState>>() <= 24);
    }

    #[test]
    fn a_state_over_the_bound_is_not_encoded() {
        let error = AnyState::new("x".repeat(STATE_BYTES_MAX)).encode().unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
    }
}
