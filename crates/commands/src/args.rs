//! The arguments of one command, and the cursor that reads them. It touches nothing.
//!
//! Arguments stay where they were received: [`Args`] is a view of a buffer with the spans of the arguments, so parsing a command
//! copies nothing. [`Command`] owns its buffer, for commands that are stored (MULTI, blocking, other shards).

use crate::errors::{self, Fail};
use crate::number;

/// The span of one argument in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The offset of the first byte.
    pub start: u32,
    /// The length in bytes.
    pub len: u32,
}

/// All arguments of a command, starting with its name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    parts: &'a [Part],
}

impl<'a> Args<'a> {
    /// The arguments at these spans of a buffer. A span outside of it is an empty argument.
    #[must_use]
    pub fn new(buffer: &'a [u8], parts: &'a [Part]) -> Self {
        Args { buffer, parts }
    }

    /// The number of arguments, including the name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there are no arguments, not even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The argument at `index` (0 is the name), or an empty one if there is none. Arity is checked before a command runs.
    #[inline]
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// The argument at `index`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let part = self.parts.get(index)?;
        let start = part.start as usize;
        Some(self.buffer.get(start..start + part.len as usize).unwrap_or_default())
    }

    /// The name of the command, as it was sent.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        self.at(0)
    }

    /// The arguments from `first` on.
    pub fn from(self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        let parts = self.parts.get(first..).unwrap_or_default();
        parts.iter().map(move |part| {
            let start = part.start as usize;
            self.buffer.get(start..start + part.len as usize).unwrap_or_default()
        })
    }

    /// A cursor at the argument at `index`.
    #[must_use]
    pub fn cursor(self, index: usize) -> Cursor<'a> {
        Cursor { args: self, next: index }
    }

    /// The integer at `index`.
    ///
    /// # Errors
    /// Redis's error if it is not an integer.
    pub fn int(&self, index: usize) -> Result<i64, Fail> {
        number::parse_int(self.at(index)).ok_or(errors::NOT_INT)
    }

    /// A copy of the arguments that owns its buffer.
    #[must_use]
    pub fn to_command(self) -> Command {
        Command::new(self.from(0))
    }
}

/// The arguments of a command, with an owned buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    buffer: Vec<u8>,
    parts: Vec<Part>,
}

impl Command {
    /// A command with these arguments, starting with its name.
    pub fn new<T: AsRef<[u8]>>(arguments: impl IntoIterator<Item = T>) -> Self {
        let mut command = Command::default();
        for argument in arguments {
            command.push(argument.as_ref());
        }
        command
    }

    /// Adds an argument.
    pub fn push(&mut self, argument: &[u8]) {
        self.parts.push(Part { start: self.buffer.len() as u32, len: argument.len() as u32 });
        self.buffer.extend_from_slice(argument);
    }

    /// Adds an integer as an argument.
    pub fn push_int(&mut self, value: i64) {
        let start = self.buffer.len();
        number::push_int(&mut self.buffer, value);
        self.parts.push(Part { start: start as u32, len: (self.buffer.len() - start) as u32 });
    }

    /// Removes all arguments.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.parts.clear();
    }

    /// The arguments.
    #[must_use]
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.buffer, &self.parts)
    }

    /// The arguments from `first` to before `end`: a buffer may hold those of several commands.
    #[must_use]
    pub fn args_between(&self, first: usize, end: usize) -> Args<'_> {
        Args::new(&self.buffer, self.parts.get(first..end).unwrap_or_default())
    }

    /// The number of bytes on the heap.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        self.buffer.capacity() + self.parts.capacity() * size_of::<Part>()
    }
}

/// Reads arguments one after the other.
#[derive(Clone)]
pub struct Cursor<'a> {
    args: Args<'a>,
    next: usize,
}

impl<'a> Cursor<'a> {
    /// The index of the next argument.
    #[must_use]
    pub fn index(&self) -> usize {
        self.next
    }

    /// The number of arguments left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.args.len().saturating_sub(self.next)
    }

    /// Whether no argument is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left() == 0
    }

    /// The next argument, without consuming it.
    #[must_use]
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.args.get(self.next)
    }

    /// Consumes the next argument, if there is one.
    #[allow(
        clippy::should_implement_trait,
        reason = "a cursor is not an iterator: its callers read typed arguments"
    )]
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let argument = self.peek()?;
        self.next += 1;
        Some(argument)
    }

    /// Consumes the next argument.
    ///
    /// # Errors
    /// `ERR syntax error` if there is none.
    pub fn bytes(&mut self) -> Result<&'a [u8], Fail> {
        self.next().ok_or(errors::SYNTAX)
    }

    /// Consumes the next argument as an integer.
    ///
    /// # Errors
    /// `ERR syntax error` if there is none, `ERR value is not an integer or out of range` if it is not an integer.
    pub fn int(&mut self) -> Result<i64, Fail> {
        number::parse_int(self.bytes()?).ok_or(errors::NOT_INT)
    }

    /// Consumes the next argument as a double.
    ///
    /// # Errors
    /// `ERR syntax error` if there is none, `ERR value is not a valid float` if it is not a number.
    pub fn float(&mut self) -> Result<f64, Fail> {
        number::parse_float(self.bytes()?).ok_or(errors::NOT_FLOAT)
    }

    /// Consumes the next argument if it is `keyword`, ignoring case.
    pub fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(keyword.as_bytes()));
        self.next += usize::from(found);
        found
    }

    /// Consumes the next argument if it is `keyword` and at least `more` arguments follow it.
    ///
    /// This is how Redis recognises an option with a value: without the value it is a syntax error.
    pub fn accept_with(&mut self, keyword: &str, more: usize) -> bool {
        self.left() > more && self.accept(keyword)
    }

    /// Consumes all arguments that are left.
    pub fn rest(&mut self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let first = std::mem::replace(&mut self.next, self.args.len());
        self.args.from(first)
    }

    /// Rejects arguments that are left.
    ///
    /// # Errors
    /// `ERR syntax error` if there are any.
    pub fn finish(&self) -> Result<(), Fail> {
        if self.is_done() { Ok(()) } else { Err(errors::SYNTAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_typed_arguments_and_rejects_leftovers() {
        let command = Command::new(["SET", "k", "v", "ex", "10", "1.5"]);
        let mut cursor = command.args().cursor(1);
        assert_eq!(cursor.bytes().unwrap(), b"k");
        assert_eq!(cursor.next(), Some(&b"v"[..]));
        assert!(!cursor.accept("PX") && cursor.accept_with("EX", 1));
        assert_eq!(cursor.int().unwrap(), 10);
        assert_eq!(cursor.finish().unwrap_err(), errors::SYNTAX);
        assert_eq!(cursor.clone().int().unwrap_err(), errors::NOT_INT);
        assert!(!cursor.accept_with("1.5", 1), "nothing follows it");
        assert_eq!(cursor.float().unwrap().to_bits(), 1.5f64.to_bits());
        assert_eq!(cursor.bytes().unwrap_err(), errors::SYNTAX);
        assert!(cursor.finish().is_ok());
    }

    #[test]
    fn a_missing_argument_is_empty() {
        let command = Command::new(["GET"]);
        assert_eq!((command.args().at(1), command.args().get(1)), (&b""[..], None));
        assert_eq!(command.args().to_command(), command);
    }
}
