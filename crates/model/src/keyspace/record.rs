//! What a job records: effects, their size, and which of them a later one makes redundant.
//!
//! It touches nothing but the keyspace. Between a savepoint and its end no other job reads, so of the states and strings that
//! a key had meanwhile only the last is recorded, and only the first is stored as a before-image. A state is encoded
//! only before the next operation that is not a step: otherwise each of many steps would pay for encoding a large state.
//! Invariants: every effect has its own revision, and those of a job are consecutive; a job that exceeds its bound records
//! nothing further, its lookups fail, and it cannot be released.

use keystead_core::table::Id;
use keystead_core::{AnyState, Code, Error, Result, Revision, Version};

use super::Keyspace;
use super::undo::Savepoint;
use crate::Bytes;
use crate::effect::{Effect, Fact};
use crate::value::{StateCell, Value};

impl Keyspace {
    /// Sets how many bytes a job may record between a savepoint and its release. By default there is no bound.
    pub fn set_change_bytes_max(&mut self, bytes: usize) {
        self.change_bytes_max = bytes;
    }

    /// An error when more was recorded since the savepoint than the bound allows.
    #[inline]
    pub(super) fn within_bounds(&self) -> Result<()> {
        match &self.savepoint {
            Some(savepoint) if savepoint.over || savepoint.bytes > self.change_bytes_max => {
                Err(too_large(self.change_bytes_max, savepoint.bytes))
            }
            _ => Ok(()),
        }
    }

    /// Every operation except a step begins with this: it records states that steps have deferred, and fails for a job
    /// over its bound.
    #[inline]
    pub(super) fn ready(&mut self) -> Result<()> {
        if !self.deferred.is_empty() {
            self.catch_up()?;
        }
        self.within_bounds()
    }

    /// Records the current state of every key whose effect has an earlier one.
    #[cold]
    fn catch_up(&mut self) -> Result<()> {
        let deferred = std::mem::take(&mut self.deferred);
        let recorded = deferred.iter().try_for_each(|id| self.record_state(*id));
        if recorded.is_err() {
            // If the caller goes on in spite of the error, this is retried, at the latest when the job is released.
            self.deferred = deferred;
        }
        recorded
    }

    fn record_state(&mut self, id: Id) -> Result<()> {
        // The deletion of a key was recorded meanwhile, so its last state is not needed.
        let (Some(at), Some(entry)) = (self.whole_effect(id), self.table.get(id)) else { return Ok(()) };
        let Value::State(cell) = &entry.value else { return Ok(()) };
        let fact = Fact::State(Bytes::from(cell.text()?.as_bytes()));
        let effect = Effect { version: entry.version, fact, ..self.effects[at].clone() };
        self.replace_effect(at, effect);
        Ok(())
    }

    /// Puts a state that is recorded later, if an effect of the current job can take it. Returns it if not.
    pub(super) fn put_deferred(&mut self, id: Id, state: AnyState) -> Option<AnyState> {
        if !self.whole_effect(id).is_some_and(|at| matches!(self.effects[at].fact, Fact::State(_))) {
            return Some(state);
        }
        let version = self.next_version(id);
        self.swap_value(id, Value::State(StateCell::Native(state)));
        if let Some(entry) = self.table.get_mut(id) {
            entry.version = version;
        }
        self.deferred.insert(id);
        None
    }

    /// Records a fact about the key at `id`, whose version is `version` from now on.
    pub(super) fn record(&mut self, id: Id, version: Version, fact: Fact) {
        let Some(key) = self.table.key(id).cloned() else {
            return;
        };
        let redundant = self.whole_effect(id).filter(|at| self.is_redundant(*at, &fact));
        let revision = match redundant {
            Some(at) => self.effects[at].revision,
            None => self.revision.next(),
        };
        if let Some(entry) = self.table.get_mut(id) {
            (entry.version, entry.revision) = (version, revision);
        }
        let effect = Effect { id: self.row_of(id), key, version, revision, fact };
        match redundant {
            Some(at) => self.replace_effect(at, effect),
            None => self.push_effect(effect),
        }
    }

    /// Adds an effect, which gets the next revision.
    pub(super) fn push_effect(&mut self, effect: Effect) {
        self.revision = effect.revision;
        self.see(effect.revision);
        if let Some(savepoint) = &mut self.savepoint {
            savepoint.bytes += effect.size_hint();
            if savepoint.bytes > self.change_bytes_max {
                // The job will be rolled back, and its before-images are enough for that.
                savepoint.over = true;
                return;
            }
        }
        self.effects.push(effect);
    }

