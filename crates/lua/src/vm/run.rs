//! The loop that executes instructions. It touches the stack of the coroutine that runs.
//!
//! What is plain happens here; everything that may call a metamethod or fail is a function elsewhere. Invariant: between two jumps back
//! or calls there is only as much work as the text is long, so that work is counted at these.

use std::rc::Rc;

use super::call::Called;
use super::coroutine::{Caller, Wanted};
use super::{BUILT_IN, Event, Host, Vm};
use crate::compile::construct::FIELDS_PER_FLUSH;
use crate::compile::expr_modulo as modulo;
use crate::compile::op::{Op, Rk};
use crate::compile::proto::Capture;
use crate::error::Result;
use crate::heap::Closure;
use crate::value::{FuncId, Value};

/// Work of a call.
const CALL_WORK: usize = 5;

fn wanted(count: u8) -> Wanted {
    count.checked_sub(1).map(u32::from)
}

/// The frame that is being executed.
#[derive(Clone, Copy)]
struct Here {
    closure: FuncId,
    base: usize,
    pc: usize,
}

impl Vm {
    fn here(&self) -> Here {
        match self.co.frames.last() {
            Some(frame) => Here { closure: frame.closure, base: frame.base, pc: frame.pc },
            None => unreachable!("the loop has a frame to execute"),
        }
    }

    #[inline]
    fn rk(&self, here: &Here, rk: Rk) -> Value {
        if rk.0 & Rk::CONSTANT == 0 {
            self.co.stack[here.base + usize::from(rk.0)]
        } else {
            self.proto.constants[usize::from(rk.0 & !Rk::CONSTANT)]
        }
    }

    #[inline]
    fn reg(&self, here: &Here, register: u8) -> Value {
        self.co.stack[here.base + usize::from(register)]
    }

    #[inline]
    fn set(&mut self, here: &Here, register: u8, value: Value) {
        self.co.stack[here.base + usize::from(register)] = value;
    }

