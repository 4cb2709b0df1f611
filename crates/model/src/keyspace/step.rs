//! Steps run on the native state: on a copy, which replaces it once it is known to have a text form.
//!
//! It touches nothing but the keyspace. Invariant: a step that keeps, or fails, changes nothing, not even a TTL or a version;
//! a state that is put has a text form, since that is what the effect records.

use keystead_core::erased::reply_of;
use keystead_core::table::Id;
use keystead_core::{AnyState, Applies, Code, ErasedStep, Error, Key, Millis, Result, Step, Ttl, Verdict};

use super::Keyspace;
use super::native::Typed;
use crate::Bytes;
use crate::effect::Fact;
use crate::value::{Kind, StateCell, Value};

/// A keyspace at one time, for features that run several steps atomically.
pub struct Held<'a> {
    /// The keys.
    pub keyspace: &'a mut Keyspace,
    /// The time of all steps.
    pub now: Millis,
}

impl Applies for Held<'_> {
    fn now(&self) -> Millis {
        self.now
    }

    fn apply_erased(&mut self, key: &Key, step: &mut dyn ErasedStep) -> Result<()> {
        self.keyspace.apply_step(key.as_bytes(), step, self.now)
    }
}

impl Keyspace {
    /// Runs a step on the state under `key`, stores the result, and returns its reply.
    ///
    /// # Errors
    /// As [`apply_step`](Keyspace::apply_step).
    pub fn apply<S: Step>(&mut self, key: &[u8], step: &S, now: Millis) -> Result<S::Reply> {
        reply_of(step, |erased| self.apply_step(key, erased, now))
    }

    /// The same for a type-erased step. The reply is left in the step.
    ///
    /// # Errors
    /// `wrong_type` when the key holds anything but a state of this step; the error of the step's state when it has no text
    /// form, unless it is another one of the same job, which then fails as a whole; the error of the archive. Nothing changed then.
    pub fn apply_step(&mut self, key: &[u8], step: &mut dyn ErasedStep, now: Millis) -> Result<()> {
        self.within_bounds()?;
        let Some(id) = self.find_ready(key, now)? else {
            return self.first_step(key, step, now);
        };
        self.expect_kind(id, Kind::State)?;
        self.load(id)?;
        self.decode_state(id, step)?;
        let Some(StateCell::Native(state)) = self.table.get(id).and_then(|entry| StateCell::of(&entry.value))
        else {
            return Err(Error::new(Code::Internal, "a state was not decoded"));
        };
        // On a copy: a step replaces its state in place, and only then it is known whether the new one has a text form.
        let mut slot = Some(state.clone());
        match step.run(&mut slot, now)? {
            Verdict::Keep => {}
            Verdict::Delete => self.end(id),
            Verdict::Put(ttl) => self.next_state(id, slot, ttl, now)?,
        }
        Ok(())
    }

    fn first_step(&mut self, key: &[u8], step: &mut dyn ErasedStep, now: Millis) -> Result<()> {
        let mut slot = None;
        let Verdict::Put(ttl) = step.run(&mut slot, now)? else {
            return Ok(());
        };
        self.check_memory()?;
        let Some(state) = slot else { return Err(no_state()) };
        let text = Bytes::from(state.encode()?.into_bytes());
        let expires_at = ttl.expires_at(now, Millis::NEVER);
        self.put_new(key, Value::State(StateCell::Native(state)), Fact::State(text), expires_at, now)
    }

    fn next_state(&mut self, id: Id, slot: Option<AnyState>, ttl: Ttl, now: Millis) -> Result<()> {
        let Some(mut state) = slot else { return Err(no_state()) };
        let before = self.table.expires_at(id);
        let expires_at = ttl.expires_at(now, before);
        if expires_at == before {
            match self.put_deferred(id, state) {
                Some(back) => state = back,
                None => return Ok(()),
            }
        }
        let text = Bytes::from(state.encode()?.into_bytes());
        if expires_at <= now {
            self.end(id);
            return Ok(());
        }
        let version = self.next_version(id);
        self.swap_value(id, Value::State(StateCell::Native(state)));
        self.record(id, version, Fact::State(text));
        if expires_at != before {
            self.put_expiry(id, expires_at);
            self.record(id, version, Fact::Expiry(expires_at));
        }
        Ok(())
    }

    /// Decodes the text of a state to its native form, once.
    fn decode_state(&mut self, id: Id, step: &dyn ErasedStep) -> Result<()> {
        let Some(entry) = self.table.get_mut(id) else {
            return Ok(());
        };
        let Value::State(StateCell::Text(text)) = &entry.value else {
            return Ok(());
        };
        let state = step.decode(text)?;
        let before = entry.value.mem_bytes();
        entry.value = Value::State(StateCell::Native(state));
        self.used_bytes = self.used_bytes + entry.value.mem_bytes() - before;
        Ok(())
    }
}

