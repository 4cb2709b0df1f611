//! The slow paths of operators: metatables, conversions, comparison. It touches the heap.

use super::coroutine::Caller;
use super::{Host, Vm};
use crate::bounds::META_LOOP_MAX;
use crate::compile::expr_modulo as modulo;
use crate::compile::op::Rk;
use crate::error::Result;
use crate::number;
use crate::value::{StrId, TableId, Value};

/// An event that a metatable may handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Index,
    NewIndex,
    Eq,
    Len,
    Call,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Unm,
    Lt,
    Le,
    Concat,
    ToString,
    Metatable,
}

impl Event {
    pub(crate) const NAMES: [&'static str; 17] = [
        "__index",
        "__newindex",
        "__eq",
        "__len",
        "__call",
        "__add",
        "__sub",
        "__mul",
        "__div",
        "__mod",
        "__pow",
        "__unm",
        "__lt",
        "__le",
        "__concat",
        "__tostring",
        "__metatable",
    ];

    /// The bit with which a metatable caches that it does not have it; only the first few have one.
    fn bit(self) -> u8 {
        if (self as u8) < 8 { 1 << self as u8 } else { 0 }
    }
}

impl Vm {
    /// The metatable of a value.
    #[inline]
    pub(crate) fn metatable(&self, value: Value) -> Option<TableId> {
        match value {
            Value::Table(id) => self.heap.get_table(id).meta,
            Value::Str(_) => self.string_meta,
            _ => None,
        }
    }

    /// The metamethod of a metatable for an event.
    #[inline]
    pub(crate) fn handler(&mut self, meta: TableId, event: Event) -> Value {
        let bit = event.bit();
        if self.heap.get_table(meta).absent & bit != 0 {
            return Value::Nil;
        }
        let found = self.heap.raw_get(meta, Value::Str(self.events[event as usize]));
        if found.is_nil() {
            self.heap.tables[meta.0 as usize].absent |= bit;
        }
        found
    }

    /// The metamethod of a value for an event.
    #[inline]
    pub(crate) fn meta_of(&mut self, value: Value, event: Event) -> Value {
        match self.metatable(value) {
            Some(meta) => self.handler(meta, event),
            None => Value::Nil,
        }
    }

    /// Calls a metamethod for one value.
    fn call_meta(&mut self, host: &mut dyn Host, handler: Value, args: &[Value]) -> Result<Value> {
        self.work(host, 10)?;
        self.call_by(host, Caller::Machine, handler, args, Some(1))?;
        Ok(self.co.stack.pop().unwrap_or_default())
    }

    /// `object[key]`. `register`: where the object is, for errors.
    pub(crate) fn index(
        &mut self,
        host: &mut dyn Host,
        mut object: Value,
        key: Value,
        register: Option<u8>,
    ) -> Result<Value> {
        for round in 0..META_LOOP_MAX {
            let handler = if let Value::Table(id) = object {
                let found = self.heap.raw_get(id, key);
                if !found.is_nil() {
                    return Ok(found);
                }
                let handler = self.meta_of(object, Event::Index);
                if handler.is_nil() {
                    return Ok(Value::Nil);
                }
                handler
            } else {
                let handler = self.meta_of(object, Event::Index);
                if handler.is_nil() {
                    let register = if round == 0 { register } else { None };
                    return Err(self.type_error("index", object, register));
                }
                handler
            };
            if let Value::Func(_) | Value::Native(_) = handler {
                return self.call_meta(host, handler, &[object, key]);
            }
            object = handler;
        }
        Err(self.fault("loop in gettable"))
    }

