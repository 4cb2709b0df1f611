//! Native values: what a key holds in memory. It touches nothing.
//!
//! | To find                           | open       |
//! |-----------------------------------|------------|
//! | hashes, and fields that expire    | [`hash`]   |
//! | lists, and positions in them      | [`list`]   |
//! | sets                              | [`set`]    |
//! | sorted sets                       | [`zset`]   |
//! | streams, groups, pending entries  | [`stream`] |
//! | the kinds of values               | [`kind`]   |
//! | the state of a step               | [`state`]  |
//! | strings                           | [`string`] |
//!
//! A collection is *packed* while it is small (one buffer, one allocation) and *large* once it has outgrown
//! [`PACKED_LEN_MAX`] or [`PACKED_ELEMENT_BYTES_MAX`]; it never goes back. The two forms differ in
//! memory and time only. Every change is idempotent: setting an element to its value, or removing
//! one that does not exist, changes nothing.
//!
//! A large value shares the [`Bytes`] it is given. A caller that slices them out of a larger buffer must copy them first, or
//! the value keeps that whole buffer alive.

mod form;
pub mod hash;
pub(crate) mod heap;
pub mod kind;
pub mod list;
mod packed;
mod scan;
pub mod set;
mod sorted;
pub mod state;
pub mod stream;
pub mod string;
pub mod zset;

pub use hash::Hash;
pub use kind::Kind;
pub use list::List;
pub use set::Set;
pub use state::StateCell;
pub use stream::{Stream, StreamId};
pub use string::Str;
pub use zset::ZSet;

use crate::bytes::Bytes;

/// Most elements (fields, members) of a packed collection. One more makes it large.
pub const PACKED_LEN_MAX: usize = 128;

/// Longest element (field, value, member) of a packed collection, in bytes. A longer one makes it large.
pub const PACKED_ELEMENT_BYTES_MAX: usize = 64;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Str(Str),
    /// A hash.
    Hash(Hash),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
    /// A stream.
    Stream(Box<Stream>),
    /// A JSON document, as the exact text that was put.
    Json(Bytes),
    /// The state of a step.
    State(StateCell),
    /// Not in memory: the value, of this kind, is clean and only in the archive.
    Evicted(Kind),
}

impl Value {
    /// The kind of the value, also of an evicted one.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Value::Str(_) => Kind::Str,
            Value::Hash(_) => Kind::Hash,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::ZSet(_) => Kind::ZSet,
            Value::Stream(_) => Kind::Stream,
            Value::Json(_) => Kind::Json,
            Value::State(_) => Kind::State,
            Value::Evicted(kind) => *kind,
        }
    }

    /// An empty collection of this kind; `None` for a kind that is not a collection.
    #[must_use]
    pub fn empty(kind: Kind) -> Option<Value> {
        Some(match kind {
            Kind::Hash => Value::Hash(Hash::new()),
            Kind::List => Value::List(List::new()),
            Kind::Set => Value::Set(Set::new()),
            Kind::ZSet => Value::ZSet(ZSet::new()),
            Kind::Stream => Value::Stream(Box::default()),
            Kind::Str | Kind::Json | Kind::State => return None,
        })
    }

    /// Invalidates the cursors of running scans, because the order of elements may have changed.
    pub(crate) fn renumber(&mut self) {
        match self {
            Value::Hash(hash) => hash.renumber(),
            Value::Set(set) => set.renumber(),
            Value::ZSet(zset) => zset.renumber(),
            _ => {}
        }
    }

    /// A byte of what is read with the value, so that it is in the processor's cache then.
    #[inline]
    pub(crate) fn first_byte(&self) -> u8 {
        match self {
            Value::Str(string) => string.first().copied().unwrap_or(0),
            Value::Json(text) => text.first().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Heap bytes held, in O(1).
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        match self {
            Value::Str(string) => string.mem_bytes(),
            Value::Json(text) => heap::shared_bytes(text),
            Value::Hash(hash) => hash.mem_bytes(),
            Value::List(list) => list.mem_bytes(),
            Value::Set(set) => set.mem_bytes(),
            Value::ZSet(zset) => zset.mem_bytes(),
            Value::Stream(stream) => stream.mem_bytes(),
            Value::State(state) => state.mem_bytes(),
            Value::Evicted(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_value_is_small() {
        assert_eq!(size_of::<Hash>(), 24);
        assert_eq!(size_of::<Value>(), 32);
        assert_eq!(size_of::<Option<Value>>(), 32);
    }

    #[test]
    fn a_value_may_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Value>();
    }

    #[test]
    fn an_empty_collection_is_of_its_kind_and_holds_nothing() {
        for kind in Kind::ALL {
            let Some(value) = Value::empty(kind) else { continue };
            assert_eq!(value.kind(), kind);
            let boxed = if kind == Kind::Stream { heap::boxed_bytes::<Stream>() } else { 0 };
            assert_eq!(value.mem_bytes(), boxed);
        }
        assert_eq!(Value::Evicted(Kind::ZSet).kind(), Kind::ZSet);
    }

    #[test]
    fn a_small_hash_is_one_tight_allocation() {
        let mut hash = Hash::new();
        for i in 0..5 {
            hash.insert(
                &Bytes::from(format!("field{i}").as_bytes()),
                &Bytes::from(format!("value{i}").as_bytes()),
            );
        }
        // Five times (1 + 6 + 1 + 6) and the count are 71 bytes; the allocator returns 80.
        assert_eq!(Value::Hash(hash).mem_bytes(), 80);
    }
}