    /// Replaces an effect that is redundant.
    fn replace_effect(&mut self, at: usize, effect: Effect) {
        if let Some(savepoint) = &mut self.savepoint {
            let without = savepoint.bytes - self.effects[at].size_hint();
            savepoint.bytes = without + effect.size_hint();
        }
        self.effects[at] = effect;
    }

    /// The index of the last effect of the key at `id`, if it is of the current job and has a whole state or string.
    ///
    /// No other job has seen that value, and the value from before the job is stored as a before-image already.
    pub(super) fn whole_effect(&self, id: Id) -> Option<usize> {
        let savepoint = self.savepoint.as_ref().filter(|savepoint| !savepoint.moved)?;
        let at = savepoint.index_of(self.table.get(id)?.revision)?;
        let effect = self.effects.get(at)?;
        let may_replace = self.on_demand.as_ref().is_none_or(|on_demand| on_demand.may_replace(at));
        (effect.id == self.row_of(id) && may_replace && matches!(effect.fact, Fact::State(_) | Fact::Str(_)))
            .then_some(at)
    }

    /// Whether the effect at `at`, the last of its key, is redundant once `fact` is recorded.
    fn is_redundant(&self, at: usize, fact: &Fact) -> bool {
        match (&self.effects[at].fact, fact) {
            (Fact::State(_), Fact::State(_)) => true,
            // Watchers get a string together with the expiry that follows it, so it stays beside its own.
            (Fact::Str(_), Fact::Str(_)) => at + 1 == self.effects.len(),
            _ => false,
        }
    }
}

impl Savepoint {
    /// The index of the effect with this revision, if it was recorded after the savepoint.
    fn index_of(&self, revision: Revision) -> Option<usize> {
        let after = revision.0.checked_sub(self.revision.0)?.checked_sub(1)?;
        Some(self.effects + usize::try_from(after).ok()?)
    }

    /// Whether this savepoint is before `revision`, so that the key with it was changed since.
    pub(super) fn is_before(&self, revision: Revision) -> bool {
        self.revision < revision
    }
}

