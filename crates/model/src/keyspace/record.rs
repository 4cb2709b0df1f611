//! What a job records: effects, how many bytes they are, and which of them a later one makes needless.
//!
//! It touches nothing but the keyspace. Between a savepoint and its end nobody else looks, so of the states and strings that
//! a key had meanwhile only the last is told, and only the first is kept as a before-image. A state is made a text when
//! anything but a step is next: a large one would else cost each of many steps that much. Invariants: every effect has its
//! own revision, and those of a job follow each other; a job that records more than it may records nothing further, finds no
//! key any more, and cannot be released.

use keystead_core::table::Id;
use keystead_core::{AnyState, Code, Error, Result};

use super::Keyspace;
use super::undo::Savepoint;
use crate::Bytes;
use crate::effect::{Effect, Fact};
use crate::value::{StateCell, Value};

impl Keyspace {
    /// Sets how many bytes a job may record between a savepoint and its release. There is no bound at first.
    pub fn set_change_bytes_max(&mut self, bytes: usize) {
        self.change_bytes_max = bytes;
    }

    /// Refuses when more was recorded since the savepoint than may be.
    #[inline]
    pub(super) fn within_bounds(&self) -> Result<()> {
        match &self.savepoint {
            Some(savepoint) if savepoint.over || savepoint.bytes > self.change_bytes_max => {
                Err(too_large(self.change_bytes_max, savepoint.bytes))
            }
            _ => Ok(()),
        }
    }

    /// What anything but a step begins with: what steps have left untold is told, and a job over its bound goes no further.
    #[inline]
    pub(super) fn ready(&mut self) -> Result<()> {
        if !self.late.is_empty() {
            self.catch_up()?;
        }
        self.within_bounds()
    }

    /// Tells the present state of every key whose effect tells an earlier one.
    #[cold]
    fn catch_up(&mut self) -> Result<()> {
        let late = std::mem::take(&mut self.late);
        let told = late.iter().try_for_each(|id| self.tell_state(*id));
        if told.is_err() {
            // Whoever goes on in spite of it comes back here, at the latest when the job is to be kept.
            self.late = late;
        }
        told
    }

    fn tell_state(&mut self, id: Id) -> Result<()> {
        // A key that is gone has told so meanwhile, and nobody misses its last state.
        let (Some(at), Some(entry)) = (self.told_whole(id), self.table.get(id)) else { return Ok(()) };
        let Value::State(cell) = &entry.value else { return Ok(()) };
        let fact = Fact::State(Bytes::from(cell.text()?.as_bytes()));
        let effect = Effect { version: entry.version, fact, ..self.effects[at].clone() };
        self.tell_instead(at, effect);
        Ok(())
    }

    /// Puts a state that is told later, if an effect of the present job can tell it. It is given back if not.
    pub(super) fn put_late(&mut self, id: Id, state: AnyState) -> Option<AnyState> {
        if !self.told_whole(id).is_some_and(|at| matches!(self.effects[at].fact, Fact::State(_))) {
            return Some(state);
        }
        let version = self.next_version(id);
        self.swap_value(id, Value::State(StateCell::Native(state)));
        if let Some(entry) = self.table.get_mut(id) {
            entry.version = version;
        }
        self.late.insert(id);
        None
    }

    /// Records a fact about the key at `id`, which carries `version` from now on.
    pub(super) fn record(&mut self, id: Id, version: u64, fact: Fact) {
        let Some(key) = self.table.key(id).cloned() else {
            return;
        };
        let place = self.told_whole(id).filter(|at| self.is_needless(*at, &fact));
        let revision = match place {
            Some(at) => self.effects[at].revision,
            None => self.revision + 1,
        };
        if let Some(entry) = self.table.get_mut(id) {
            (entry.version, entry.revision) = (version, revision);
        }
        let effect = Effect { id, key, version, revision, fact };
        match place {
            Some(at) => self.tell_instead(at, effect),
            None => self.tell(effect),
        }
    }

    /// Adds an effect, which has the next revision.
    pub(super) fn tell(&mut self, effect: Effect) {
        self.revision = effect.revision;
        self.see(effect.revision);
        if let Some(savepoint) = &mut self.savepoint {
            savepoint.bytes += effect.size_hint();
            if savepoint.bytes > self.change_bytes_max {
                // The job will be undone, and what it did until then is known without its effects.
                savepoint.over = true;
                return;
            }
        }
        self.effects.push(effect);
    }

    /// Puts an effect in the place of one that it makes needless.
    fn tell_instead(&mut self, at: usize, effect: Effect) {
        if let Some(savepoint) = &mut self.savepoint {
            let without = savepoint.bytes - self.effects[at].size_hint();
            savepoint.bytes = without + effect.size_hint();
        }
        self.effects[at] = effect;
    }

