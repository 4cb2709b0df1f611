//! Whole values: strings, documents, states, and collections that are put as a whole.
//!
//! It touches nothing but the keyspace. Invariant: overwriting continues the version, whatever kind the key held before; the
//! fact that the kind has changed comes before the new content.

use keystead_core::key::check_size;
use keystead_core::table::Id;
use keystead_core::{Millis, Result, Version};

use super::Keyspace;
use super::facts::each_fact;
use super::read::Miss;
use crate::Bytes;
use crate::effect::Fact;
use crate::value::{Kind, StateCell, Str, Value};

/// The expiry of a key whose value is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// It stays; a new key never expires.
    Keep,
    /// The key expires then; [`Millis::NEVER`]: never.
    At(Millis),
}

impl Expire {
    fn after(self, before: Millis) -> Millis {
        match self {
            Expire::Keep => before,
            Expire::At(at) => at,
        }
    }
}

/// A value that was put and is not recorded yet.
struct Put {
    id: Id,
    version: Version,
    expires_at: Millis,
}

impl Keyspace {
    /// Puts a string and returns the key's version; 0 when it is expired at once and so not stored.
    ///
    /// # Errors
    /// `too_large` when the key is; when fields of a hash that is overwritten may have expired and it cannot be
    /// loaded. Nothing changed.
    pub fn set_str(&mut self, key: &[u8], value: Bytes, expire: Expire, now: Millis) -> Result<Version> {
        self.put(key, Value::Str(Str::from(&value)), Fact::Str(value), expire, now)
    }

    /// Passes the string under a key to `change`, puts the string it returns (`None`: nothing) and returns its result. The
    /// expiry stays. The key is looked up once.
    ///
    /// # Errors
    /// The error of `change`, [`Miss`], else as [`set_str`](Keyspace::set_str). Nothing changed.
    pub fn update_str<T, E: From<Miss>>(
        &mut self,
        key: &[u8],
        now: Millis,
        change: impl FnOnce(Option<&Str>) -> Result<(Option<Bytes>, T), E>,
    ) -> Result<T, E> {
        let id = self.find(key, now).map_err(Miss::from)?;
        let old = match id {
            Some(id) => Some(self.typed::<Str>(id)?),
            None => None,
        };
        let (new, result) = change(old)?;
        let Some(new) = new else { return Ok(result) };
        let value = Value::Str(Str::from(&new));
        let (id, version) = if let Some(id) = id {
            let version = self.next_version(id);
            self.swap_value(id, value);
            (id, version)
        } else {
            check_size(key.len()).map_err(Miss::from)?;
            (self.add(key, value), Version::FIRST)
        };
        self.record(id, version, Fact::Str(new));
        Ok(result)
    }

    /// Puts a document, as text.
    ///
    /// # Errors
    /// As [`set_str`](Keyspace::set_str).
    pub fn set_json(&mut self, key: &[u8], text: Bytes, expire: Expire, now: Millis) -> Result<Version> {
        self.put(key, Value::Json(text.clone()), Fact::Json(text), expire, now)
    }

    /// Puts the state of a step, as JSON text.
    ///
    /// # Errors
    /// As [`set_str`](Keyspace::set_str).
    pub fn set_state(&mut self, key: &[u8], text: &str, expire: Expire, now: Millis) -> Result<Version> {
        let fact = Fact::State(Bytes::from(text.as_bytes()));
        self.put(key, Value::State(StateCell::Text(text.into())), fact, expire, now)
    }

    /// Puts a value of any kind, replacing the old one. An empty collection (except for a stream) deletes the key.
    ///
    /// # Errors
    /// `internal` when the value is evicted, or is a state without a JSON form, else as [`set_str`](Keyspace::set_str).
    pub fn replace(&mut self, key: &[u8], value: Value, expire: Expire, now: Millis) -> Result<Version> {
        let facts = facts_of_whole(&value)?;
        if facts.is_empty() {
            self.delete(key, now)?;
            return Ok(Version::ZERO);
        }
        let whole = is_collection(value.kind());
        let Some(put) = self.put_value(key, value, whole, expire, now)? else {
            return Ok(Version::ZERO);
        };
        for fact in facts {
            self.record(put.id, put.version, fact);
        }
        self.record_expiry(&put);
        Ok(put.version)
    }

