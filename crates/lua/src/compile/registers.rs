//! How an expression gets its register: the description of a value until it is needed. It touches nothing beside the function that is
//! being compiled.

use super::Compiler;
use super::op::{NO_REGISTER, Op, Rk};
use crate::error::Result;
use crate::value::{StrId, Value};

/// Where a value is, or how it is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Exp {
    Void,
    Nil,
    True,
    False,
    Number(f64),
    String(StrId),
    Local(u8),
    Upvalue(u8),
    Global(StrId),
    Indexed {
        table: u8,
        key: Rk,
    },
    /// A call, by its instruction; the number of its results is open.
    Call(usize),
    Vararg(usize),
    /// An instruction whose register is still to be set.
    Open(usize),
    Register(u8),
    /// A jump that is taken if a comparison holds.
    Jump(usize),
}

/// An expression: its value, and jumps out of it where it is known to be true or false.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) exp: Exp,
    pub(super) on_true: Vec<usize>,
    pub(super) on_false: Vec<usize>,
}

impl From<Exp> for Expr {
    fn from(exp: Exp) -> Expr {
        Expr { exp, on_true: Vec::new(), on_false: Vec::new() }
    }
}

impl Expr {
    pub(super) fn has_jumps(&self) -> bool {
        !self.on_true.is_empty() || !self.on_false.is_empty()
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.exp, Exp::Call(_) | Exp::Vararg(_))
    }
}

/// Merges lists of jumps.
pub(super) fn join(jumps: &mut Vec<usize>, more: &mut Vec<usize>) {
    if jumps.len() < more.len() {
        std::mem::swap(jumps, more);
    }
    jumps.append(more);
}