fn no_state() -> Error {
    Error::new(Code::Internal, "a step put no state")
}

#[cfg(test)]
mod tests {
    use keystead_core::{Change, Revision, Version, step_fn};

    use super::*;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1000);

    fn count(ttl: Ttl) -> impl Step<State = u64, Reply = u64> {
        step_fn(move |n: Option<&u64>, _now| {
            let n = n.map_or(1, |n| n + 1);
            Change::Put(n, ttl, n)
        })
    }

    fn keep() -> impl Step<State = u64, Reply = Option<u64>> {
        step_fn(|n: Option<&u64>, _now| Change::Keep(n.copied()))
    }

    #[test]
    fn a_step_puts_keeps_and_deletes() {
        let mut ks = Keyspace::in_memory();
        assert_eq!(ks.apply(b"n", &keep(), NOW).unwrap(), None);
        assert_eq!(ks.revision(), Revision::ZERO);
        assert_eq!(ks.apply(b"n", &count(Ttl::Ms(500)), NOW).unwrap(), 1);
        assert_eq!(ks.apply(b"n", &count(Ttl::Same), NOW).unwrap(), 2);
        let meta = ks.meta(b"n", NOW).unwrap().unwrap();
        assert_eq!((meta.version, meta.revision, meta.expires_at), (Version(2), Revision(3), Millis(1500)));
        assert_eq!(ks.apply(b"n", &keep(), NOW).unwrap(), Some(2));
        assert_eq!(ks.meta(b"n", NOW).unwrap(), Some(meta), "keeping changes nothing");
        assert_eq!(ks.apply(b"n", &count(Ttl::Never), Millis(1500)).unwrap(), 1, "it was expired");
        let delete = step_fn(|_: Option<&u64>, _now| Change::<u64, ()>::Delete(()));
        ks.apply(b"n", &delete, NOW).unwrap();
        ks.apply(b"n", &delete, NOW).unwrap();
        assert!(!ks.exists(b"n", NOW).unwrap());
        assert_eq!(ks.effects().last().map(|effect| &effect.fact), Some(&Fact::Deleted));
        ks.check().unwrap();
    }

    #[test]
    fn a_text_is_decoded_once_and_another_kind_is_an_error() {
        let mut ks = Keyspace::in_memory();
        ks.set_state(b"n", "41", Expire::Keep, NOW).unwrap();
        assert_eq!(ks.apply(b"n", &keep(), NOW).unwrap(), Some(41));
        assert!(matches!(ks.state(b"n", NOW), Ok(Some(StateCell::Native(_)))));
        ks.set_str(b"s", Bytes::from(b"41"), Expire::Keep, NOW).unwrap();
        assert_eq!(ks.apply(b"s", &keep(), NOW).unwrap_err().code(), Code::WrongType);
        let text = step_fn(|_: Option<&String>, _now| Change::<String, ()>::Keep(()));
        assert_eq!(ks.apply(b"n", &text, NOW).unwrap_err().code(), Code::WrongType);
        ks.check().unwrap();
    }

    #[test]
    fn a_state_without_a_text_form_changes_nothing() {
        let mut ks = Keyspace::in_memory();
        let grow = step_fn(|text: Option<&String>, _now| {
            let len = if text.is_some() { keystead_core::bounds::STATE_BYTES_MAX } else { 1 };
            Change::Put("x".repeat(len), Ttl::Never, ())
        });
        ks.apply(b"s", &grow, NOW).unwrap();
        assert_eq!(ks.apply(b"s", &grow, NOW).unwrap_err().code(), Code::TooLarge);
        assert_eq!(ks.meta(b"s", NOW).unwrap().map(|meta| meta.version), Some(Version(1)));
        assert_eq!(ks.state(b"s", NOW).unwrap().unwrap().text().unwrap(), "\"x\"");
    }

    #[test]
    fn a_state_that_is_expired_at_once_is_not_stored() {
        let mut ks = Keyspace::in_memory();
        ks.apply(b"n", &count(Ttl::Ms(0)), NOW).unwrap();
        assert_eq!((ks.revision(), ks.len()), (Revision::ZERO, 0));
        ks.apply(b"n", &count(Ttl::Never), NOW).unwrap();
        ks.apply(b"n", &count(Ttl::Ms(0)), NOW).unwrap();
        assert_eq!((ks.revision(), ks.len()), (Revision(2), 0));
    }
}