    fn put(&mut self, key: &[u8], value: Value, fact: Fact, expire: Expire, now: Millis) -> Result<Version> {
        let Some(put) = self.put_value(key, value, false, expire, now)? else {
            return Ok(Version::ZERO);
        };
        self.record(put.id, put.version, fact);
        self.record_expiry(&put);
        Ok(put.version)
    }

    /// Puts the value of a key that was looked up and does not exist.
    pub(super) fn put_new(
        &mut self,
        key: &[u8],
        value: Value,
        fact: Fact,
        expires_at: Millis,
        now: Millis,
    ) -> Result<()> {
        check_size(key.len())?;
        if expires_at > now {
            let put = Put { id: self.add(key, value), version: Version::FIRST, expires_at };
            self.record(put.id, put.version, fact);
            self.record_expiry(&put);
        }
        Ok(())
    }

    /// Puts the value, and records that it is fresh if its kind is another one or it is put `whole`. `None`
    /// when it would be expired at once.
    fn put_value(
        &mut self,
        key: &[u8],
        value: Value,
        whole: bool,
        expire: Expire,
        now: Millis,
    ) -> Result<Option<Put>> {
        check_size(key.len())?;
        if matches!(expire, Expire::At(at) if at <= now) {
            self.delete(key, now)?;
            return Ok(None);
        }
        let Some(id) = self.find(key, now)? else {
            let id = self.add(key, value);
            return Ok(Some(Put { id, version: Version::FIRST, expires_at: expire.after(Millis::NEVER) }));
        };
        let kind = value.kind();
        let fresh = whole || self.expect_kind(id, kind).is_err();
        let expires_at = expire.after(self.table.expires_at(id));
        let version = self.next_version(id);
        self.swap_value(id, value);
        if fresh {
            // A fresh value never expires, so an expiry that stays is recorded again.
            self.put_expiry(id, Millis::NEVER);
            self.record(id, version, Fact::Fresh(kind));
        }
        Ok(Some(Put { id, version, expires_at }))
    }

    fn record_expiry(&mut self, put: &Put) {
        if put.expires_at != self.table.expires_at(put.id) {
            self.put_expiry(put.id, put.expires_at);
            self.record(put.id, put.version, Fact::Expiry(put.expires_at));
        }
    }

    /// Adds a key that was looked up and is absent or expired.
    pub(super) fn create(&mut self, key: &[u8], value: Value) -> Id {
        if let Some(expired) = self.table.find(key) {
            self.end(expired);
        }
        self.add(key, value)
    }
}

fn facts_of_whole(value: &Value) -> Result<Vec<Fact>> {
    let mut facts = Vec::new();
    each_fact(value, &mut |fact| facts.push(fact))?;
    Ok(facts)
}