    /// `object[key] = value`.
    pub(crate) fn set_index(
        &mut self,
        host: &mut dyn Host,
        mut object: Value,
        key: Value,
        value: Value,
        register: Option<u8>,
    ) -> Result<()> {
        for round in 0..META_LOOP_MAX {
            let handler = if let Value::Table(id) = object {
                let has_meta = self.heap.get_table(id).meta.is_some();
                let handler = if has_meta && self.heap.raw_get(id, key).is_nil() {
                    self.meta_of(object, Event::NewIndex)
                } else {
                    Value::Nil
                };
                if handler.is_nil() {
                    return self.set_raw_checked(id, key, value);
                }
                handler
            } else {
                let handler = self.meta_of(object, Event::NewIndex);
                if handler.is_nil() {
                    let register = if round == 0 { register } else { None };
                    return Err(self.type_error("index", object, register));
                }
                handler
            };
            if let Value::Func(_) | Value::Native(_) = handler {
                self.work(host, 10)?;
                self.call_by(host, Caller::Machine, handler, &[object, key, value], Some(0))?;
                return Ok(());
            }
            object = handler;
        }
        Err(self.fault("loop in settable"))
    }

    /// Sets a key without metatables, unless the table is read-only.
    #[inline]
    pub(crate) fn set_raw_checked(&mut self, id: TableId, key: Value, value: Value) -> Result<()> {
        if self.heap.get_table(id).read_only {
            return Err(self.fault("Attempt to modify a readonly table"));
        }
        match key {
            Value::Nil => Err(self.fault("table index is nil")),
            Value::Num(number) if number.is_nan() => Err(self.fault("table index is NaN")),
            _ => self.heap.raw_set(id, key, value),
        }
    }

    /// A number, or a numeric string.
    #[inline]
    #[must_use]
    pub fn to_number(&self, value: Value) -> Option<f64> {
        match value {
            Value::Num(number) => Some(number),
            Value::Str(id) => number::parse(self.bytes(id)),
            _ => None,
        }
    }

    /// A string, or a number as one.
    ///
    /// # Errors
    /// When the memory budget is exceeded.
    pub fn coerce_str(&mut self, value: Value) -> Result<Option<StrId>> {
        match value {
            Value::Str(id) => Ok(Some(id)),
            Value::Num(number) => self.heap.str(number::format(number).as_bytes()).map(Some),
            _ => Ok(None),
        }
    }

    /// An operation on operands that are not both numbers.
    #[cold]
    pub(super) fn arithmetic(
        &mut self,
        host: &mut dyn Host,
        event: Event,
        (a, b): (Value, Value),
        (left, right): (Rk, Rk),
    ) -> Result<Value> {
        let numbers = (self.to_number(a), self.to_number(b));
        if let (Some(x), Some(y)) = numbers {
            return Ok(Value::Num(match event {
                Event::Add => x + y,
                Event::Sub => x - y,
                Event::Mul => x * y,
                Event::Div => x / y,
                Event::Mod => modulo(x, y),
                Event::Pow => x.powf(y),
                _ => -x,
            }));
        }
        let mut handler = self.meta_of(a, event);
        if handler.is_nil() {
            handler = self.meta_of(b, event);
        }
        if !handler.is_nil() {
            return self.call_meta(host, handler, &[a, b]);
        }
        let (culprit, rk) = if numbers.0.is_none() { (a, left) } else { (b, right) };
        Err(self.type_error("perform arithmetic on", culprit, rk.as_register()))
    }

    pub(super) fn length(&mut self, host: &mut dyn Host, value: Value, register: u8) -> Result<Value> {
        match value {
            Value::Table(id) => Ok(Value::Num(self.raw_len(id) as f64)),
            Value::Str(id) => Ok(Value::Num(self.bytes(id).len() as f64)),
            other => {
                let handler = self.meta_of(other, Event::Len);
                if handler.is_nil() {
                    return Err(self.type_error("get length of", other, Some(register)));
                }
                self.call_meta(host, handler, &[other, Value::Nil])
            }
        }
    }

