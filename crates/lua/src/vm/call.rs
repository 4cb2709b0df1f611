//! Calls: frames, arguments and results. It touches the stack of the coroutine that runs.

use super::coroutine::{Caller, Frame, OPEN_BYTES, Wanted};
use super::{Event, Host, Native, Vm};
use crate::bounds::{CALLS_MAX, NATIVE_CALLS_MAX, STACK_MAX};
use crate::error::{Error, Kind, Result};
use crate::heap::Upvalue;
use crate::value::{FuncId, NativeId, Value};

/// The arguments of a function written in Rust.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    base: usize,
    count: usize,
}

impl Args {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.count
    }

    /// The stack slot of the first one.
    pub(super) fn first_slot(self) -> usize {
        self.base
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// The result of a call in the loop.
pub(super) enum Called {
    /// A Lua function has been entered.
    Entered,
    /// A function written in Rust has returned.
    Returned,
}

impl Vm {
    /// The argument at this index; nil if it is absent.
    #[inline]
    #[must_use]
    pub fn arg(&self, args: Args, at: usize) -> Value {
        if at < args.count { self.co.stack[args.base + at] } else { Value::Nil }
    }

    /// The arguments from this index on.
    #[must_use]
    pub fn args_from(&self, args: Args, at: usize) -> &[Value] {
        &self.co.stack[args.base + at.min(args.count)..args.base + args.count]
    }

    /// Adds a result.
    #[inline]
    pub fn push(&mut self, value: Value) {
        self.co.stack.push(value);
    }

    /// One result.
    #[inline]
    pub fn one(&mut self, value: impl Into<Value>) -> Result<usize> {
        self.push(value.into());
        Ok(1)
    }

    /// Grows the stack to this many values.
    #[inline]
    pub(crate) fn ensure(&mut self, len: usize) -> Result<()> {
        if len > self.co.stack.len() { self.grow_stack(len) } else { Ok(()) }
    }

    #[cold]
    fn grow_stack(&mut self, len: usize) -> Result<()> {
        if len > STACK_MAX {
            return Err(self.fault("stack overflow"));
        }
        if len > self.co.stack.capacity() {
            let more = (len * 2).max(64) - self.co.stack.capacity();
            self.heap.charge(more * size_of::<Value>())?;
            self.co.charged += more * size_of::<Value>();
            self.co.stack.reserve_exact((len * 2).max(64) - self.co.stack.len());
        }
        self.co.stack.resize(len, Value::Nil);
        Ok(())
    }

    /// Calls a value from Rust. The results are the last values of the stack; returns their number.
    ///
    /// # Errors
    /// What it raises.
    pub fn call(&mut self, host: &mut dyn Host, function: Value, args: &[Value]) -> Result<usize> {
        self.call_by(host, Caller::Native, function, args, None)
    }

    /// Calls a value from Rust for its first result.
    ///
    /// # Errors
    /// What it raises.
    pub fn call_for_one(&mut self, host: &mut dyn Host, function: Value, args: &[Value]) -> Result<Value> {
        self.call_by(host, Caller::Native, function, args, Some(1))?;
        Ok(self.co.stack.pop().unwrap_or_default())
    }

    /// Calls the value in a slot with the values after it as arguments, for its first result.
    pub(crate) fn call_pushed(&mut self, host: &mut dyn Host, slot: usize, args: usize) -> Result<Value> {
        self.call_slot(host, Caller::Native, slot, args, Some(1))?;
        Ok(self.co.stack.pop().unwrap_or_default())
    }

    /// Calls the argument at this index with those after it.
    pub(crate) fn call_args(&mut self, host: &mut dyn Host, args: Args, at: usize) -> Result<usize> {
        let (slot, count) = (self.co.stack.len(), args.count - at);
        self.ensure(slot + count)?;
        self.co.stack.copy_within(args.base + at..args.base + args.count, slot);
        self.call_slot(host, Caller::Native, slot, count - 1, None)
    }

    pub(crate) fn call_by(
        &mut self,
        host: &mut dyn Host,
        caller: Caller,
        function: Value,
        args: &[Value],
        wanted: Wanted,
    ) -> Result<usize> {
        let slot = self.co.stack.len();
        self.ensure(slot + 1 + args.len())?;
        self.co.stack[slot] = function;
        self.co.stack[slot + 1..].copy_from_slice(args);
        self.call_slot(host, caller, slot, args.len(), wanted)
    }

    /// Calls the value in a slot with the values after it up to the end of the stack. The results replace them.
    pub(crate) fn call_slot(
        &mut self,
        host: &mut dyn Host,
        caller: Caller,
        slot: usize,
        args: usize,
        wanted: Wanted,
    ) -> Result<usize> {
        if self.depth >= NATIVE_CALLS_MAX {
            return Err(self.fault("C stack overflow"));
        }
        let pc = self.pc;
        if let Some(frame) = self.co.frames.last_mut() {
            frame.pc = pc + 1;
        }
        let calling = self.calling;
        self.depth += 1;
        self.co.loops += 1;
        let result = match self.begin_call(host, slot, args, wanted, caller) {
            Ok(Called::Entered) => {
                self.calling = None;
                self.execute(host)
            }
            Ok(Called::Returned) => Ok(()),
            Err(error) => Err(error),
        };
        self.depth -= 1;
        self.co.loops -= 1;
        (self.pc, self.calling) = (pc, calling);
        result?;
        let count = match wanted {
            Some(count) => count as usize,
            None => self.top - slot,
        };
        self.co.stack.truncate(slot + count);
        Ok(count)
    }

    /// Begins a call of the value in a slot.
    pub(super) fn begin_call(
        &mut self,
        host: &mut dyn Host,
        slot: usize,
        args: usize,
        wanted: Wanted,
        caller: Caller,
    ) -> Result<Called> {
        match self.co.stack[slot] {
            Value::Func(id) => {
                self.enter(id, slot, args, wanted, caller)?;
                Ok(Called::Entered)
            }
            Value::Native(id) => {
                self.call_native(host, id, slot, args, wanted, caller)?;
                Ok(Called::Returned)
            }
            other => {
                let handler = self.meta_of(other, Event::Call);
                if handler.is_nil() {
                    return Err(self.call_error(slot, other));
                }
                self.ensure(slot + args + 2)?;
                self.co.stack.copy_within(slot..=slot + args, slot + 1);
                self.co.stack[slot] = handler;
                // A chain of `__call` is finite: each adds an argument.
                self.work(host, args + 1)?;
                self.begin_call(host, slot, args + 1, wanted, caller)
            }
        }
    }

    /// Enters a Lua function.
    fn enter(&mut self, id: FuncId, func: usize, args: usize, wanted: Wanted, caller: Caller) -> Result<()> {
        let proto = std::rc::Rc::clone(&self.heap.closure_of(id).proto);
        if self.co.frames.len() >= CALLS_MAX {
            return Err(self.fault("stack overflow"));
        }
        if self.co.frames.len() == self.co.frames.capacity() {
            let more = self.co.frames.len().max(8);
            self.heap.charge(more * size_of::<Frame>())?;
            self.co.charged += more * size_of::<Frame>();
            self.co.frames.reserve_exact(more);
        }
        let (params, registers) = (usize::from(proto.params), usize::from(proto.registers));
        let (base, varargs);
        if proto.is_vararg {
            base = func + 1 + args;
            varargs = args.saturating_sub(params);
            self.ensure(base + registers)?;
            for i in 0..params {
                let value =
                    if i < args { std::mem::take(&mut self.co.stack[func + 1 + i]) } else { Value::Nil };
                self.co.stack[base + i] = value;
            }
        } else {
            base = func + 1;
            varargs = 0;
            self.ensure(base + registers)?;
            if args < params {
                self.co.stack[base + args..base + params].fill(Value::Nil);
            }
        }
        let caller_proto = std::mem::replace(&mut self.proto, proto);
        let frame =
            Frame { closure: id, caller_proto, func, base, pc: 0, wanted, varargs, tail_calls: 0, caller };
        self.co.frames.push(frame);
        Ok(())
    }

    /// Calls a function written in Rust; its results replace the function.
    pub(super) fn call_native(
        &mut self,
        host: &mut dyn Host,
        id: NativeId,
        slot: usize,
        args: usize,
        wanted: Wanted,
        caller: Caller,
    ) -> Result<()> {
        let len = self.co.stack.len();
        let given = Args { base: slot + 1, count: args };
        let calling = self.calling.replace(caller);
        let called = match self.natives[id.0 as usize] {
            Native::Rust(function) => function(self, host, given),
            Native::Host(function) => host.call(self, function, given),
        };
        self.calling = calling;
        let count = match called {
            Ok(count) => count,
            Err(error) => return Err(self.placed(error, caller, slot, wanted)),
        };
        let from = self.co.stack.len() - count;
        let keep = match wanted {
            Some(wanted) => {
                let wanted = wanted as usize;
                let given = count.min(wanted);
                self.ensure(slot + wanted)?;
                self.co.stack.copy_within(from..from + given, slot);
                self.co.stack[slot + given..slot + wanted].fill(Value::Nil);
                slot + wanted
            }
            None => {
                self.co.stack.copy_within(from..from + count, slot);
                self.top = slot + count;
                self.top
            }
        };
        self.co.stack.truncate(len.max(keep));
        if self.heap.used() > self.heap.collect_at {
            self.collect();
        }
        Ok(())
    }

    /// An error of a function written in Rust, with the position of its caller.
    #[cold]
    fn placed(&mut self, error: Error, caller: Caller, slot: usize, wanted: Wanted) -> Error {
        match *error.0 {
            Kind::Raised(value, None) => {
                let place = if caller == Caller::Native { None } else { self.position() };
                Error::raise_at(value, place)
            }
            Kind::Yield(_) => {
                self.co.resume_at = Some((slot, wanted));
                error
            }
            _ => error,
        }
    }

    /// Closes the upvalues from this stack slot on.
    pub(crate) fn close(&mut self, from: usize) {
        while let Some((at, id)) = self.co.open.last().copied()
            && at >= from
        {
            self.co.open.pop();
            self.heap.release(OPEN_BYTES);
            self.heap.set_upvalue(id, Upvalue::Closed(self.co.stack[at]));
        }
    }

    /// The upvalue of this stack slot.
    pub(super) fn capture(&mut self, at: usize) -> Result<u32> {
        let from = self.co.open.partition_point(|(open, _)| *open < at);
        if let Some((open, id)) = self.co.open.get(from)
            && *open == at
        {
            return Ok(*id);
        }
        self.heap.charge(OPEN_BYTES)?;
        let id = self.heap.upvalue(Upvalue::Open(self.current, at as u32))?;
        self.co.open.insert(from, (at, id));
        Ok(id)
    }

    /// Unwinds the calls that an error has ended.
    pub(crate) fn unwind(&mut self, frames: usize, stack: usize) {
        self.close(stack);
        if let Some(first) = self.co.frames.get(frames) {
            self.proto = std::rc::Rc::clone(&first.caller_proto);
        }
        self.co.frames.truncate(frames);
        self.co.stack.truncate(stack);
    }
}