    /// Where the last effect of the key at `id` stands, if it is of the present job and tells a whole state or string.
    ///
    /// Until then the value itself is known to nobody, and what was there before the job is kept already.
    pub(super) fn told_whole(&self, id: Id) -> Option<usize> {
        let savepoint = self.savepoint.as_ref().filter(|savepoint| !savepoint.moved)?;
        let at = savepoint.place_of(self.table.get(id)?.revision)?;
        let effect = self.effects.get(at)?;
        (effect.id == id && matches!(effect.fact, Fact::State(_) | Fact::Str(_))).then_some(at)
    }

    /// Whether nobody misses the effect at `at`, the last of its key, once `fact` is told.
    fn is_needless(&self, at: usize, fact: &Fact) -> bool {
        match (&self.effects[at].fact, fact) {
            (Fact::State(_), Fact::State(_)) => true,
            // Whoever watches is shown a string with the expiry that follows it, so it stays beside its own.
            (Fact::Str(_), Fact::Str(_)) => at + 1 == self.effects.len(),
            _ => false,
        }
    }
}

impl Savepoint {
    /// Where the effect with this revision stands, if it came after the savepoint.
    fn place_of(&self, revision: u64) -> Option<usize> {
        let after = revision.checked_sub(self.revision)?.checked_sub(1)?;
        Some(self.effects + usize::try_from(after).ok()?)
    }

    /// Whether the key with this revision was changed after the savepoint.
    pub(super) fn is_before(&self, revision: u64) -> bool {
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

    fn told(ks: &Keyspace) -> Vec<(&[u8], u64, u64, &Fact)> {
        ks.effects().iter().map(|e| (&e.key[..], e.version, e.revision, &e.fact)).collect()
    }

    /// Applying what was recorded again gives the same keys.
    fn replayed(ks: &mut Keyspace) {
        let mut again = Keyspace::in_memory();
        ks.effects().iter().for_each(|effect| again.apply_effect(effect).unwrap());
        assert_eq!((again.dump().unwrap(), again.revision()), (ks.dump().unwrap(), ks.revision()));
        ks.check().unwrap();
    }

    #[test]
    fn many_steps_on_a_key_tell_and_keep_one_state() {
        let mut ks = Keyspace::in_memory();
        ks.apply(b"a", &grow(), NOW).unwrap();
        let before = (ks.dump().unwrap(), ks.effects().to_vec());
        ks.savepoint();
        for _ in 0..100 {
            ks.apply(b"a", &grow(), NOW).unwrap();
            ks.apply(b"b", &grow(), NOW).unwrap();
        }
        // Anything but a step.
        assert!(!ks.exists(b"c", NOW).unwrap());
        let ones = |n: usize| Fact::State(bytes(&format!("[{}]", vec!["1"; n].join(","))));
        assert_eq!(
            told(&ks)[2..],
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
            "the stamp and the value of one, the other is new, has an expiry and a value"
        );
        replayed(&mut ks);
        ks.rollback();
        assert_eq!((ks.dump().unwrap(), ks.effects().to_vec()), before);
        ks.check().unwrap();
    }

    #[test]
    fn a_state_without_a_text_undoes_its_job_whatever_comes_next() {
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

    /// What was over the bound is not kept, so nothing may be kept, also where a state becomes smaller afterwards.
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
        // Over it, as long as the smaller state is not told.
        ks.apply(b"b", &of(1000), NOW).unwrap();
        assert_eq!(ks.exists(b"a", NOW).unwrap_err().code(), Code::TooLarge);
        let error = ks.release().unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
        assert_eq!(ks.dump().unwrap(), before);
    }

    #[test]
    fn a_key_that_ends_after_many_steps_is_gone_and_its_place_is_free() {
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
    fn a_string_is_told_once_unless_something_was_told_meanwhile() {
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
            told(&ks),
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
        assert_eq!((ks.len(), ks.revision(), ks.effects().len()), (0, 0, 0));
    }

    #[test]
    fn without_a_savepoint_or_before_it_nothing_is_left_out() {
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
    fn a_value_that_was_moved_goes_back_as_it_came() {
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
    fn a_job_over_the_bound_finds_nothing_more_and_is_undone() {
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
        for refused in [
            ks.set_str(b"b", bytes("1"), Expire::Keep, NOW).map(|_| ()),
            ks.apply(b"n", &grow(), NOW),
            ks.hash_mut(b"h", NOW).map(|_| ()).map_err(Error::from),
            ks.delete(b"a", NOW).map(|_| ()),
            ks.exists(b"a", NOW).map(|_| ()),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::TooLarge);
        }
        let error = ks.release().unwrap_err();
        assert!(error.message().starts_with("max change size exceeded. Limit: 1000 bytes"), "{error}");
        assert_eq!((ks.dump().unwrap(), ks.effects().to_vec()), before);
        ks.check().unwrap();

        ks.savepoint();
        ks.set_str(b"a", bytes("2"), Expire::Keep, NOW).unwrap();
        assert_eq!(ks.release().unwrap(), ks.effects()[1].size_hint(), "the next job goes on");
    }

    #[test]
    fn what_a_large_job_needed_is_given_back() {
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
