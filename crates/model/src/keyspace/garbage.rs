//! What was removed and takes long to free: its owner frees it later, elsewhere, while others are served.
//!
//! It touches nothing. Every value that leaves the keyspace passes here: deleted, overwritten, expired, evicted, flushed, and the
//! before-images of a job that was released or rolled back. Invariant: what is here is not counted any more and nobody reads it.

use keystead_core::table::Table;

use super::expiry::FieldClock;
use super::{Entry, INDEX_PARTS};
use crate::value::Value;

/// What has at least this size is freed later. Freeing less takes a few microseconds.
const LATER_BYTES_MIN: usize = 64 * 1024;

/// Something removed that takes long to free. Dropping it frees it, on any thread.
pub struct Garbage(#[expect(dead_code, reason = "it exists to be dropped")] Content);

enum Content {
    Value(#[expect(dead_code, reason = "it exists to be dropped")] Value),
    Table(#[expect(dead_code, reason = "it exists to be dropped")] Box<Table<Entry>>),
}

/// What waits to be freed.
#[derive(Default)]
pub(super) struct Bin {
    /// Whether somebody empties it; otherwise everything is freed at once.
    is_emptied: bool,
    waiting: Vec<Garbage>,
}

impl Bin {
    /// Frees a value, now or later.
    #[inline]
    pub(super) fn put_value(&mut self, value: Value) {
        if self.is_emptied && value.mem_bytes() >= LATER_BYTES_MIN {
            self.waiting.push(Garbage(Content::Value(value)));
        }
    }

    /// Frees a table of keys that used so many bytes, now or later.
    pub(super) fn put_table(&mut self, table: Table<Entry>, used_bytes: usize) {
        if self.is_emptied && used_bytes >= LATER_BYTES_MIN {
            self.waiting.push(Garbage(Content::Table(Box::new(table))));
        }
    }
}

impl super::Keyspace {
    /// Collects what takes long to free, for [`take_garbage`](super::Keyspace::take_garbage), instead of freeing it at once.
    pub fn collect_garbage(&mut self) {
        self.garbage.is_emptied = true;
    }

    /// Leaves all keys to be freed, and records nothing: for the end of a keyspace whose changes are elsewhere.
    pub fn discard(&mut self) {
        let table = std::mem::replace(&mut self.table, Table::new(INDEX_PARTS));
        (self.fields, self.entry_bytes) = (FieldClock::new(), 0);
        self.garbage.put_table(table, std::mem::take(&mut self.used_bytes));
    }

    /// What was removed since the last call and takes long to free.
    #[inline]
    pub fn take_garbage(&mut self) -> Vec<Garbage> {
        std::mem::take(&mut self.garbage.waiting)
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Millis, Revision};

    use crate::Bytes;
    use crate::keyspace::{Expire, Keyspace};

    const NOW: Millis = Millis(1000);

    fn large() -> Bytes {
        Bytes::from(vec![b'v'; 1 << 20])
    }

    fn with_large(key: &[u8]) -> Keyspace {
        let mut ks = Keyspace::in_memory();
        ks.collect_garbage();
        ks.set_str(key, large(), Expire::At(Millis(5000)), NOW).unwrap();
        ks
    }

    fn none(ks: &mut Keyspace) -> bool {
        ks.check().unwrap();
        ks.take_garbage().is_empty()
    }

    fn one(ks: &mut Keyspace) {
        ks.check().unwrap();
        assert_eq!(ks.take_garbage().len(), 1);
    }

    #[test]
    fn a_keyspace_that_ends_leaves_its_keys_to_be_freed() {
        let mut ks = with_large(b"a");
        let recorded = ks.effects().len();
        ks.discard();
        assert_eq!((ks.count(), ks.used_bytes(), ks.effects().len()), (0, 0, recorded));
        one(&mut ks);
    }

    /// Every way in which a value leaves, with and without a savepoint.
    #[test]
    fn whatever_removes_a_large_value_leaves_it_to_be_freed() {
        type Way = (&'static str, fn(&mut Keyspace));
        let ways: [Way; 6] = [
            ("delete", |ks| assert!(ks.delete(b"a", NOW).unwrap())),
            ("overwrite", |ks| {
                ks.set_str(b"a", Bytes::from(b"small"), Expire::Keep, NOW).unwrap();
            }),
            ("overwrite with a document", |ks| {
                ks.set_json(b"a", Bytes::from(b"1"), Expire::Keep, NOW).unwrap();
            }),
            ("rename", |ks| {
                ks.set_str(b"b", Bytes::from(b"small"), Expire::Keep, NOW).unwrap();
                ks.rename(b"b", b"a", true, NOW).unwrap();
            }),
            ("expire", |ks| assert!(ks.set_expiry(b"a", NOW, NOW).unwrap())),
            ("expire on access", |ks| {
                ks.set_str(b"a", Bytes::from(b"small"), Expire::Keep, Millis(5000)).unwrap();
            }),
        ];
        for (name, way) in ways {
            let mut ks = with_large(b"a");
            way(&mut ks);
            assert_eq!(ks.take_garbage().len(), 1, "{name}");
            let mut ks = with_large(b"a");
            ks.savepoint();
            way(&mut ks);
            assert!(none(&mut ks), "{name}: a rollback may need it");
            ks.release().unwrap();
            assert_eq!(ks.take_garbage().len(), 1, "{name} in a job");
            let mut ks = with_large(b"a");
            ks.savepoint();
            way(&mut ks);
            ks.rollback();
            assert!(none(&mut ks), "{name}: it is back");
            assert_eq!(ks.str(b"a", NOW).unwrap().map(|value| value.len()), Some(1 << 20), "{name}");
        }
    }

    #[test]
    fn expired_and_evicted_values_and_new_ones_of_a_rollback_too() {
        let mut ks = with_large(b"a");
        ks.reclaim(Millis(6000), &mut { 10 }).unwrap();
        one(&mut ks);
        let mut ks = with_large(b"a");
        ks.set_archived(Revision(9));
        assert_eq!(ks.evict(0), 1);
        one(&mut ks);
        let mut ks = with_large(b"a");
        ks.savepoint();
        ks.set_str(b"new", large(), Expire::Keep, NOW).unwrap();
        ks.rollback();
        one(&mut ks);
    }

    #[test]
    fn a_flush_leaves_its_table_unless_it_is_rolled_back() {
        let fill = |ks: &mut Keyspace| {
            for n in 0..1000 {
                ks.set_str(format!("k{n}").as_bytes(), Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
            }
        };
        let mut ks = with_large(b"a");
        fill(&mut ks);
        ks.flush();
        one(&mut ks);
        fill(&mut ks);
        ks.savepoint();
        ks.flush();
        fill(&mut ks);
        assert!(none(&mut ks));
        ks.rollback();
        assert!(none(&mut ks), "the keys since the flush were removed one by one");
        assert_eq!(ks.len(), 1000);
        ks.savepoint();
        ks.flush();
        ks.release().unwrap();
        one(&mut ks);
        assert_eq!((ks.len(), ks.used_bytes()), (0, 0));
        let mut ks = with_large(b"a");
        ks.flush();
        one(&mut ks);
    }

    #[test]
    fn small_values_and_keyspaces_that_nobody_empties_are_freed_at_once() {
        let mut ks = with_large(b"a");
        ks.set_str(b"b", Bytes::from(b"small"), Expire::Keep, NOW).unwrap();
        ks.delete(b"b", NOW).unwrap();
        assert!(none(&mut ks));
        let mut ks = Keyspace::in_memory();
        ks.set_str(b"a", large(), Expire::Keep, NOW).unwrap();
        ks.delete(b"a", NOW).unwrap();
        assert!(none(&mut ks));
    }
}
