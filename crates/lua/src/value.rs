//! A Lua value: sixteen bytes, `Copy`. Objects are in the [`Heap`](crate::heap::Heap), by index.

/// The index of an object in the heap.
pub(crate) type Id = u32;

/// A string. All strings are interned, so equal ones have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrId(pub(crate) Id);

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) Id);

/// A function written in Lua, with the variables that it closes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(pub(crate) Id);

/// A coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(crate) Id);

/// A function written in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NativeId(pub(crate) Id);

/// A Lua value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing.
    #[default]
    Nil,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Num(f64),
    /// A string.
    Str(StrId),
    /// A table.
    Table(TableId),
    /// A function written in Lua.
    Func(FuncId),
    /// A function written in Rust.
    Native(NativeId),
    /// A coroutine.
    Thread(ThreadId),
    /// The light userdata NULL, which `cjson.null` is.
    Null,
}

impl Value {
    /// Whether it is true in a condition.
    #[inline]
    #[must_use]
    pub fn truthy(self) -> bool {
        !matches!(self, Value::Nil | Value::Bool(false))
    }

    /// Whether it is nothing.
    #[inline]
    #[must_use]
    pub fn is_nil(self) -> bool {
        matches!(self, Value::Nil)
    }

    /// The name of its type, as `type` returns it.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool(_) => "boolean",
            Value::Num(_) => "number",
            Value::Str(_) => "string",
            Value::Table(_) => "table",
            Value::Func(_) | Value::Native(_) => "function",
            Value::Thread(_) => "thread",
            Value::Null => "userdata",
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Num(number)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Bool(yes)
    }
}

impl From<StrId> for Value {
    fn from(id: StrId) -> Value {
        Value::Str(id)
    }
}

impl From<TableId> for Value {
    fn from(id: TableId) -> Value {
        Value::Table(id)
    }
}
