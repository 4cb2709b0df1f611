//! A compiled function. It touches nothing.

use std::rc::Rc;

use super::op::Op;
use crate::value::{StrId, Value};

/// Where a closure finds an upvalue when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// In a register of the enclosing function.
    Register(u8),
    /// Among the upvalues of the enclosing function.
    Upvalue(u8),
}

/// The kind of a value in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Local,
    Global,
    Field,
    Upvalue,
    Method,
}

impl Naming {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Naming::Local => "local",
            Naming::Global => "global",
            Naming::Field => "field",
            Naming::Upvalue => "upvalue",
            Naming::Method => "method",
        }
    }
}

/// What a register holds at an instruction, for errors. Without a string: it has none in the text (`t[i]`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) pc: u32,
    pub(crate) register: u8,
    pub(crate) naming: Naming,
    pub(crate) name: Option<StrId>,
}

/// A compiled function.
#[derive(Debug, Default)]
pub(crate) struct Proto {
    pub(crate) code: Vec<Op>,
    pub(crate) constants: Vec<Value>,
    pub(crate) protos: Vec<Rc<Proto>>,
    pub(crate) captures: Vec<Capture>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
    /// By instruction.
    pub(crate) names: Vec<Named>,
    /// The name of the chunk, with its mark.
    pub(crate) source: Rc<str>,
    pub(crate) params: u8,
    pub(crate) is_vararg: bool,
    pub(crate) registers: u8,
    /// Its size, without the functions within it.
    pub(crate) bytes: usize,
}

impl Proto {
    /// What an error calls what this register holds at this instruction.
    pub(crate) fn name_of(&self, pc: usize, register: u8) -> Option<Named> {
        let from = self.names.partition_point(|named| (named.pc as usize) < pc);
        let here = self.names[from..].iter().take_while(|named| named.pc as usize == pc);
        here.copied().find(|named| named.register == register)
    }

    /// Its size, with the functions within it.
    pub(crate) fn all_bytes(&self) -> usize {
        self.bytes + self.protos.iter().map(|proto| proto.all_bytes()).sum::<usize>()
    }

    /// The line of an instruction.
    pub(crate) fn line(&self, pc: usize) -> i64 {
        self.lines.get(pc).map_or(-1, |line| i64::from(*line))
    }
}
