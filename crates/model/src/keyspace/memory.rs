//! The memory bound: what counts, and when a change that could add to it is rejected.
//!
//! It touches nothing. Invariant: what exists stays readable and can be deleted; only what could add memory is rejected, and only
//! while evicting values cannot make room for it.

use keystead_core::table::Id;
use keystead_core::{Code, Error, Millis, Result};

use super::{ENTRY_BYTES, Keyspace};
use crate::Bytes;
use crate::value::Value;
use crate::value::heap::shared_bytes;

/// How many bytes names and values may use.
pub(super) struct MemoryBound {
    bytes_max: usize,
    evicts: bool,
}

impl Default for MemoryBound {
    fn default() -> Self {
        MemoryBound { bytes_max: usize::MAX, evicts: false }
    }
}

/// Bytes of an expiry: its links in the timing wheel, whose array grows to the double.
const EXPIRY_BYTES: usize = 18;

/// Bytes of an entry without its value and its expiry.
pub(super) fn entry_bytes(key: &Bytes) -> usize {
    ENTRY_BYTES + shared_bytes(key)
}

impl Keyspace {
    /// Sets how many bytes names and values may use, and whether values can be evicted: then only the rest counts, since the owner
    /// evicts values as long as too much is in memory. By default there is no bound.
    pub fn set_memory_bound(&mut self, bytes_max: usize, evicts: bool) {
        self.memory = MemoryBound { bytes_max, evicts };
    }

    /// Whether the memory bound is reached and no eviction can change that.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        let bytes = if self.memory.evicts { self.entry_bytes } else { self.used_bytes };
        bytes + self.expiries_bytes() > self.memory.bytes_max
    }

    /// Estimated heap bytes of keys, values and the table.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes + self.expiries_bytes()
    }

    fn expiries_bytes(&self) -> usize {
        self.table.scheduled() * EXPIRY_BYTES
    }

    /// Bytes of the key at `id`, with its value.
    pub(super) fn bytes_at(&self, id: Id) -> Option<usize> {
        let (key, entry) = (self.table.key(id)?, self.table.get(id)?);
        let expiry = if self.table.expires_at(id) == Millis::NEVER { 0 } else { EXPIRY_BYTES };
        Some(entry_bytes(key) + entry.value.mem_bytes() + expiry)
    }

    /// An error when the memory bound is reached: for changes that could add memory.
    ///
    /// # Errors
    /// `out_of_memory`.
    #[inline]
    pub fn check_memory(&self) -> Result<()> {
        if self.is_full() { Err(out_of_memory()) } else { Ok(()) }
    }

    pub(super) fn count_added(&mut self, key: &Bytes, value: &Value) {
        let bytes = entry_bytes(key);
        self.entry_bytes += bytes;
        self.used_bytes += bytes + value.mem_bytes();
    }

    pub(super) fn count_removed(&mut self, key: &Bytes, value: &Value) {
        let bytes = entry_bytes(key);
        self.entry_bytes -= bytes;
        self.used_bytes -= bytes + value.mem_bytes();
    }
}

#[cold]
fn out_of_memory() -> Error {
    Error::new(
        Code::OutOfMemory,
        "the memory limit is reached: delete keys, or restart the server with a higher limit (--memory)",
    )
}

#[cfg(test)]
mod tests {
    use keystead_core::{Change, Ttl, step_fn};

    use super::*;
    use crate::keyspace::Expire;

    const NOW: Millis = Millis(1000);

    fn put(ks: &mut Keyspace, key: &str, len: usize) {
        ks.set_str(key.as_bytes(), Bytes::from(vec![b'v'; len]), Expire::Keep, NOW).unwrap();
    }

    #[test]
    fn values_count_only_if_they_cannot_be_evicted() {
        let mut ks = Keyspace::in_memory();
        put(&mut ks, "a", 10_000);
        ks.set_memory_bound(5000, true);
        assert!(!ks.is_full(), "the value can be evicted");
        ks.set_memory_bound(5000, false);
        assert_eq!(ks.check_memory().unwrap_err().code(), Code::OutOfMemory);
        ks.delete(b"a", NOW).unwrap();
        assert!(!ks.is_full());
    }

    #[test]
    fn names_fill_the_bound_and_room_comes_back() {
        let mut ks = Keyspace::in_memory();
        ks.set_memory_bound(100 * ENTRY_BYTES, true);
        let name = |n: usize| format!("k{n}");
        for n in 0..=100 {
            assert!(!ks.is_full(), "{n}");
            put(&mut ks, &name(n), 3);
        }
        assert!(ks.is_full());
        ks.delete(name(7).as_bytes(), NOW).unwrap();
        assert!(!ks.is_full());
        put(&mut ks, &"long".repeat(100), 3);
        assert!(ks.is_full());
        ks.savepoint();
        ks.flush();
        assert!(!ks.is_full());
        ks.rollback();
        assert!(ks.is_full(), "a flush that was rolled back frees nothing");
        ks.flush();
        assert!(!ks.is_full());
        ks.check().unwrap();
    }

    #[test]
    fn a_step_adds_no_key_beyond_the_bound_and_continues_on_those_that_exist() {
        let mut ks = Keyspace::in_memory();
        let count = step_fn(|n: Option<&u64>, _now| {
            let n = n.map_or(1, |n| n + 1);
            Change::Put(n, Ttl::Never, n)
        });
        let keep = step_fn(|n: Option<&u64>, _now| Change::<u64, _>::Keep(n.copied()));
        assert_eq!(ks.apply(b"n", &count, NOW).unwrap(), 1);
        ks.set_memory_bound(0, true);
        assert_eq!(ks.apply(b"new", &count, NOW).unwrap_err().code(), Code::OutOfMemory);
        assert_eq!(ks.apply(b"new", &keep, NOW).unwrap(), None, "it adds nothing");
        assert_eq!(ks.apply(b"n", &count, NOW).unwrap(), 2);
        assert_eq!(ks.count(), 1);
    }
}