impl Compiler<'_> {
    /// Converts a variable, a field or a call to a value.
    pub(super) fn discharge(&mut self, e: &mut Expr) -> Result<()> {
        e.exp = match e.exp {
            Exp::Local(register) => Exp::Register(register),
            Exp::Upvalue(up) => Exp::Open(self.emit(Op::GetUpvalue { a: NO_REGISTER, up })?),
            Exp::Global(name) => {
                let k = self.constant(Value::Str(name))? as u32;
                Exp::Open(self.emit(Op::GetGlobal { a: NO_REGISTER, k })?)
            }
            Exp::Indexed { table, key } => {
                self.func().release_rk(key);
                self.func().release(table);
                let op = match self.field(key) {
                    Some(k) => Op::GetField { a: NO_REGISTER, table, k },
                    None => Op::GetIndex { a: NO_REGISTER, table, key },
                };
                Exp::Open(self.emit(op)?)
            }
            Exp::Call(_) | Exp::Vararg(_) => {
                self.one_value(e);
                return Ok(());
            }
            other => other,
        };
        Ok(())
    }

    /// A key that is a string among the constants.
    fn field(&mut self, key: Rk) -> Option<u16> {
        let index = key.0 & !Rk::CONSTANT;
        (key.as_register().is_none() && self.func().is_string(usize::from(index))).then_some(index)
    }

    /// Adjusts a call or `...` to one value.
    pub(super) fn one_value(&mut self, e: &mut Expr) {
        match e.exp {
            Exp::Call(pc) => {
                if let Op::Call { a, .. } = self.func().code[pc] {
                    e.exp = Exp::Register(a);
                }
            }
            Exp::Vararg(pc) => {
                if let Op::Vararg { count, .. } = &mut self.func().code[pc] {
                    *count = 2;
                }
                e.exp = Exp::Open(pc);
            }
            _ => {}
        }
    }

    /// Adjusts a call or `...` to this many values; `None`: all.
    pub(super) fn values(&mut self, e: &mut Expr, wanted: Option<usize>) -> Result<()> {
        let wanted = wanted.map_or(0, |count| count + 1) as u8;
        let free = self.func().free as u8;
        match e.exp {
            Exp::Call(pc) => {
                if let Op::Call { results, .. } = &mut self.func().code[pc] {
                    *results = wanted;
                }
            }
            Exp::Vararg(pc) => {
                if let Op::Vararg { a, count } = &mut self.func().code[pc] {
                    (*a, *count) = (free, wanted);
                }
                self.reserve(1)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts the value into this register.
    fn load(&mut self, e: &mut Expr, register: u8) -> Result<()> {
        self.discharge(e)?;
        let a = register;
        match e.exp {
            Exp::Nil => {
                self.emit(Op::LoadNil { a, last: a })?;
            }
            Exp::True | Exp::False => {
                self.emit(Op::LoadBool { a, value: e.exp == Exp::True, skip: false })?;
            }
            Exp::Number(number) => {
                let k = self.constant(Value::Num(number))? as u32;
                self.emit(Op::LoadK { a, k })?;
            }
            Exp::String(id) => {
                let k = self.constant(Value::Str(id))? as u32;
                self.emit(Op::LoadK { a, k })?;
            }
            Exp::Open(pc) => self.func().set_target(pc, register),
            Exp::Register(from) if from != register => {
                self.emit(Op::Move { a, b: from })?;
            }
            Exp::Register(_) => {}
            _ => return Ok(()),
        }
        e.exp = Exp::Register(register);
        Ok(())
    }

    fn load_anywhere(&mut self, e: &mut Expr) -> Result<u8> {
        if let Exp::Register(register) = e.exp {
            return Ok(register);
        }
        self.reserve(1)?;
        let register = (self.func().free - 1) as u8;
        self.load(e, register)?;
        Ok(register)
    }

    /// Puts the whole expression, including its jumps, into this register.
    pub(super) fn place_in(&mut self, e: &mut Expr, register: u8) -> Result<()> {
        self.load(e, register)?;
        if let Exp::Jump(pc) = e.exp {
            e.on_true.push(pc);
        }
        if e.has_jumps() {
            let func = self.func();
            let needs = |jumps: &[usize]| jumps.iter().any(|pc| !func.brings_value(*pc));
            let (mut load_false, mut load_true) = (0, 0);
            if needs(&e.on_true) || needs(&e.on_false) {
                let over = if let Exp::Jump(_) = e.exp { None } else { Some(self.jump()?) };
                load_false = self.emit(Op::LoadBool { a: register, value: false, skip: true })?;
                load_true = self.emit(Op::LoadBool { a: register, value: true, skip: false })?;
                if let Some(over) = over {
                    let here = self.func().here();
                    self.func().fix_jump(over, here);
                }
            }
            let end = self.func().here();
            for (jumps, load) in [(&e.on_false, load_false), (&e.on_true, load_true)] {
                for pc in jumps {
                    let brought = self.func().take_value(*pc, register);
                    self.func().fix_jump(*pc, if brought { end } else { load });
                }
            }
            self.func().forget(register);
        }
        *e = Exp::Register(register).into();
        Ok(())
    }

    pub(super) fn place_next(&mut self, e: &mut Expr) -> Result<u8> {
        self.discharge(e)?;
        self.release(e);
        self.reserve(1)?;
        let register = (self.func().free - 1) as u8;
        self.place_in(e, register)?;
        Ok(register)
    }

    pub(super) fn place_anywhere(&mut self, e: &mut Expr) -> Result<u8> {
        self.discharge(e)?;
        if let Exp::Register(register) = e.exp {
            if !e.has_jumps() {
                return Ok(register);
            }
            // A variable must not be overwritten.
            if usize::from(register) >= self.func().locals.len() {
                self.place_in(e, register)?;
                return Ok(register);
            }
        }
        self.place_next(e)
    }

    pub(super) fn place_value(&mut self, e: &mut Expr) -> Result<()> {
        if e.has_jumps() { self.place_anywhere(e).map(drop) } else { self.discharge(e) }
    }

    /// As a register, or as a constant if it is one.
    pub(super) fn place_operand(&mut self, e: &mut Expr) -> Result<Rk> {
        self.place_value(e)?;
        let constant = match e.exp {
            _ if e.has_jumps() => None,
            Exp::Number(number) => Some(Value::Num(number)),
            Exp::String(id) => Some(Value::Str(id)),
            Exp::Nil => Some(Value::Nil),
            Exp::True => Some(Value::Bool(true)),
            Exp::False => Some(Value::Bool(false)),
            _ => None,
        };
        if let Some(value) = constant {
            let index = self.constant(value)?;
            if let Some(rk) = Rk::constant(index) {
                return Ok(rk);
            }
        }
        self.place_anywhere(e).map(Rk::register)
    }

    pub(super) fn release(&mut self, e: &Expr) {
        if let Exp::Register(register) = e.exp {
            self.func().release(register);
        }
    }

    /// A jump that is taken if the value is as true as `when`.
    fn jump_if(&mut self, e: &mut Expr, when: bool) -> Result<usize> {
        if let Exp::Open(pc) = e.exp
            && let Op::Not { b, .. } = self.func().code[pc]
            && pc + 1 == self.func().here()
        {
            self.func().drop_last();
            self.emit(Op::Test { a: b, want: !when })?;
            return self.jump();
        }
        let b = self.load_anywhere(e)?;
        self.release(e);
        self.emit(Op::TestSet { a: NO_REGISTER, b, want: when })?;
        self.jump()
    }

    /// Continues if it is true; jumps if it is not.
    pub(super) fn go_if_true(&mut self, e: &mut Expr) -> Result<()> {
        self.discharge(e)?;
        let jump = match e.exp {
            Exp::String(_) | Exp::Number(_) | Exp::True => None,
            Exp::False => Some(self.jump()?),
            Exp::Jump(pc) => {
                self.func().invert(pc);
                Some(pc)
            }
            _ => Some(self.jump_if(e, false)?),
        };
        e.on_false.extend(jump);
        let here = self.func().here();
        let jumps = std::mem::take(&mut e.on_true);
        self.func().fix_jumps(&jumps, here);
        Ok(())
    }

    /// Continues if it is false; jumps if it is not.
    pub(super) fn go_if_false(&mut self, e: &mut Expr) -> Result<()> {
        self.discharge(e)?;
        let jump = match e.exp {
            Exp::Nil | Exp::False => None,
            Exp::True => Some(self.jump()?),
            Exp::Jump(pc) => Some(pc),
            _ => Some(self.jump_if(e, true)?),
        };
        e.on_true.extend(jump);
        let here = self.func().here();
        let jumps = std::mem::take(&mut e.on_false);
        self.func().fix_jumps(&jumps, here);
        Ok(())
    }

    pub(super) fn negate_truth(&mut self, e: &mut Expr) -> Result<()> {
        self.discharge(e)?;
        e.exp = match e.exp {
            Exp::Nil | Exp::False => Exp::True,
            Exp::String(_) | Exp::Number(_) | Exp::True => Exp::False,
            Exp::Jump(pc) => {
                self.func().invert(pc);
                Exp::Jump(pc)
            }
            _ => {
                let b = self.load_anywhere(e)?;
                self.release(e);
                Exp::Open(self.emit(Op::Not { a: NO_REGISTER, b })?)
            }
        };
        std::mem::swap(&mut e.on_true, &mut e.on_false);
        for pc in e.on_true.iter().chain(&e.on_false) {
            // The value itself is no longer the result.
            self.func().take_value(*pc, NO_REGISTER);
        }
        Ok(())
    }

    /// Puts a value into a variable or a field.
    pub(super) fn store(&mut self, target: Exp, value: &mut Expr) -> Result<()> {
        match target {
            Exp::Local(register) => {
                self.release(value);
                return self.place_in(value, register);
            }
            Exp::Upvalue(up) => {
                let a = self.place_anywhere(value)?;
                self.emit(Op::SetUpvalue { a, up })?;
            }
            Exp::Global(name) => {
                let a = self.place_anywhere(value)?;
                let k = self.constant(Value::Str(name))? as u32;
                self.emit(Op::SetGlobal { a, k })?;
            }
            Exp::Indexed { table, key } => {
                let value = self.place_operand(value)?;
                self.emit(Op::SetIndex { table, key, value })?;
            }
            _ => {}
        }
        self.release(value);
        Ok(())
    }
}
