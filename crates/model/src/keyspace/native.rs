//! What the five collections have in common, so that one handle and one lookup work for all of them. It touches nothing.

use crate::Bytes;
use crate::effect::{Fact, StreamFact};
use crate::value::{Hash, Kind, List, Set, StateCell, Str, Stream, Value, ZSet};

/// A type of value for typed lookups.
pub trait Typed {
    /// Its kind.
    const KIND: Kind;
    /// The type that a lookup returns.
    type View: ?Sized;
    /// The value, if it is of this kind and in memory.
    fn of(value: &Value) -> Option<&Self::View>;
}

/// A collection that is changed element by element.
pub trait Native: Typed + Default {
    /// Whether a key may hold it while it is empty.
    const MAY_BE_EMPTY: bool = false;
    /// The collection in a value of this kind that is in memory; another value is returned as the error.
    fn from_value(value: Value) -> Result<Self, Value>;
    /// The value of a key.
    fn into_value(self) -> Value;
    /// Whether it has no element.
    fn has_none(&self) -> bool;
    /// The first fact of a new one, so that an empty one is recorded too.
    fn first_fact(&self) -> Option<Fact>;
    /// Heap bytes held, as in [`Value::mem_bytes`].
    fn heap_bytes(&self) -> usize;
}

/// A document. Its Rust type is that of any bytes.
pub(super) enum AsJson {}

macro_rules! typed {
    ($type:ty, $view:ty, $variant:ident) => {
        impl Typed for $type {
            const KIND: Kind = Kind::$variant;
            type View = $view;
            fn of(value: &Value) -> Option<&$view> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    };
}

typed!(Str, Str, Str);
typed!(AsJson, Bytes, Json);
typed!(StateCell, StateCell, State);
typed!(Hash, Hash, Hash);
typed!(List, List, List);
typed!(Set, Set, Set);
typed!(ZSet, ZSet, ZSet);
typed!(Box<Stream>, Stream, Stream);

macro_rules! native {
    ($type:ty, $variant:ident, $may_be_empty:expr, $first:expr) => {
        impl Native for $type {
            const MAY_BE_EMPTY: bool = $may_be_empty;
            fn from_value(value: Value) -> Result<Self, Value> {
                match value {
                    Value::$variant(value) => Ok(value),
                    other => Err(other),
                }
            }
            fn into_value(self) -> Value {
                Value::$variant(self)
            }
            fn has_none(&self) -> bool {
                self.is_empty()
            }
            fn first_fact(&self) -> Option<Fact> {
                let first: fn(&Self) -> Option<Fact> = $first;
                first(self)
            }
            fn heap_bytes(&self) -> usize {
                self.mem_bytes()
            }
        }
    };
}

native!(Hash, Hash, false, |_| None);
native!(List, List, false, |_| None);
native!(Set, Set, false, |_| None);
native!(ZSet, ZSet, false, |_| None);
native!(Box<Stream>, Stream, true, |stream| Some(Fact::Stream(StreamFact::Meta(stream.meta()))));
