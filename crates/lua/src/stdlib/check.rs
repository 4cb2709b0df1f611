//! Arguments of functions, as Lua checks them. It touches nothing.

use crate::error::{Error, Result};
use crate::number;
use crate::value::{StrId, TableId, Value};
use crate::vm::{Args, Vm};

impl Vm {
    /// The argument at this index as a string; a number is converted.
    ///
    /// # Errors
    /// When it is neither. The same holds for the others.
    pub fn check_str(&mut self, args: Args, at: usize) -> Result<StrId> {
        let value = self.arg(args, at);
        match self.coerce_str(value)? {
            Some(id) => Ok(id),
            None => Err(self.bad_type(args, at, "string")),
        }
    }

    /// A number; a numeric string is converted.
    ///
    /// # Errors
    /// When it is neither.
    pub fn check_num(&mut self, args: Args, at: usize) -> Result<f64> {
        match self.to_number(self.arg(args, at)) {
            Some(number) => Ok(number),
            None => Err(self.bad_type(args, at, "number")),
        }
    }

    /// A number as C's long.
    ///
    /// # Errors
    /// When it is no number.
    pub fn check_int(&mut self, args: Args, at: usize) -> Result<i64> {
        self.check_num(args, at).map(number::to_long)
    }

    /// The same, or a default if the argument is absent.
    ///
    /// # Errors
    /// When something else is given.
    pub fn opt_int(&mut self, args: Args, at: usize, default: i64) -> Result<i64> {
        if self.arg(args, at).is_nil() { Ok(default) } else { self.check_int(args, at) }
    }

    /// A table.
    ///
    /// # Errors
    /// When it is none.
    pub fn check_table(&mut self, args: Args, at: usize) -> Result<TableId> {
        match self.arg(args, at) {
            Value::Table(id) => Ok(id),
            _ => Err(self.bad_type(args, at, "table")),
        }
    }

    /// Any value, but not absent.
    pub(super) fn check_any(&mut self, args: Args, at: usize) -> Result<Value> {
        if at < args.len() {
            Ok(self.arg(args, at))
        } else {
            Err(self.bad_argument(args, at, "value expected"))
        }
    }

    /// A writable table; the error for a read-only one has no position, as errors of C functions.
    pub(super) fn check_writable(&mut self, table: TableId) -> Result<()> {
        if self.heap.get_table(table).read_only { Err(self.read_only()) } else { Ok(()) }
    }

    #[cold]
    fn read_only(&mut self) -> Error {
        self.raise(b"Attempt to modify a readonly table")
    }
}
