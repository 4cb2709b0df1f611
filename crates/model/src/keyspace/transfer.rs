//! Keys that move to another node of a cluster: as effects without id and revision, with their version and expiry.
//!
//! It touches nothing but the keyspace. Invariants: a key that was exported and imported elsewhere has the same version, expiry and
//! value there; importing it again changes nothing but the revision. Neither looks at a clock: what is expired travels, and expires there.

use keystead_core::key::check_size;
use keystead_core::{Code, Error, Millis, Result, Revision, Version};

use super::Keyspace;
use super::facts::{apply_fact, each_fact, kind_of};
use super::replay::empty_value;
use crate::Bytes;
use crate::effect::{Effect, Fact};

impl Keyspace {
    /// The effects that make up a key, or its deletion if it does not exist.
    ///
    /// # Errors
    /// The error of the archive, for an evicted value.
    pub fn export(&mut self, key: &Bytes) -> Result<Vec<Effect>> {
        self.ready()?;
        let effect =
            |version, fact| Effect { id: 0, key: key.clone(), version, revision: Revision::ZERO, fact };
        let Some(id) = self.find_any(key)? else {
            self.see(self.revision);
            return Ok(vec![effect(Version::ZERO, Fact::Deleted)]);
        };
        self.load(id)?;
        let Some(entry) = self.table.get(id) else {
            return Ok(vec![effect(Version::ZERO, Fact::Deleted)]);
        };
        self.see(entry.revision);
        let (version, expires_at) = (entry.version, self.table.expires_at(id));
        let mut effects = Vec::new();
        each_fact(&entry.value, &mut |fact| effects.push(effect(version, fact)))?;
        if expires_at != Millis::NEVER {
            effects.push(effect(version, Fact::Expiry(expires_at)));
        }
        Ok(effects)
    }

    /// Puts a key as another keyspace has [exported](Keyspace::export) it, in place of what is under its name.
    ///
    /// # Errors
    /// `corrupt` when the effects are not those of one key; `too_large` when its name is; `out_of_memory`. Nothing changed then.
    pub fn import(&mut self, effects: &[Effect]) -> Result<()> {
        self.ready()?;
        let (key, version) = one_key(effects)?;
        check_size(key.len())?;
        if let [Effect { fact: Fact::Deleted, .. }] = effects {
            if let Some(id) = self.find_any(key)? {
                self.end(id);
            }
            return Ok(());
        }
        self.check_memory()?;
        let Some(kind) = effects.first().and_then(|effect| kind_of(&effect.fact)) else {
            return Err(not_one_key());
        };
        let (mut value, mut expires_at) = (empty_value(kind), Millis::NEVER);
        for effect in effects {
            match &effect.fact {
                Fact::Expiry(at) => expires_at = *at,
                fact if kind_of(fact) == Some(kind) => apply_fact(&mut value, fact),
                _ => return Err(not_one_key()),
            }
        }
        // Replaced as a whole: of what was there, nothing may be left.
        if let Some(id) = self.find_any(key)? {
            self.end(id);
        }
        let id = self.add(key, value);
        for effect in effects {
            if let Fact::Expiry(_) = effect.fact {
                self.put_expiry(id, expires_at);
            }
            self.record(id, version, effect.fact.clone());
        }
        Ok(())
    }
}

/// The name and version of the one key that all effects are about.
fn one_key(effects: &[Effect]) -> Result<(&Bytes, Version)> {
    let Some(Effect { key, version, .. }) = effects.first() else { return Err(not_one_key()) };
    let is_same = |effect: &Effect| effect.key == *key && effect.version == *version;
    match effects.iter().all(is_same) {
        true => Ok((key, *version)),
        false => Err(not_one_key()),
    }
}

