//! A coroutine: a stack of values, and the calls that are under way on it. It touches nothing.

use std::rc::Rc;

use crate::compile::proto::Proto;
use crate::value::{FuncId, Id, Value};

/// Who made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A Lua function, in the same loop.
    Lua,
    /// The machine, for a metamethod.
    Machine,
    /// A function written in Rust.
    Native,
}

/// Values that a call is to give; all of them if there is no number.
pub(crate) type Wanted = Option<u32>;

/// A call of a Lua function that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) closure: FuncId,
    /// What the function that made the call was compiled to; that of the innermost one is the machine's.
    pub(crate) caller_proto: Rc<Proto>,
    /// Where the function lies, and where its results go.
    pub(crate) func: usize,
    /// Its first register.
    pub(crate) base: usize,
    /// The instruction behind the one that it executes, while it is not the innermost.
    pub(crate) pc: usize,
    pub(crate) wanted: Wanted,
    /// Arguments beyond its parameters.
    pub(crate) varargs: usize,
    /// Calls whose place it has taken.
    pub(crate) tail_calls: u32,
    pub(crate) caller: Caller,
}

/// What a coroutine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Status {
    /// It waits to be resumed; also before its first run.
    #[default]
    Suspended,
    Running,
    /// It has resumed another.
    Normal,
    Dead,
}

/// What a variable on the stack that a function has captured takes in the coroutine's list of them.
pub(crate) const OPEN_BYTES: usize = size_of::<(usize, Id)>();

/// A coroutine.
#[derive(Debug, Default)]
pub(crate) struct Coroutine {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// Variables on the stack that functions have captured, by their place.
    pub(crate) open: Vec<(usize, Id)>,
    pub(crate) status: Status,
    /// Where the values go with which it is resumed: those of the call that yielded.
    pub(crate) resume_at: Option<(usize, Wanted)>,
    /// Loops that run it within one another. It can only yield from the first.
    pub(crate) loops: usize,
    /// Bytes that were charged for its stack and frames.
    pub(crate) charged: usize,
    /// What its innermost function was compiled to, while it does not run.
    pub(crate) proto: Option<Rc<Proto>>,
}

impl Coroutine {
    /// Frees what it took to run, once it never will again; how many bytes that gives back.
    pub(crate) fn end(&mut self) -> usize {
        (self.stack, self.frames) = (Vec::new(), Vec::new());
        std::mem::take(&mut self.charged)
    }
}
