//! Evicted values: clean values that were dropped from memory and are read from the archive on access.
//!
//! It reads through the [`ValueReader`] it is given. Invariant: only a value whose last effect is archived is evicted, and any
//! change of an evicted value loads it first, so the archived value is current.

use keystead_core::table::Id;
use keystead_core::{Code, Error, Result};

use super::Keyspace;
use super::read::wrong_archived_kind;
use crate::value::{Kind, Value};

/// Unsuccessful rounds of the CLOCK hand after which an eviction stops until the next call.
const EVICT_ROUNDS_MAX: usize = 16;

/// Reads evicted values.
pub trait ValueReader: Send {
    /// Reads the value of the key with this row id.
    ///
    /// # Errors
    /// `corrupt` when it does not exist or is not of that kind, `store_unavailable` when it cannot be read.
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value>;
}

/// The reader of a keyspace that is never archived: nothing is evicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArchive;

impl ValueReader for NoArchive {
    fn fetch(&mut self, id: u32, kind: Kind) -> Result<Value> {
        Err(Error::new(
            Code::Internal,
            format!("the {kind} with id {id} is evicted, but there is no archive"),
        ))
    }
}

impl Keyspace {
    /// Evicts clean values, the least recently used first (CLOCK), until at most `budget_bytes` are used, and returns how
    /// many values it evicted. It may stop earlier; call it again then.
    pub fn evict(&mut self, budget_bytes: usize) -> usize {
        let (mut evicted, mut fruitless) = (0, 0);
        while self.used_bytes() > budget_bytes && fruitless < EVICT_ROUNDS_MAX && self.savepoint.is_none() {
            let archived = self.archived;
            let found =
                self.table.evictable(|_, entry| entry.revision <= archived && entry.value.mem_bytes() > 0);
            let Some(entry) = found.and_then(|id| self.table.get_mut(id)) else {
                fruitless += 1;
                continue;
            };
            let marker = Value::Evicted(entry.value.kind());
            let value = std::mem::replace(&mut entry.value, marker);
            self.used_bytes -= value.mem_bytes();
            self.garbage.put_value(value);
            (evicted, fruitless) = (evicted + 1, 0);
        }
        evicted
    }

    /// Whether there is a key at `id` with an evicted value of this kind.
    #[must_use]
    pub fn is_evicted(&self, id: Id, kind: Kind) -> bool {
        self.table.get(id).is_some_and(|entry| matches!(entry.value, Value::Evicted(of) if of == kind))
    }

    /// Loads the value at `id` into memory.
    #[inline]
    pub(super) fn load(&mut self, id: Id) -> Result<()> {
        match self.table.get(id) {
            Some(entry) if matches!(entry.value, Value::Evicted(_)) => self.fetch(id),
            _ => Ok(()),
        }
    }

    #[cold]
    fn fetch(&mut self, id: Id) -> Result<()> {
        let Some(entry) = self.table.get_mut(id) else {
            return Ok(());
        };
        let kind = entry.value.kind();
        let value = match &mut self.on_demand {
            None => self.archive.fetch(id, kind)?,
            Some(on_demand) => on_demand.fetch(id, kind)?,
        };
        if value.kind() != kind || matches!(value, Value::Evicted(_)) {
            return Err(wrong_archived_kind());
        }
        self.used_bytes += value.mem_bytes();
        entry.value = value;
        self.watch_fields(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Millis, Revision};

    use super::*;
    use crate::Bytes;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1000);

    /// Has one string, and can be made unavailable.
    struct OneString {
        down: bool,
    }

    impl ValueReader for OneString {
        fn fetch(&mut self, _id: u32, _kind: Kind) -> Result<Value> {
            if self.down {
                return Err(Error::new(Code::StoreUnavailable, "down"));
            }
            Ok(Value::Str(Bytes::from(&[b'v'; 100][..]).into()))
        }
    }

    fn with_one_string(down: bool) -> Keyspace {
        let mut ks = Keyspace::new(Box::new(OneString { down }));
        ks.set_str(b"a", Bytes::from(&[b'v'; 100][..]), Expire::Keep, NOW).unwrap();
        ks
    }

    #[test]
    fn only_archived_values_are_evicted() {
        let mut ks = with_one_string(false);
        assert_eq!(ks.evict(0), 0);
        ks.set_archived(Revision(1));
        let full = ks.used_bytes();
        assert_eq!(ks.evict(full), 0, "it fits already");
        assert_eq!(ks.evict(0), 1);
        assert!(ks.used_bytes() < full);
        assert_eq!(ks.kind(b"a", NOW).unwrap(), Some(Kind::Str), "the kind is known without the value");
        assert_eq!(ks.str(b"a", NOW).unwrap().map(|value| value.len()), Some(100));
        assert_eq!(ks.used_bytes(), full);
        ks.check().unwrap();
    }

    #[test]
    fn a_value_that_cannot_be_read_is_an_error_and_can_be_overwritten() {
        let mut ks = with_one_string(true);
        ks.set_archived(Revision(1));
        ks.evict(0);
        let miss = ks.str(b"a", NOW).unwrap_err();
        assert_eq!(Error::from(miss).code(), Code::StoreUnavailable);
        ks.set_str(b"a", Bytes::from(b"new"), Expire::Keep, NOW).unwrap();
        assert_eq!(ks.str(b"a", NOW).unwrap().map(|value| &**value), Some(&b"new"[..]));
    }

    #[test]
    fn a_value_of_another_kind_is_corrupt() {
        let mut ks = Keyspace::new(Box::new(OneString { down: false }));
        ks.hash_mut(b"h", NOW).unwrap().set(&Bytes::from(b"f"), &Bytes::from(b"v"));
        ks.set_archived(Revision(1));
        ks.evict(0);
        assert_eq!(Error::from(ks.hash(b"h", NOW).unwrap_err()).code(), Code::Corrupt);
    }
}