#[cold]
fn too_large(most: usize, bytes: usize) -> Error {
    Error::new(
        Code::TooLarge,
        format!("max change size exceeded. Limit: {most} bytes, Actual: {bytes} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use keystead_core::{Change, Millis, Step, Ttl, step_fn};

    use super::*;
    use crate::keyspace::{BUFFER_KEPT, Expire};

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    /// A state that grows with each step.
    fn grow() -> impl Step<State = Vec<u64>, Reply = ()> {
        step_fn(|state: Option<&Vec<u64>>, _now| {
            let mut state = state.cloned().unwrap_or_default();
            state.push(1);
            Change::Put(state, Ttl::Ms(500), ())
        })
    }

    fn recorded(ks: &Keyspace) -> Vec<(&[u8], u64, u64, &Fact)> {
        ks.effects().iter().map(|e| (&e.key[..], e.version.0, e.revision.0, &e.fact)).collect()
    }

    /// Replaying what was recorded results in the same keys.
    fn replayed(ks: &mut Keyspace) {
        let mut again = Keyspace::in_memory();
        ks.effects().iter().for_each(|effect| again.apply_effect(effect).unwrap());
        assert_eq!((again.dump().unwrap(), again.revision()), (ks.dump().unwrap(), ks.revision()));
        ks.check().unwrap();
    }

    #[test]
    fn many_steps_on_a_key_record_one_state() {
        let mut ks = Keyspace::in_memory();
        ks.apply(b"a", &grow(), NOW).unwrap();
        let before = (ks.dump().unwrap(), ks.effects().to_vec());
        ks.savepoint();
        for _ in 0..100 {
            ks.apply(b"a", &grow(), NOW).unwrap();
            ks.apply(b"b", &grow(), NOW).unwrap();
        }
        // Any operation that is not a step.
        assert!(!ks.exists(b"c", NOW).unwrap());
        let ones = |n: usize| Fact::State(bytes(&format!("[{}]", vec!["1"; n].join(","))));
        assert_eq!(
            recorded(&ks)[2..],
            [
                (&b"a"[..], 101, 3, &ones(101)),
                (b"b", 1, 4, &ones(1)),
                (b"b", 1, 5, &Fact::Expiry(Millis(1500))),
                (b"b", 100, 6, &ones(100)),
            ]
        );
        assert_eq!(
            ks.undo.len(),
            5,
            "the stamp and the value of one; the other is new, has an expiry and a value"
        );
        replayed(&mut ks);
        ks.rollback();
        assert_eq!((ks.dump().unwrap(), ks.effects().to_vec()), before);
        ks.check().unwrap();
    }

    #[test]
    fn a_state_without_a_text_form_rolls_its_job_back() {
        let mut ks = Keyspace::in_memory();
        let long = step_fn(|_: Option<&Vec<u64>>, _now| {
            Change::Put(vec![1; keystead_core::bounds::STATE_BYTES_MAX], Ttl::Same, ())
        });
        ks.apply(b"a", &grow(), NOW).unwrap();
        let before = (ks.dump().unwrap(), ks.effects().to_vec());
        ks.savepoint();
        ks.apply(b"a", &grow(), NOW).unwrap();
        ks.apply(b"a", &long, NOW).unwrap();
        assert_eq!(ks.exists(b"b", NOW).unwrap_err().code(), Code::TooLarge);
        ks.apply(b"b", &grow(), NOW).unwrap();
        assert_eq!(ks.release().unwrap_err().code(), Code::TooLarge);
        assert_eq!((ks.dump().unwrap(), ks.effects().to_vec()), before);
        ks.check().unwrap();
    }

    /// What was over the bound is not recorded, so nothing may be kept, also where a state becomes smaller afterwards.
    #[test]
    fn a_job_that_was_over_its_bound_stays_over_it() {
        let mut ks = Keyspace::in_memory();
        let of =
            |len: usize| step_fn(move |_: Option<&Vec<u64>>, _now| Change::Put(vec![1; len], Ttl::Never, ()));
        ks.set_change_bytes_max(5000);
        let before = ks.dump().unwrap();
        ks.savepoint();
        ks.apply(b"a", &of(2000), NOW).unwrap();
        ks.apply(b"a", &of(1), NOW).unwrap();
        // Over it, as long as the smaller state is not recorded.
        ks.apply(b"b", &of(1000), NOW).unwrap();
        assert_eq!(ks.exists(b"a", NOW).unwrap_err().code(), Code::TooLarge);
        let error = ks.release().unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
        assert_eq!(ks.dump().unwrap(), before);
    }

    #[test]
    fn a_key_deleted_after_many_steps_frees_its_id() {
        let mut ks = Keyspace::in_memory();
        let delete = step_fn(|_: Option<&Vec<u64>>, _now| Change::<Vec<u64>, ()>::Delete(()));
        ks.savepoint();
        for _ in 0..3 {
            ks.apply(b"a", &grow(), NOW).unwrap();
        }
        ks.apply(b"a", &delete, NOW).unwrap();
        for _ in 0..3 {
            ks.apply(b"b", &grow(), NOW).unwrap();
        }
        ks.release().unwrap();
        assert_eq!(ks.state(b"b", NOW).unwrap().unwrap().text().unwrap(), "[1,1,1]");
        replayed(&mut ks);
    }

    #[test]
    fn a_string_is_recorded_once_unless_another_fact_follows_it() {
        let mut ks = Keyspace::in_memory();
        ks.savepoint();
        let set = |ks: &mut Keyspace, key: &[u8], value: &str, expire: Expire| {
            ks.set_str(key, bytes(value), expire, NOW).unwrap();
        };
        for value in ["1", "2", "3"] {
            set(&mut ks, b"a", value, Expire::Keep);
        }
        set(&mut ks, b"b", "1", Expire::Keep);
        set(&mut ks, b"a", "4", Expire::At(Millis(2000)));
        set(&mut ks, b"a", "5", Expire::Keep);
        let str = |text: &str| Fact::Str(bytes(text));
        assert_eq!(
            recorded(&ks),
            [
                (&b"a"[..], 3, 1, &str("3")),
                (b"b", 1, 2, &str("1")),
                (b"a", 4, 3, &str("4")),
                (b"a", 4, 4, &Fact::Expiry(Millis(2000))),
                (b"a", 5, 5, &str("5")),
            ]
        );
        replayed(&mut ks);
        ks.rollback();
        assert_eq!((ks.len(), ks.revision(), ks.effects().len()), (0, Revision::ZERO, 0));
    }

    #[test]
    fn without_a_savepoint_or_before_it_nothing_is_omitted() {
        let mut ks = Keyspace::in_memory();
        for _ in 0..2 {
            ks.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap();
        }
        ks.savepoint();
        ks.set_str(b"a", bytes("2"), Expire::Keep, NOW).unwrap();
        ks.release().unwrap();
        ks.savepoint();
        ks.set_str(b"a", bytes("3"), Expire::Keep, NOW).unwrap();
        ks.release().unwrap();
        assert_eq!(ks.effects().len(), 4);
        replayed(&mut ks);
    }

    #[test]
    fn a_moved_value_is_rolled_back_unchanged() {
        let mut ks = Keyspace::in_memory();
        ks.apply(b"a", &grow(), NOW).unwrap();
        ks.set_str(b"s", bytes("s"), Expire::Keep, NOW).unwrap();
        let before = ks.dump().unwrap();
        ks.savepoint();
        ks.rename(b"a", b"b", true, NOW).unwrap();
        ks.apply(b"b", &grow(), NOW).unwrap();
        ks.rename(b"s", b"t", true, NOW).unwrap();
        ks.set_str(b"t", bytes("t"), Expire::Keep, NOW).unwrap();
        replayed(&mut ks);
        ks.rollback();
        assert_eq!(ks.dump().unwrap(), before);
        ks.check().unwrap();
    }

    #[test]
    fn a_job_over_the_bound_fails_and_is_rolled_back() {
        let mut ks = Keyspace::in_memory();
        ks.set_change_bytes_max(1000);
        ks.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap();
        let before = (ks.dump().unwrap(), ks.effects().to_vec());
        ks.savepoint();
        ks.set_str(b"a", bytes(&"x".repeat(850)), Expire::Keep, NOW).unwrap();
        ks.set_str(b"a", bytes(&"y".repeat(850)), Expire::Keep, NOW).unwrap();
        let mut hash = ks.hash_mut(b"h", NOW).unwrap();
        for n in 0..100 {
            hash.set(&bytes(&n.to_string()), &bytes("v"));
        }
        drop(hash);
        assert_eq!(ks.effects().len(), 2, "nothing was recorded beyond the bound");
        for rejected in [
            ks.set_str(b"b", bytes("1"), Expire::Keep, NOW).map(|_| ()),
            ks.apply(b"n", &grow(), NOW),
            ks.hash_mut(b"h", NOW).map(|_| ()).map_err(Error::from),
            ks.delete(b"a", NOW).map(|_| ()),
            ks.exists(b"a", NOW).map(|_| ()),
        ] {
            assert_eq!(rejected.unwrap_err().code(), Code::TooLarge);
        }
        let error = ks.release().unwrap_err();
        assert!(error.message().starts_with("max change size exceeded. Limit: 1000 bytes"), "{error}");
        assert_eq!((ks.dump().unwrap(), ks.effects().to_vec()), before);
        ks.check().unwrap();

        ks.savepoint();
        ks.set_str(b"a", bytes("2"), Expire::Keep, NOW).unwrap();
        assert_eq!(ks.release().unwrap(), ks.effects()[1].size_hint(), "the next job works again");
    }

    #[test]
    fn memory_of_a_large_job_is_freed() {
        let mut ks = Keyspace::in_memory();
        let fill = |ks: &mut Keyspace| {
            ks.savepoint();
            for n in 0..3 * BUFFER_KEPT {
                ks.set_str(format!("k{n}").as_bytes(), bytes("v"), Expire::Keep, NOW).unwrap();
            }
        };
        fill(&mut ks);
        ks.rollback();
        assert_eq!((ks.effects.capacity(), ks.undo.capacity()), (BUFFER_KEPT, BUFFER_KEPT));
        fill(&mut ks);
        ks.release().unwrap();
        assert_eq!(ks.undo.capacity(), BUFFER_KEPT);
        let mut effects = Vec::new();
        ks.take_effects(&mut effects);
        ks.take_effects(&mut effects);
        ks.take_effects(&mut effects);
        assert_eq!(effects.capacity(), BUFFER_KEPT);
    }
}