const fn is_collection(kind: Kind) -> bool {
    matches!(kind, Kind::Hash | Kind::List | Kind::Set | Kind::ZSet | Kind::Stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Hash, Set};

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    fn facts(ks: &mut Keyspace) -> Vec<(u64, Fact)> {
        let mut effects = Vec::new();
        ks.take_effects(&mut effects);
        effects.into_iter().map(|effect| (effect.version.0, effect.fact)).collect()
    }

    #[test]
    fn versions_start_at_one_and_continue_when_overwritten() {
        let mut ks = Keyspace::in_memory();
        assert_eq!(ks.set_str(b"a", bytes("1"), Expire::Keep, NOW).unwrap(), Version(1));
        assert_eq!(ks.set_json(b"a", bytes("{}"), Expire::Keep, NOW).unwrap(), Version(2));
        ks.delete(b"a", NOW).unwrap();
        assert_eq!(ks.set_state(b"a", "1", Expire::Keep, NOW).unwrap(), Version(1));
        assert_eq!(
            facts(&mut ks),
            [
                (1, Fact::Str(bytes("1"))),
                (2, Fact::Fresh(Kind::Json)),
                (2, Fact::Json(bytes("{}"))),
                (3, Fact::Deleted),
                (1, Fact::State(bytes("1"))),
            ]
        );
    }

    #[test]
    fn an_expiry_is_kept_set_or_removed() {
        let mut ks = Keyspace::in_memory();
        let expires_at = |ks: &mut Keyspace| ks.expires_at(b"a", NOW).unwrap();
        ks.set_str(b"a", bytes("1"), Expire::At(Millis(2000)), NOW).unwrap();
        ks.set_str(b"a", bytes("2"), Expire::Keep, NOW).unwrap();
        assert_eq!(expires_at(&mut ks), Some(Millis(2000)));
        facts(&mut ks);
        ks.set_json(b"a", bytes("3"), Expire::Keep, NOW).unwrap();
        assert_eq!(expires_at(&mut ks), Some(Millis(2000)));
        let recorded = [Fact::Fresh(Kind::Json), Fact::Json(bytes("3")), Fact::Expiry(Millis(2000))];
        assert_eq!(facts(&mut ks), recorded.map(|fact| (3, fact)));
        ks.set_json(b"a", bytes("4"), Expire::At(Millis::NEVER), NOW).unwrap();
        assert_eq!(expires_at(&mut ks), Some(Millis::NEVER));
        assert_eq!(ks.set_json(b"a", bytes("5"), Expire::At(NOW), NOW).unwrap(), Version(0));
        assert_eq!(expires_at(&mut ks), None);
        assert_eq!(facts(&mut ks).last(), Some(&(5, Fact::Deleted)));
    }

    #[test]
    fn a_put_over_an_expired_key_is_a_new_key() {
        let mut ks = Keyspace::in_memory();
        ks.set_str(b"a", bytes("1"), Expire::At(Millis(2000)), NOW).unwrap();
        facts(&mut ks);
        assert_eq!(ks.set_str(b"a", bytes("2"), Expire::Keep, Millis(2000)).unwrap(), Version(1));
        assert_eq!(facts(&mut ks), [(2, Fact::Deleted), (1, Fact::Str(bytes("2")))]);
        assert_eq!(ks.expires_at(b"a", Millis(2000)).unwrap(), Some(Millis::NEVER));
    }

    #[test]
    fn a_string_is_updated_from_the_one_before() {
        let mut ks = Keyspace::in_memory();
        let twice = |ks: &mut Keyspace, key: &[u8]| {
            ks.update_str(key, NOW, |old| {
                let old = old.map_or(bytes("-"), Str::to_bytes);
                let new = Bytes::concat_slices(&[&old, &old]);
                if new.len() > 4 { Err(Miss::WrongType(Kind::State)) } else { Ok((Some(new), old)) }
            })
        };
        assert_eq!(twice(&mut ks, b"a").unwrap(), bytes("-"));
        ks.set_expiry(b"a", Millis(2000), NOW).unwrap();
        assert_eq!(twice(&mut ks, b"a").unwrap(), bytes("--"));
        assert!(matches!(twice(&mut ks, b"a"), Err(Miss::WrongType(Kind::State))));
        assert!(matches!(twice(&mut ks, &vec![b'k'; 1 << 20]), Err(Miss::Failed(_))));
        assert_eq!(
            ks.update_str(b"a", NOW, |old| Ok::<_, Miss>((None, old.map(|old| old.len())))).unwrap(),
            Some(4)
        );
        ks.set_mut(b"s", NOW).unwrap().insert(&bytes("m"));
        assert!(matches!(twice(&mut ks, b"s"), Err(Miss::WrongType(Kind::Set))));
        let meta = ks.meta(b"a", NOW).unwrap().map(|meta| (meta.version.0, meta.expires_at));
        assert_eq!(meta, Some((3, Millis(2000))));
        assert_eq!((ks.effects().len(), ks.len()), (4, 2));
        ks.check().unwrap();
    }

    #[test]
    fn a_whole_collection_replaces_the_old_value() {
        let mut ks = Keyspace::in_memory();
        let mut set = Set::new();
        set.insert(&bytes("m"));
        for version in 1..=2 {
            assert_eq!(
                ks.replace(b"a", Value::Set(set.clone()), Expire::Keep, NOW).unwrap(),
                Version(version)
            );
        }
        assert_eq!(facts(&mut ks).len(), 3, "the first is new, the second is recorded as fresh");
        assert_eq!(ks.set(b"a", NOW).unwrap(), Some(&set));
        assert_eq!(ks.replace(b"a", Value::Hash(Hash::new()), Expire::Keep, NOW).unwrap(), Version::ZERO);
        assert!(!ks.exists(b"a", NOW).unwrap());
        ks.check().unwrap();
    }
}