    /// Joins the registers from `first` to `last`.
    pub(super) fn concat(&mut self, host: &mut dyn Host, base: usize, first: u8, last: u8) -> Result<Value> {
        let mut end = usize::from(last);
        let first = usize::from(first);
        let mut result = self.co.stack[base + end];
        while end > first {
            // All adjacent strings and numbers at once.
            let is_text = |value: Value| matches!(value, Value::Str(_) | Value::Num(_));
            let mut from = end;
            if is_text(result) {
                while from > first && is_text(self.co.stack[base + from - 1]) {
                    from -= 1;
                }
            }
            if from < end {
                self.co.stack[base + end] = result;
                result = self.join(host, base + from, base + end)?;
                end = from;
                continue;
            }
            let left = self.co.stack[base + end - 1];
            let mut handler = self.meta_of(left, Event::Concat);
            if handler.is_nil() {
                handler = self.meta_of(result, Event::Concat);
            }
            if handler.is_nil() {
                let (culprit, at) = if is_text(left) { (result, end) } else { (left, end - 1) };
                return Err(self.type_error("concatenate", culprit, Some(at as u8)));
            }
            result = self.call_meta(host, handler, &[left, result])?;
            end -= 1;
        }
        Ok(result)
    }

    /// Joins strings and numbers on the stack.
    fn join(&mut self, host: &mut dyn Host, from: usize, to: usize) -> Result<Value> {
        let mut len = 0;
        for at in from..=to {
            len += if let Value::Str(id) = self.co.stack[at] { self.bytes(id).len() } else { 24 };
        }
        self.heap.check_room(len)?;
        self.work(host, len / 16)?;
        let mut bytes = Vec::with_capacity(len);
        for at in from..=to {
            match self.co.stack[at] {
                Value::Str(id) => bytes.extend_from_slice(self.heap.strings.get(id)),
                Value::Num(number) => bytes.extend_from_slice(number::format(number).as_bytes()),
                _ => {}
            }
        }
        self.string_owned(bytes)
    }

    /// `a == b`.
    pub(crate) fn equals(&mut self, host: &mut dyn Host, a: Value, b: Value) -> Result<bool> {
        if a == b {
            return Ok(true);
        }
        let (Value::Table(x), Value::Table(y)) = (a, b) else { return Ok(false) };
        let (Some(mx), Some(my)) = (self.heap.get_table(x).meta, self.heap.get_table(y).meta) else {
            return Ok(false);
        };
        let handler = self.handler(mx, Event::Eq);
        if handler.is_nil() || (mx != my && handler != self.handler(my, Event::Eq)) {
            return Ok(false);
        }
        Ok(self.call_meta(host, handler, &[a, b])?.truthy())
    }

    /// `a < b`, or `a <= b`.
    pub(crate) fn less(&mut self, host: &mut dyn Host, a: Value, b: Value, or_equal: bool) -> Result<bool> {
        match (a, b) {
            (Value::Num(x), Value::Num(y)) => return Ok(if or_equal { x <= y } else { x < y }),
            (Value::Str(x), Value::Str(y)) => {
                let (x, y) = (self.bytes(x), self.bytes(y));
                let work = x.len().min(y.len()) / 16;
                let less = if or_equal { x <= y } else { x < y };
                self.work(host, work)?;
                return Ok(less);
            }
            _ => {}
        }
        if a.type_name() != b.type_name() {
            return Err(self.order_error(a, b));
        }
        let event = if or_equal { Event::Le } else { Event::Lt };
        let handler = self.common_handler(a, b, event);
        if !handler.is_nil() {
            return Ok(self.call_meta(host, handler, &[a, b])?.truthy());
        }
        if or_equal {
            let handler = self.common_handler(b, a, Event::Lt);
            if !handler.is_nil() {
                return Ok(!self.call_meta(host, handler, &[b, a])?.truthy());
            }
        }
        Err(self.order_error(a, b))
    }

    /// The metamethod of both operands for an event, if it is the same.
    fn common_handler(&mut self, a: Value, b: Value, event: Event) -> Value {
        let first = self.meta_of(a, event);
        if first.is_nil() || first == self.meta_of(b, event) { first } else { Value::Nil }
    }
}