    /// Executes the innermost function, and what it calls, until it returns.
    pub(super) fn execute(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut here = self.here();
        /// Arithmetic: plain on numbers, elsewhere otherwise.
        macro_rules! arithmetic {
            ($a:expr, $b:expr, $c:expr, $event:expr, $plain:expr) => {{
                let (x, y) = (self.rk(&here, $b), self.rk(&here, $c));
                let value = if let (Value::Num(x), Value::Num(y)) = (x, y) {
                    Value::Num($plain(x, y))
                } else {
                    self.arithmetic(host, $event, (x, y), ($b, $c))?
                };
                self.set(&here, $a, value);
            }};
        }
        /// A comparison and the jump behind it.
        macro_rules! branch {
            ($taken:expr) => {{
                if $taken {
                    self.jump_behind(host, &mut here)?;
                } else {
                    here.pc += 1;
                }
            }};
        }
        loop {
            let op = self.proto.code[here.pc];
            self.pc = here.pc;
            here.pc += 1;
            match op {
                Op::Move { a, b } => {
                    let value = self.reg(&here, b);
                    self.set(&here, a, value);
                }
                Op::LoadK { a, k } => {
                    let value = self.proto.constants[k as usize];
                    self.set(&here, a, value);
                }
                Op::LoadBool { a, value, skip } => {
                    self.set(&here, a, Value::Bool(value));
                    here.pc += usize::from(skip);
                }
                Op::LoadNil { a, last } => {
                    let from = here.base + usize::from(a);
                    self.co.stack[from..=here.base + usize::from(last)].fill(Value::Nil);
                }
                Op::GetUpvalue { a, up } => {
                    let id = self.heap.closure_of(here.closure).upvalues[usize::from(up)];
                    let value = self.upvalue(id);
                    self.set(&here, a, value);
                }
                Op::SetUpvalue { a, up } => {
                    let id = self.heap.closure_of(here.closure).upvalues[usize::from(up)];
                    self.set_upvalue(id, self.reg(&here, a));
                }
                Op::GetGlobal { a, k } => {
                    let (key, globals) = (self.proto.constants[k as usize], self.globals);
                    let mut value = self.heap.raw_get(globals, key);
                    if value.is_nil() {
                        value = self.index(host, Value::Table(globals), key, None)?;
                    }
                    self.set(&here, a, value);
                }
                Op::SetGlobal { a, k } => {
                    let (key, value) = (self.proto.constants[k as usize], self.reg(&here, a));
                    self.set_index(host, Value::Table(self.globals), key, value, None)?;
                }
                Op::GetField { a, table, k } => {
                    let (object, key) = (self.reg(&here, table), self.proto.constants[usize::from(k)]);
                    let value = self.get_field(host, object, key, table)?;
                    self.set(&here, a, value);
                }
                Op::GetIndex { a, table, key } => {
                    let (object, key) = (self.reg(&here, table), self.rk(&here, key));
                    let value = self.get_field(host, object, key, table)?;
                    self.set(&here, a, value);
                }
                Op::SetIndex { table, key, value } => {
                    let object = self.reg(&here, table);
                    let (key, value) = (self.rk(&here, key), self.rk(&here, value));
                    self.set_field_of(host, object, key, value, table)?;
                }
                Op::NewTable { a, array, nodes } => {
                    let id = self.heap.table(usize::from(array), usize::from(nodes))?;
                    self.set(&here, a, Value::Table(id));
                    self.collect_if_due();
                }
                Op::Method { a, object, key } => {
                    let (receiver, key) = (self.reg(&here, object), self.rk(&here, key));
                    let value = self.get_field(host, receiver, key, object)?;
                    self.set(&here, a, value);
                    self.set(&here, a + 1, receiver);
                }
                Op::Add { a, b, c } => arithmetic!(a, b, c, Event::Add, |x: f64, y: f64| x + y),
                Op::Sub { a, b, c } => arithmetic!(a, b, c, Event::Sub, |x: f64, y: f64| x - y),
                Op::Mul { a, b, c } => arithmetic!(a, b, c, Event::Mul, |x: f64, y: f64| x * y),
                Op::Div { a, b, c } => arithmetic!(a, b, c, Event::Div, |x: f64, y: f64| x / y),
                Op::Mod { a, b, c } => arithmetic!(a, b, c, Event::Mod, modulo),
                Op::Pow { a, b, c } => arithmetic!(a, b, c, Event::Pow, f64::powf),
                Op::Negate { a, b } => {
                    let value = match self.reg(&here, b) {
                        Value::Num(number) => Value::Num(-number),
                        other => {
                            let rk = Rk::register(b);
                            self.arithmetic(host, Event::Unm, (other, other), (rk, rk))?
                        }
                    };
                    self.set(&here, a, value);
                }
                Op::Not { a, b } => {
                    let value = Value::Bool(!self.reg(&here, b).truthy());
                    self.set(&here, a, value);
                }
                Op::Length { a, b } => {
                    let value = self.length(host, self.reg(&here, b), b)?;
                    self.set(&here, a, value);
                }
                Op::Concat { a, first, last } => {
                    let value = self.concat(host, here.base, first, last)?;
                    self.set(&here, a, value);
                    self.collect_if_due();
                }
                Op::Jump { by } => {
                    if by < 0 {
                        self.work(host, 2)?;
                    }
                    here.pc = here.pc.wrapping_add_signed(by as isize);
                }
                Op::Equal { want, b, c } => {
                    let (x, y) = (self.rk(&here, b), self.rk(&here, c));
                    let equal = x == y || (matches!(x, Value::Table(_)) && self.equals(host, x, y)?);
                    branch!(equal == want);
                }
                Op::Less { want, b, c } => {
                    let less = match (self.rk(&here, b), self.rk(&here, c)) {
                        (Value::Num(x), Value::Num(y)) => x < y,
                        (x, y) => self.less(host, x, y, false)?,
                    };
                    branch!(less == want);
                }
                Op::LessEqual { want, b, c } => {
                    let less = match (self.rk(&here, b), self.rk(&here, c)) {
                        (Value::Num(x), Value::Num(y)) => x <= y,
                        (x, y) => self.less(host, x, y, true)?,
                    };
                    branch!(less == want);
                }
                Op::Test { a, want } => branch!(self.reg(&here, a).truthy() == want),
                Op::TestSet { a, b, want } => {
                    let value = self.reg(&here, b);
                    if value.truthy() == want {
                        self.set(&here, a, value);
                    }
                    branch!(value.truthy() == want);
                }
                Op::Call { a, args, results } => {
                    self.work(host, CALL_WORK)?;
                    let slot = here.base + usize::from(a);
                    let args = if args == 0 { self.top - slot - 1 } else { usize::from(args) - 1 };
                    self.call_op(host, &mut here, slot, args, wanted(results))?;
                }
                Op::TailCall { a, args } => {
                    self.work(host, CALL_WORK)?;
                    let slot = here.base + usize::from(a);
                    let args = if args == 0 { self.top - slot - 1 } else { usize::from(args) - 1 };
                    self.tail_call(host, &mut here, slot, args)?;
                }
                Op::Return { a, count } => {
                    let from = here.base + usize::from(a);
                    let count = if count == 0 { self.top - from } else { usize::from(count) - 1 };
                    if self.leave(from, count)? {
                        return Ok(());
                    }
                    here = self.here();
                }
                Op::ForPrep { a, by } => {
                    self.prepare_for(&here, a)?;
                    here.pc = here.pc.wrapping_add_signed(by as isize);
                }
                Op::ForLoop { a, by } => {
                    self.work(host, 2)?;
                    let at = here.base + usize::from(a);
                    let [Value::Num(index), Value::Num(limit), Value::Num(step)] = self.co.stack[at..at + 3]
                    else {
                        continue;
                    };
                    let next = index + step;
                    if if step > 0.0 { next <= limit } else { limit <= next } {
                        self.co.stack[at] = Value::Num(next);
                        self.co.stack[at + 3] = Value::Num(next);
                        here.pc = here.pc.wrapping_add_signed(by as isize);
                    }
                }
                Op::IterCall { a, count } => self.iterate(host, &mut here, a, count)?,
                Op::IterLoop { a, by } => {
                    self.work(host, 2)?;
                    let at = here.base + usize::from(a);
                    let value = self.co.stack[at + 3];
                    if !value.is_nil() {
                        self.co.stack[at + 2] = value;
                        here.pc = here.pc.wrapping_add_signed(by as isize);
                    }
                }
                Op::SetList { a, count, block } => self.set_list(&here, a, count, block)?,
                Op::Close { a } => self.close(here.base + usize::from(a)),
                Op::Closure { a, proto } => {
                    let value = self.make_closure(&here, proto as usize)?;
                    self.set(&here, a, value);
                    self.collect_if_due();
                }
                Op::Vararg { a, count } => self.varargs(&here, a, count)?,
            }
        }
    }

