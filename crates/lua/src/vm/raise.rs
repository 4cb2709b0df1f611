//! Error messages, those of Lua 5.1, and their positions. It touches the heap.

use super::coroutine::Caller;
use super::{Args, Vm};
use crate::compile::op::Op;
use crate::compile::{RUN_NAME, chunk_id};
use crate::error::{Error, SourcePosition};
use crate::value::Value;

impl Vm {
    /// Where the innermost Lua function is.
    pub(crate) fn position(&self) -> Option<SourcePosition> {
        self.co.frames.last()?;
        Some(SourcePosition {
            source: std::rc::Rc::clone(&self.proto.source),
            line: self.proto.line(self.pc),
        })
    }

    /// `chunk:line: ` of the function at a level: 1 is the innermost Lua function, 2 the one that called it.
    #[must_use]
    pub fn position_at(&self, level: usize) -> String {
        let (mut left, mut pc, mut proto) = (level, self.pc, &self.proto);
        for (at, frame) in self.co.frames.iter().enumerate().rev() {
            if left <= 1 {
                if &*proto.source == super::BUILT_IN {
                    return String::new();
                }
                let line = proto.line(pc);
                return format!("{}:{line}: ", chunk_id(proto.source.as_bytes(), RUN_NAME));
            }
            // Replaced calls, and functions written in Rust in between, have no position.
            let without = frame.tail_calls as usize + usize::from(frame.caller == Caller::Native);
            left -= 1;
            if left <= without {
                return String::new();
            }
            left -= without;
            let before = at.checked_sub(1).and_then(|at| self.co.frames.get(at));
            pc = before.map_or(0, |before| before.pc.saturating_sub(1));
            proto = &frame.caller_proto;
        }
        String::new()
    }

    /// The same, from a function written in Rust: 1 is its caller.
    pub(crate) fn position_of_caller(&self, level: usize) -> String {
        match (self.calling, level) {
            (Some(Caller::Native), 1) => String::new(),
            (Some(Caller::Native), _) => self.position_at(level - 1),
            _ => self.position_at(level),
        }
    }

    /// An error with the position of the innermost Lua function before its message.
    #[cold]
    pub fn error(&mut self, words: impl AsRef<[u8]>) -> Error {
        let mut text = self.position_of_caller(1).into_bytes();
        text.extend_from_slice(words.as_ref());
        self.raise(&text)
    }

    /// An error of the machine itself: while a function written in Rust runs, it has no position.
    #[cold]
    pub(crate) fn fault(&mut self, words: impl AsRef<[u8]>) -> Error {
        if self.calling.is_some() { self.raise(words.as_ref()) } else { self.error(words) }
    }

    /// An error with this message.
    #[cold]
    pub fn raise(&mut self, words: &[u8]) -> Error {
        let place = self.position();
        match self.string(words) {
            Ok(value) => Error::raise_at(value, place),
            Err(error) => error,
        }
    }

    /// The description of a register's value in an error.
    fn described(&self, value: Value, register: Option<u8>) -> String {
        let kind = value.type_name();
        let register = if self.calling.is_some() { None } else { register };
        let named = register.and_then(|register| self.proto.name_of(self.pc, register));
        match named {
            Some(named) => {
                let name = named.name.map_or("?".into(), |id| String::from_utf8_lossy(self.bytes(id)));
                format!("{} '{name}' (a {kind} value)", named.naming.word())
            }
            None => format!("a {kind} value"),
        }
    }

    #[cold]
    pub(super) fn type_error(&mut self, action: &str, value: Value, register: Option<u8>) -> Error {
        let described = self.described(value, register);
        self.fault(format!("attempt to {action} {described}"))
    }

    /// The error for a value in a slot that cannot be called.
    #[cold]
    pub(super) fn call_error(&mut self, slot: usize, value: Value) -> Error {
        let base = self.co.frames.last().map_or(0, |frame| frame.base);
        let register = slot.checked_sub(base).and_then(|register| u8::try_from(register).ok());
        self.type_error("call", value, register)
    }

    #[cold]
    pub(super) fn order_error(&mut self, a: Value, b: Value) -> Error {
        let (a, b) = (a.type_name(), b.type_name());
        if a == b {
            return self.fault(format!("attempt to compare two {a} values"));
        }
        self.fault(format!("attempt to compare {a} with {b}"))
    }

    /// The name of the running function written in Rust, and whether it was called as a method.
    fn called(&self, args: Args) -> (String, bool) {
        let unknown = ("?".to_owned(), false);
        let Some(frame) = self.co.frames.last() else { return unknown };
        let Some(Op::Call { a, .. } | Op::TailCall { a, .. }) = self.proto.code.get(self.pc).copied() else {
            return unknown;
        };
        // It may have been replaced by a tail call.
        if args.first_slot() != frame.base + usize::from(a) + 1 {
            return unknown;
        }
        match self.proto.name_of(self.pc, a) {
            Some(named) => {
                let name =
                    named.name.map_or("?".into(), |id| String::from_utf8_lossy(self.bytes(id)).into_owned());
                (name, named.naming == crate::compile::proto::Naming::Method)
            }
            None => unknown,
        }
    }

    /// The error for an invalid argument; `at` counts from 0.
    #[cold]
    pub fn bad_argument(&mut self, args: Args, at: usize, words: &str) -> Error {
        let (name, is_method) = self.called(args);
        if is_method && at == 0 {
            return self.error(format!("calling '{name}' on bad self ({words})"));
        }
        let number = if is_method { at } else { at + 1 };
        self.error(format!("bad argument #{number} to '{name}' ({words})"))
    }

    /// The error for an argument of another type.
    #[cold]
    pub fn bad_type(&mut self, args: Args, at: usize, wanted: &str) -> Error {
        let got = if at < args.len() { self.arg(args, at).type_name() } else { "no value" };
        self.bad_argument(args, at, &format!("{wanted} expected, got {got}"))
    }
}