fn not_one_key() -> Error {
    Error::new(Code::Corrupt, "these are not the effects of one key")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::keyspace::Expire;
    use crate::testing::{Shared, ops_by_name};
    use crate::value::Value;

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    fn shown(keys: &mut Keyspace) -> Vec<(Bytes, Version, Millis, Value)> {
        let dumps = keys.dump().unwrap().into_iter();
        dumps.map(|dump| (dump.key, dump.version, dump.expires_at, dump.value)).collect()
    }

    /// A keyspace without keys: in memory, or read on demand.
    fn keyspace(is_on_demand: bool) -> Keyspace {
        if is_on_demand { Shared::with_keyspace().1 } else { Keyspace::in_memory() }
    }

    /// Fields and members have no order, and rows have another one than memory.
    fn unordered(effects: &[Effect]) -> Vec<String> {
        let mut shown: Vec<String> = effects.iter().map(|effect| format!("{effect:?}")).collect();
        shown.sort_unstable();
        shown
    }

    /// What was read on demand is dropped, as when an object has slept.
    fn forget(keys: &mut Keyspace) {
        keys.write_rows().unwrap();
        keys.shrink(0);
    }

    proptest! {
        /// Keys of all kinds, some of them expired, replace what was under their names.
        #[test]
        fn what_is_exported_and_imported_is_the_same_key(
            ops in ops_by_name(60),
            others in ops_by_name(20),
            on_demand in any::<(bool, bool)>(),
        ) {
            let (mut from, mut to) = (keyspace(on_demand.0), keyspace(on_demand.1));
            let (mut now, mut other_now) = (NOW, NOW);
            ops.iter().for_each(|op| op.run(&mut from, &mut now));
            others.iter().for_each(|op| op.run(&mut to, &mut other_now));
            let names = |keys: &mut Keyspace| keys.dump().unwrap().into_iter().map(|dump| dump.key);
            let all: BTreeSet<Bytes> = names(&mut from).chain(names(&mut to)).collect();
            for _ in 0..2 {
                for name in &all {
                    forget(&mut from);
                    let effects = from.export(name).unwrap();
                    to.import(&effects).unwrap();
                    forget(&mut to);
                    prop_assert_eq!(unordered(&to.export(name).unwrap()), unordered(&effects));
                }
            }
            prop_assert_eq!(shown(&mut to), shown(&mut from));
            to.check().unwrap();
            let mut replayed = Keyspace::in_memory();
            for effect in to.effects() {
                replayed.apply_effect(effect).unwrap();
            }
            prop_assert_eq!(shown(&mut replayed), shown(&mut to));
        }
    }

    #[test]
    fn a_deletion_travels_and_a_rollback_leaves_nothing() {
        for is_on_demand in [false, true] {
            let mut keys = keyspace(is_on_demand);
            keys.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap();
            let before = keys.dump().unwrap();
            forget(&mut keys);
            let mut other = keyspace(is_on_demand);
            other.set_str(b"a", bytes("2"), Expire::At(Millis(5000)), NOW).unwrap();
            keys.savepoint();
            keys.import(&other.export(&bytes("a")).unwrap()).unwrap();
            keys.import(&other.export(&bytes("absent")).unwrap()).unwrap();
            keys.rollback();
            assert_eq!(keys.dump().unwrap(), before);
            other.delete(b"a", NOW).unwrap();
            keys.import(&other.export(&bytes("a")).unwrap()).unwrap();
            assert_eq!(keys.dump().unwrap(), Vec::new());
            keys.check().unwrap();
        }
    }

    #[test]
    fn what_is_not_one_key_is_rejected_and_changes_nothing() {
        let mut keys = Keyspace::in_memory();
        let effect = |key: &str, fact| Effect {
            id: 0,
            key: bytes(key),
            version: Version(3),
            revision: Revision::ZERO,
            fact,
        };
        for effects in [
            vec![],
            vec![effect("a", Fact::Expiry(Millis(1)))],
            vec![effect("a", Fact::Str(bytes("1"))), effect("b", Fact::Str(bytes("1")))],
            vec![effect("a", Fact::Str(bytes("1"))), effect("a", Fact::SetMember(bytes("1")))],
            vec![effect("a", Fact::Str(bytes("1"))), effect("a", Fact::Deleted)],
            vec![effect("a", Fact::Flushed)],
        ] {
            assert_eq!(keys.import(&effects).unwrap_err().code(), Code::Corrupt);
        }
        assert!(keys.is_empty());
    }
}