    #[inline]
    fn collect_if_due(&mut self) {
        if self.heap.used() > self.heap.collect_at {
            self.collect();
        }
    }

    /// Takes the jump behind a test.
    #[inline]
    fn jump_behind(&mut self, host: &mut dyn Host, here: &mut Here) -> Result<()> {
        if let Op::Jump { by } = self.proto.code[here.pc] {
            if by < 0 {
                self.work(host, 2)?;
            }
            here.pc = (here.pc + 1).wrapping_add_signed(by as isize);
        }
        Ok(())
    }

    #[inline]
    fn get_field(&mut self, host: &mut dyn Host, object: Value, key: Value, register: u8) -> Result<Value> {
        if let Value::Table(id) = object {
            let table = self.heap.get_table(id);
            let value = table.get(key, self.heap.hash_of(key));
            if !value.is_nil() || table.meta.is_none() {
                return Ok(value);
            }
        }
        self.index(host, object, key, Some(register))
    }

    #[inline]
    fn set_field_of(
        &mut self,
        host: &mut dyn Host,
        object: Value,
        key: Value,
        value: Value,
        register: u8,
    ) -> Result<()> {
        if let Value::Table(id) = object
            && !self.heap.is_base_table(id)
        {
            let hash = self.heap.hash_of(key);
            let table = &mut self.heap.tables[id.0 as usize];
            if table.meta.is_none() && !table.read_only && table.replace(key, hash, value) {
                table.absent = 0;
                return Ok(());
            }
        }
        self.set_index(host, object, key, value, Some(register))
    }

    /// A call of the loop's own.
    #[inline]
    fn call_op(
        &mut self,
        host: &mut dyn Host,
        here: &mut Here,
        slot: usize,
        args: usize,
        wanted: Wanted,
    ) -> Result<()> {
        if let Some(frame) = self.co.frames.last_mut() {
            frame.pc = here.pc;
        }
        match self.begin_call(host, slot, args, wanted, Caller::Lua)? {
            Called::Entered => *here = self.here(),
            Called::Returned => {}
        }
        Ok(())
    }

    /// Leaves the innermost function with so many results from a place of the stack; whether the loop ends with it.
    fn leave(&mut self, from: usize, count: usize) -> Result<bool> {
        let Some(frame) = self.co.frames.pop() else { return Ok(true) };
        self.proto = frame.caller_proto;
        if !self.co.open.is_empty() {
            self.close(frame.base.min(frame.func + 1));
        }
        match frame.wanted {
            Some(wanted) => {
                let wanted = wanted as usize;
                let given = count.min(wanted);
                self.co.stack.copy_within(from..from + given, frame.func);
                if given < wanted {
                    self.ensure(frame.func + wanted)?;
                    self.co.stack[frame.func + given..frame.func + wanted].fill(Value::Nil);
                }
            }
            None => {
                self.co.stack.copy_within(from..from + count, frame.func);
                self.top = frame.func + count;
            }
        }
        Ok(frame.caller != Caller::Lua)
    }

