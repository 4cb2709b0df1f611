//! The loop that executes instructions. It touches the stack of the coroutine that runs.
//!
//! It has the fast paths; everything that may call a metamethod or fail is a function elsewhere. Invariant: between two backward jumps
//! or calls, the work is bounded by the length of the text, so work is counted only at these.

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
struct Cursor {
    closure: FuncId,
    base: usize,
    pc: usize,
}

impl Vm {
    fn cursor(&self) -> Cursor {
        match self.co.frames.last() {
            Some(frame) => Cursor { closure: frame.closure, base: frame.base, pc: frame.pc },
            None => unreachable!("the loop has a frame to execute"),
        }
    }

    #[inline]
    fn rk(&self, cursor: &Cursor, rk: Rk) -> Value {
        if rk.0 & Rk::CONSTANT == 0 {
            self.co.stack[cursor.base + usize::from(rk.0)]
        } else {
            self.proto.constants[usize::from(rk.0 & !Rk::CONSTANT)]
        }
    }

    #[inline]
    fn reg(&self, cursor: &Cursor, register: u8) -> Value {
        self.co.stack[cursor.base + usize::from(register)]
    }

    #[inline]
    fn set(&mut self, cursor: &Cursor, register: u8, value: Value) {
        self.co.stack[cursor.base + usize::from(register)] = value;
    }

