//! Table constructors, and functions within functions. It touches nothing beside the function that is being compiled.

use std::rc::Rc;

use super::func::Func;
use super::lexer::Token;
use super::op::{NO_REGISTER, Op};
use super::registers::{Exp, Expr};
use super::{Compiler, Proto};
use crate::error::Result;
use crate::value::StrId;

/// Values of a constructor that one instruction stores.
pub(crate) const FIELDS_PER_FLUSH: usize = 50;

impl Compiler<'_> {
    pub(super) fn constructor(&mut self) -> Result<Expr> {
        let line = self.line();
        let pc = self.emit(Op::NewTable { a: NO_REGISTER, array: 0, nodes: 0 })?;
        let mut table: Expr = Exp::Open(pc).into();
        let a = self.place_next(&mut table)?;
        let (mut items, mut fields, mut pending) = (0_usize, 0_usize, 0_usize);
        let mut last: Expr = Exp::Void.into();
        self.expect_char(b'{')?;
        while !self.is_char(b'}') {
            if last.exp != Exp::Void {
                self.place_next(&mut last)?;
                last = Exp::Void.into();
                if pending == FIELDS_PER_FLUSH {
                    self.flush(a, pending, items)?;
                    pending = 0;
                }
            }
            let is_named = matches!(self.token, Token::Name(_)) && self.look_ahead()? == Token::Char(b'=');
            if is_named || self.is_char(b'[') {
                self.field_of(a)?;
                fields += 1;
            } else {
                last = self.expr()?;
                items += 1;
                pending += 1;
            }
            if !(self.accept_char(b',')? || self.accept_char(b';')?) {
                break;
            }
        }
        self.expect_close("}", "{", line)?;
        if pending > 0 {
            self.flush_last(a, last, pending, &mut items)?;
        }
        if let Op::NewTable { array, nodes, .. } = &mut self.func().code[pc] {
            (*array, *nodes) = (capacity(items), capacity(fields));
        }
        Ok(table)
    }

    /// `name = value` or `[key] = value` of a constructor.
    fn field_of(&mut self, table: u8) -> Result<()> {
        let free = self.func().free;
        let key = match self.token {
            Token::Name(name) => {
                self.advance()?;
                self.place_operand(&mut Exp::String(name).into())?
            }
            _ => self.bracket()?,
        };
        self.expect_char(b'=')?;
        let mut value = self.expr()?;
        let value = self.place_operand(&mut value)?;
        self.emit(Op::SetIndex { table, key, value })?;
        self.func().free = free;
        Ok(())
    }

    fn flush(&mut self, a: u8, pending: usize, items: usize) -> Result<()> {
        let block = ((items - 1) / FIELDS_PER_FLUSH + 1) as u32;
        self.emit(Op::SetList { a, count: pending as u8 + 1, block })?;
        self.func().free = usize::from(a) + 1;
        Ok(())
    }

    fn flush_last(&mut self, a: u8, mut last: Expr, pending: usize, items: &mut usize) -> Result<()> {
        if last.is_open() {
            self.values(&mut last, None)?;
            let block = ((*items - 1) / FIELDS_PER_FLUSH + 1) as u32;
            self.emit(Op::SetList { a, count: 0, block })?;
            self.func().free = usize::from(a) + 1;
            *items -= 1;
            return Ok(());
        }
        if last.exp != Exp::Void {
            self.place_next(&mut last)?;
        }
        self.flush(a, pending, *items)
    }

    /// Parameters and statements of a function, up to its `end`.
    pub(super) fn body(&mut self, is_method: bool, line: u32) -> Result<Expr> {
        self.deeper()?;
        self.heap.charge(size_of::<Proto>())?;
        self.funcs.push(Func::new(line));
        self.enter(false);
        self.expect_char(b'(')?;
        if is_method {
            let name = self.heap.str(b"self")?;
            self.add_parameter(name)?;
        }
        self.parameters()?;
        self.expect_char(b')')?;
        let count = self.func().locals.len();
        self.func().params = count as u8;
        self.reserve(count)?;
        self.statements()?;
        let end = self.line();
        self.expect_close("end", "function", line)?;
        self.leave()?;
        self.emit(Op::Return { a: 0, count: 1 })?;
        self.func().fix_line(end);
        self.levels -= 1;
        let Some(func) = self.funcs.pop() else { return Ok(Exp::Nil.into()) };
        let proto = func.finish(Rc::clone(&self.source));
        let index = self.func().protos.len() as u32;
        self.func().protos.push(Rc::new(proto));
        Ok(Exp::Open(self.emit(Op::Closure { a: NO_REGISTER, proto: index })?).into())
    }

    fn add_parameter(&mut self, name: StrId) -> Result<()> {
        self.check_locals(1)?;
        self.func().locals.push(name);
        Ok(())
    }

    fn parameters(&mut self) -> Result<()> {
        if self.is_char(b')') {
            return Ok(());
        }
        loop {
            match self.token {
                Token::Name(_) => {
                    let name = self.name()?;
                    self.add_parameter(name)?;
                }
                Token::Sign("...") => {
                    self.advance()?;
                    self.func().is_vararg = true;
                    return Ok(());
                }
                _ => return Err(self.error_near("<name> or '...' expected")),
            }
            if !self.accept_char(b',')? {
                return Ok(());
            }
        }
    }
}

/// A capacity, rounded as in Lua: to eight times a power of two, in eighths.
fn capacity(count: usize) -> u16 {
    let (mut mantissa, mut exponent) = (count, 0);
    while mantissa >= 16 {
        mantissa = mantissa.div_ceil(2);
        exponent += 1;
    }
    u16::try_from(mantissa << exponent).unwrap_or(u16::MAX)
}