    fn tail_call(&mut self, host: &mut dyn Host, here: &mut Here, slot: usize, args: usize) -> Result<()> {
        let is_lua = match self.co.stack[slot] {
            Value::Func(id) => &*self.heap.closure_of(id).proto.source != BUILT_IN,
            _ => false,
        };
        if !is_lua {
            // What is not a Lua function is called as ever; the instruction behind returns its results.
            return self.call_op(host, here, slot, args, None);
        }
        let Some(frame) = self.co.frames.pop() else { return Ok(()) };
        self.proto = frame.caller_proto;
        if !self.co.open.is_empty() {
            self.close(frame.base.min(frame.func + 1));
        }
        self.co.stack.copy_within(slot..=slot + args, frame.func);
        self.begin_call(host, frame.func, args, frame.wanted, frame.caller)?;
        if let Some(entered) = self.co.frames.last_mut() {
            entered.tail_calls = frame.tail_calls + 1;
        }
        *here = self.here();
        Ok(())
    }

    fn prepare_for(&mut self, here: &Here, a: u8) -> Result<()> {
        for (i, what) in ["initial value", "limit", "step"].into_iter().enumerate() {
            let at = here.base + usize::from(a) + i;
            let number = self.to_number(self.co.stack[at]);
            let Some(number) = number else {
                return Err(self.error(format!("'for' {what} must be a number")));
            };
            self.co.stack[at] = Value::Num(number);
        }
        let at = here.base + usize::from(a);
        if let (Value::Num(index), Value::Num(step)) = (self.co.stack[at], self.co.stack[at + 2]) {
            self.co.stack[at] = Value::Num(index - step);
        }
        Ok(())
    }

    /// Calls the iterator of a loop.
    fn iterate(&mut self, host: &mut dyn Host, here: &mut Here, a: u8, count: u8) -> Result<()> {
        self.work(host, CALL_WORK)?;
        let at = here.base + usize::from(a);
        let (function, state, control) = (self.co.stack[at], self.co.stack[at + 1], self.co.stack[at + 2]);
        if let (Value::Native(id), Value::Table(table)) = (function, state)
            && Some(id) == self.next
            && let Some((key, value)) = self.raw_next(table, control)
        {
            let values = [key, if key.is_nil() { Value::Nil } else { value }];
            for i in 0..usize::from(count) {
                self.co.stack[at + 3 + i] = values.get(i).copied().unwrap_or_default();
            }
            return Ok(());
        }
        // Where the variables are fewer than what a call needs, the registers behind them are free.
        self.ensure(at + 6)?;
        self.co.stack[at + 3] = function;
        self.co.stack[at + 4] = state;
        self.co.stack[at + 5] = control;
        self.call_op(host, here, at + 3, 2, Some(u32::from(count)))
    }

    fn set_list(&mut self, here: &Here, a: u8, count: u8, block: u32) -> Result<()> {
        let at = here.base + usize::from(a);
        let Value::Table(id) = self.co.stack[at] else { return Ok(()) };
        let count = if count == 0 { self.top - at - 1 } else { usize::from(count) - 1 };
        let first = (block as usize - 1) * FIELDS_PER_FLUSH;
        let table = self.heap.get_table(id);
        if first + count > table.array().len() {
            let before = table.bytes();
            self.heap.check_room((first + count) * size_of::<Value>())?;
            let table = self.heap.table_mut(id)?;
            table.reserve_array(first + count);
            let after = table.bytes();
            self.heap.charge(after.saturating_sub(before))?;
        }
        for i in 0..count {
            let value = self.co.stack[at + 1 + i];
            self.heap.raw_set(id, Value::Num((first + i + 1) as f64), value)?;
        }
        Ok(())
    }

    fn make_closure(&mut self, here: &Here, index: usize) -> Result<Value> {
        let proto = Rc::clone(&self.proto.protos[index]);
        let mut upvalues = Vec::with_capacity(proto.captures.len());
        for capture in &proto.captures {
            upvalues.push(match *capture {
                Capture::Register(register) => self.capture(here.base + usize::from(register))?,
                Capture::Upvalue(up) => self.heap.closure_of(here.closure).upvalues[usize::from(up)],
            });
        }
        let closure = Closure { proto, upvalues: upvalues.into_boxed_slice() };
        self.heap.closure(closure).map(Value::Func)
    }

    fn varargs(&mut self, here: &Here, a: u8, count: u8) -> Result<()> {
        let (func, given, params) = match self.co.frames.last() {
            Some(frame) => (frame.func, frame.varargs, usize::from(self.proto.params)),
            None => (0, 0, 0),
        };
        let to = here.base + usize::from(a);
        let wanted = if count == 0 { given } else { usize::from(count) - 1 };
        self.ensure(to + wanted)?;
        let taken = given.min(wanted);
        let from = func + 1 + params;
        self.co.stack.copy_within(from..from + taken, to);
        self.co.stack[to + taken..to + wanted].fill(Value::Nil);
        if count == 0 {
            self.top = to + wanted;
        }
        Ok(())
    }

    /// Goes on with a coroutine that has yielded.
    pub(crate) fn continue_execution(&mut self, host: &mut dyn Host) -> Result<()> {
        self.execute(host)
    }
}