    /// Executes the innermost function, and what it calls, until it returns.
    pub(super) fn execute(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut cursor = self.cursor();
        /// Arithmetic: the fast path on numbers, else the slow path.
        macro_rules! arithmetic {
            ($a:expr, $b:expr, $c:expr, $event:expr, $plain:expr) => {{
                let (x, y) = (self.rk(&cursor, $b), self.rk(&cursor, $c));
                let value = if let (Value::Num(x), Value::Num(y)) = (x, y) {
                    Value::Num($plain(x, y))
                } else {
                    self.arithmetic(host, $event, (x, y), ($b, $c))?
                };
                self.set(&cursor, $a, value);
            }};
        }
        /// A comparison and the jump after it.
        macro_rules! branch {
            ($taken:expr) => {{
                if $taken {
                    self.jump_behind(host, &mut cursor)?;
                } else {
                    cursor.pc += 1;
                }
            }};
        }
        loop {
            let op = self.proto.code[cursor.pc];
            self.pc = cursor.pc;
            cursor.pc += 1;
            match op {
                Op::Move { a, b } => {
                    let value = self.reg(&cursor, b);
                    self.set(&cursor, a, value);
                }
                Op::LoadK { a, k } => {
                    let value = self.proto.constants[k as usize];
                    self.set(&cursor, a, value);
                }
                Op::LoadBool { a, value, skip } => {
                    self.set(&cursor, a, Value::Bool(value));
                    cursor.pc += usize::from(skip);
                }
                Op::LoadNil { a, last } => {
                    let from = cursor.base + usize::from(a);
                    self.co.stack[from..=cursor.base + usize::from(last)].fill(Value::Nil);
                }
                Op::GetUpvalue { a, up } => {
                    let id = self.heap.closure_of(cursor.closure).upvalues[usize::from(up)];
                    let value = self.upvalue(id);
                    self.set(&cursor, a, value);
                }
                Op::SetUpvalue { a, up } => {
                    let id = self.heap.closure_of(cursor.closure).upvalues[usize::from(up)];
                    self.set_upvalue(id, self.reg(&cursor, a));
                }
                Op::GetGlobal { a, k } => {
                    let (key, globals) = (self.proto.constants[k as usize], self.globals);
                    let mut value = self.heap.raw_get(globals, key);
                    if value.is_nil() {
                        value = self.index(host, Value::Table(globals), key, None)?;
                    }
                    self.set(&cursor, a, value);
                }
                Op::SetGlobal { a, k } => {
                    let (key, value) = (self.proto.constants[k as usize], self.reg(&cursor, a));
                    self.set_index(host, Value::Table(self.globals), key, value, None)?;
                }
                Op::GetField { a, table, k } => {
                    let (object, key) = (self.reg(&cursor, table), self.proto.constants[usize::from(k)]);
                    let value = self.get_field(host, object, key, table)?;
                    self.set(&cursor, a, value);
                }
                Op::GetIndex { a, table, key } => {
                    let (object, key) = (self.reg(&cursor, table), self.rk(&cursor, key));
                    let value = self.get_field(host, object, key, table)?;
                    self.set(&cursor, a, value);
                }
                Op::SetIndex { table, key, value } => {
                    let object = self.reg(&cursor, table);
                    let (key, value) = (self.rk(&cursor, key), self.rk(&cursor, value));
                    self.set_field_of(host, object, key, value, table)?;
                }
                Op::NewTable { a, array, nodes } => {
                    let id = self.heap.table(usize::from(array), usize::from(nodes))?;
                    self.set(&cursor, a, Value::Table(id));
                    self.collect_if_due();
                }
                Op::Method { a, object, key } => {
                    let (receiver, key) = (self.reg(&cursor, object), self.rk(&cursor, key));
                    let value = self.get_field(host, receiver, key, object)?;
                    self.set(&cursor, a, value);
                    self.set(&cursor, a + 1, receiver);
                }
                Op::Add { a, b, c } => arithmetic!(a, b, c, Event::Add, |x: f64, y: f64| x + y),
                Op::Sub { a, b, c } => arithmetic!(a, b, c, Event::Sub, |x: f64, y: f64| x - y),
                Op::Mul { a, b, c } => arithmetic!(a, b, c, Event::Mul, |x: f64, y: f64| x * y),
                Op::Div { a, b, c } => arithmetic!(a, b, c, Event::Div, |x: f64, y: f64| x / y),
                Op::Mod { a, b, c } => arithmetic!(a, b, c, Event::Mod, modulo),
                Op::Pow { a, b, c } => arithmetic!(a, b, c, Event::Pow, f64::powf),
                Op::Negate { a, b } => {
                    let value = match self.reg(&cursor, b) {
                        Value::Num(number) => Value::Num(-number),
                        other => {
                            let rk = Rk::register(b);
                            self.arithmetic(host, Event::Unm, (other, other), (rk, rk))?
                        }
                    };
                    self.set(&cursor, a, value);
                }
                Op::Not { a, b } => {
                    let value = Value::Bool(!self.reg(&cursor, b).truthy());
                    self.set(&cursor, a, value);
                }
                Op::Length { a, b } => {
                    let value = self.length(host, self.reg(&cursor, b), b)?;
                    self.set(&cursor, a, value);
                }
                Op::Concat { a, first, last } => {
                    let value = self.concat(host, cursor.base, first, last)?;
                    self.set(&cursor, a, value);
                    self.collect_if_due();
                }
                Op::Jump { by } => {
                    if by < 0 {
                        self.work(host, 2)?;
                    }
                    cursor.pc = cursor.pc.wrapping_add_signed(by as isize);
                }
                Op::Equal { want, b, c } => {
                    let (x, y) = (self.rk(&cursor, b), self.rk(&cursor, c));
                    let equal = x == y || (matches!(x, Value::Table(_)) && self.equals(host, x, y)?);
                    branch!(equal == want);
                }
                Op::Less { want, b, c } => {
                    let less = match (self.rk(&cursor, b), self.rk(&cursor, c)) {
                        (Value::Num(x), Value::Num(y)) => x < y,
                        (x, y) => self.less(host, x, y, false)?,
                    };
                    branch!(less == want);
                }
                Op::LessEqual { want, b, c } => {
                    let less = match (self.rk(&cursor, b), self.rk(&cursor, c)) {
                        (Value::Num(x), Value::Num(y)) => x <= y,
                        (x, y) => self.less(host, x, y, true)?,
                    };
                    branch!(less == want);
                }
                Op::Test { a, want } => branch!(self.reg(&cursor, a).truthy() == want),
                Op::TestSet { a, b, want } => {
                    let value = self.reg(&cursor, b);
                    if value.truthy() == want {
                        self.set(&cursor, a, value);
                    }
                    branch!(value.truthy() == want);
                }
                Op::Call { a, args, results } => {
                    self.work(host, CALL_WORK)?;
                    let slot = cursor.base + usize::from(a);
                    let args = if args == 0 { self.top - slot - 1 } else { usize::from(args) - 1 };
                    self.call_op(host, &mut cursor, slot, args, wanted(results))?;
                }
                Op::TailCall { a, args } => {
                    self.work(host, CALL_WORK)?;
                    let slot = cursor.base + usize::from(a);
                    let args = if args == 0 { self.top - slot - 1 } else { usize::from(args) - 1 };
                    self.tail_call(host, &mut cursor, slot, args)?;
                }
                Op::Return { a, count } => {
                    let from = cursor.base + usize::from(a);
                    let count = if count == 0 { self.top - from } else { usize::from(count) - 1 };
                    if self.leave(from, count)? {
                        return Ok(());
                    }
                    cursor = self.cursor();
                }
                Op::ForPrep { a, by } => {
                    self.prepare_for(&cursor, a)?;
                    cursor.pc = cursor.pc.wrapping_add_signed(by as isize);
                }
                Op::ForLoop { a, by } => {
                    self.work(host, 2)?;
                    let at = cursor.base + usize::from(a);
                    let [Value::Num(index), Value::Num(limit), Value::Num(step)] = self.co.stack[at..at + 3]
                    else {
                        continue;
                    };
                    let next = index + step;
                    if if step > 0.0 { next <= limit } else { limit <= next } {
                        self.co.stack[at] = Value::Num(next);
                        self.co.stack[at + 3] = Value::Num(next);
                        cursor.pc = cursor.pc.wrapping_add_signed(by as isize);
                    }
                }
                Op::IterCall { a, count } => self.iterate(host, &mut cursor, a, count)?,
                Op::IterLoop { a, by } => {
                    self.work(host, 2)?;
                    let at = cursor.base + usize::from(a);
                    let value = self.co.stack[at + 3];
                    if !value.is_nil() {
                        self.co.stack[at + 2] = value;
                        cursor.pc = cursor.pc.wrapping_add_signed(by as isize);
                    }
                }
                Op::SetList { a, count, block } => self.set_list(&cursor, a, count, block)?,
                Op::Close { a } => self.close(cursor.base + usize::from(a)),
                Op::Closure { a, proto } => {
                    let value = self.make_closure(&cursor, proto as usize)?;
                    self.set(&cursor, a, value);
                    self.collect_if_due();
                }
                Op::Vararg { a, count } => self.varargs(&cursor, a, count)?,
            }
        }
    }

