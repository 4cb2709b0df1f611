//! A coroutine: a stack of values, and its active calls. It touches nothing.

use std::rc::Rc;

use crate::compile::proto::Proto;
use crate::value::{FuncId, Id, Value};

/// The caller of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A Lua function, in the same loop.
    Lua,
    /// The machine, for a metamethod.
    Machine,
    /// A function written in Rust.
    Native,
}

/// The number of results of a call; all of them if `None`.
pub(crate) type Wanted = Option<u32>;

/// An active call of a Lua function.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) closure: FuncId,
    /// What the function that made the call was compiled to; that of the innermost one is the machine's.
    pub(crate) caller_proto: Rc<Proto>,
    /// The stack slot of the function, and of its results.
    pub(crate) func: usize,
    /// Its first register.
    pub(crate) base: usize,
    /// The instruction behind the one that it executes, while it is not the innermost.
    pub(crate) pc: usize,
    pub(crate) wanted: Wanted,
    /// Arguments beyond its parameters.
    pub(crate) varargs: usize,
    /// The number of tail calls that it has replaced.
    pub(crate) tail_calls: u32,
    pub(crate) caller: Caller,
}

/// The state of a coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Status {
    /// It can be resumed; also before its first run.
    #[default]
    Suspended,
    Running,
    /// It has resumed another.
    Normal,
    Dead,
}

/// The size of an open upvalue in the coroutine's list.
pub(crate) const OPEN_BYTES: usize = size_of::<(usize, Id)>();

/// A coroutine.
#[derive(Debug, Default)]
pub(crate) struct Coroutine {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// Open upvalues, by stack slot.
    pub(crate) open: Vec<(usize, Id)>,
    pub(crate) status: Status,
    /// Where the arguments of the next resume go: they are the results of the call that yielded.
    pub(crate) resume_at: Option<(usize, Wanted)>,
    /// The nesting of interpreter loops. It can only yield from the outermost.
    pub(crate) loops: usize,
    /// Bytes that were charged for its stack and frames.
    pub(crate) charged: usize,
    /// What its innermost function was compiled to, while it does not run.
    pub(crate) proto: Option<Rc<Proto>>,
}

impl Coroutine {
    /// Frees its stack once it cannot run again. Returns the bytes.
    pub(crate) fn end(&mut self) -> usize {
        (self.stack, self.frames) = (Vec::new(), Vec::new());
        std::mem::take(&mut self.charged)
    }
}