    #[inline]
    fn collect_if_due(&mut self) {
        if self.heap.used() > self.heap.collect_at {
            self.collect();
        }
    }

    /// Takes the jump after a test.
    #[inline]
    fn jump_behind(&mut self, host: &mut dyn Host, cursor: &mut Cursor) -> Result<()> {
        if let Op::Jump { by } = self.proto.code[cursor.pc] {
            if by < 0 {
                self.work(host, 2)?;
            }
            cursor.pc = (cursor.pc + 1).wrapping_add_signed(by as isize);
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
        cursor: &mut Cursor,
        slot: usize,
        args: usize,
        wanted: Wanted,
    ) -> Result<()> {
        if let Some(frame) = self.co.frames.last_mut() {
            frame.pc = cursor.pc;
        }
        match self.begin_call(host, slot, args, wanted, Caller::Lua)? {
            Called::Entered => *cursor = self.cursor(),
            Called::Returned => {}
        }
        Ok(())
    }

    /// Returns from the innermost function with these results on the stack. Returns whether the loop ends with it.
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

    fn tail_call(
        &mut self,
        host: &mut dyn Host,
        cursor: &mut Cursor,
        slot: usize,
        args: usize,
    ) -> Result<()> {
        let is_lua = match self.co.stack[slot] {
            Value::Func(id) => &*self.heap.closure_of(id).proto.source != BUILT_IN,
            _ => false,
        };
        if !is_lua {
            // A value that is not a Lua function is called normally; the next instruction returns its results.
            return self.call_op(host, cursor, slot, args, None);
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
        *cursor = self.cursor();
        Ok(())
    }

    fn prepare_for(&mut self, cursor: &Cursor, a: u8) -> Result<()> {
        for (i, what) in ["initial value", "limit", "step"].into_iter().enumerate() {
            let at = cursor.base + usize::from(a) + i;
            let number = self.to_number(self.co.stack[at]);
            let Some(number) = number else {
                return Err(self.error(format!("'for' {what} must be a number")));
            };
            self.co.stack[at] = Value::Num(number);
        }
        let at = cursor.base + usize::from(a);
        if let (Value::Num(index), Value::Num(step)) = (self.co.stack[at], self.co.stack[at + 2]) {
            self.co.stack[at] = Value::Num(index - step);
        }
        Ok(())
    }

    /// Calls the iterator of a loop.
    fn iterate(&mut self, host: &mut dyn Host, cursor: &mut Cursor, a: u8, count: u8) -> Result<()> {
        self.work(host, CALL_WORK)?;
        let at = cursor.base + usize::from(a);
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
        // If there are fewer variables than a call needs, the registers after them are free.
        self.ensure(at + 6)?;
        self.co.stack[at + 3] = function;
        self.co.stack[at + 4] = state;
        self.co.stack[at + 5] = control;
        self.call_op(host, cursor, at + 3, 2, Some(u32::from(count)))
    }

    fn set_list(&mut self, cursor: &Cursor, a: u8, count: u8, block: u32) -> Result<()> {
        let at = cursor.base + usize::from(a);
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

    fn make_closure(&mut self, cursor: &Cursor, index: usize) -> Result<Value> {
        let proto = Rc::clone(&self.proto.protos[index]);
        let mut upvalues = Vec::with_capacity(proto.captures.len());
        for capture in &proto.captures {
            upvalues.push(match *capture {
                Capture::Register(register) => self.capture(cursor.base + usize::from(register))?,
                Capture::Upvalue(up) => self.heap.closure_of(cursor.closure).upvalues[usize::from(up)],
            });
        }
        let closure = Closure { proto, upvalues: upvalues.into_boxed_slice() };
        self.heap.closure(closure).map(Value::Func)
    }

    fn varargs(&mut self, cursor: &Cursor, a: u8, count: u8) -> Result<()> {
        let (func, given, params) = match self.co.frames.last() {
            Some(frame) => (frame.func, frame.varargs, usize::from(self.proto.params)),
            None => (0, 0, 0),
        };
        let to = cursor.base + usize::from(a);
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

    /// Continues a coroutine that has yielded.
    pub(crate) fn continue_execution(&mut self, host: &mut dyn Host) -> Result<()> {
        self.execute(host)
    }
}
