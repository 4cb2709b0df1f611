//! Statements. It touches nothing beside the function that is being compiled.

use super::Compiler;
use super::lexer::Token;
use super::op::{Op, Rk};
use super::registers::{Exp, Expr};
use crate::bounds::SYNTAX_LEVELS_MAX;
use crate::error::Result;
use crate::value::StrId;

impl Compiler<'_> {
    /// Whether the block ends here.
    fn block_follows(&self) -> bool {
        matches!(self.token, Token::End | Token::Word("else" | "elseif" | "end" | "until"))
    }

    pub(super) fn statements(&mut self) -> Result<()> {
        self.deeper()?;
        let mut is_last = false;
        while !is_last && !self.block_follows() {
            is_last = self.statement()?;
            self.accept_char(b';')?;
            let func = self.func();
            func.free = func.locals.len();
        }
        self.levels -= 1;
        Ok(())
    }

    /// Statements in a scope of their own.
    fn block(&mut self) -> Result<()> {
        self.enter(false);
        self.statements()?;
        self.leave()
    }

    /// One statement; whether it must be the last of its block.
    fn statement(&mut self) -> Result<bool> {
        let line = self.line();
        match self.token {
            Token::Word("if") => self.if_statement(line)?,
            Token::Word("while") => self.while_statement(line)?,
            Token::Word("do") => {
                self.advance()?;
                self.block()?;
                self.expect_close("end", "do", line)?;
            }
            Token::Word("for") => self.for_statement(line)?,
            Token::Word("repeat") => self.repeat_statement(line)?,
            Token::Word("function") => self.function_statement(line)?,
            Token::Word("local") => {
                self.advance()?;
                if self.accept_word("function")? { self.local_function()? } else { self.local_statement()? }
            }
            Token::Word("return") => {
                self.return_statement()?;
                return Ok(true);
            }
            Token::Word("break") => {
                self.advance()?;
                self.break_statement()?;
                return Ok(true);
            }
            _ => self.expr_statement()?,
        }
        Ok(false)
    }

    /// A condition: jumps that are taken if it is false.
    fn condition(&mut self) -> Result<Vec<usize>> {
        let mut e = self.expr()?;
        if e.exp == Exp::Nil {
            e.exp = Exp::False;
        }
        self.go_if_true(&mut e)?;
        Ok(e.on_false)
    }

    fn land(&mut self, jumps: &[usize]) {
        let here = self.func().here();
        self.func().fix_jumps(jumps, here);
    }

    fn if_statement(&mut self, line: u32) -> Result<()> {
        let mut ends = Vec::new();
        loop {
            // `if` or `elseif`.
            self.advance()?;
            let over = self.condition()?;
            self.expect_word("then")?;
            self.block()?;
            let more = self.is_word("elseif") || self.is_word("else");
            if more {
                ends.push(self.jump()?);
            }
            self.land(&over);
            if self.is_word("elseif") {
                continue;
            }
            if self.accept_word("else")? {
                self.block()?;
            }
            break;
        }
        self.expect_close("end", "if", line)?;
        self.land(&ends);
        Ok(())
    }

    fn while_statement(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        let begin = self.func().here();
        let exit = self.condition()?;
        self.enter(true);
        self.expect_word("do")?;
        self.block()?;
        self.jump_to(begin)?;
        self.expect_close("end", "while", line)?;
        self.leave()?;
        self.land(&exit);
        Ok(())
    }

    fn repeat_statement(&mut self, line: u32) -> Result<()> {
        let begin = self.func().here();
        self.enter(true);
        self.enter(false);
        self.advance()?;
        self.statements()?;
        self.expect_close("until", "repeat", line)?;
        let again = self.condition()?;
        let captured = self.func().blocks.last().is_some_and(|block| block.captured);
        if captured {
            // Variables of the block end with each iteration, including the last.
            self.break_statement()?;
            self.land(&again);
            self.leave()?;
            self.jump_to(begin)?;
        } else {
            self.leave()?;
            self.func().fix_jumps(&again, begin);
        }
        self.leave()
    }

    fn break_statement(&mut self) -> Result<()> {
        let func = self.func();
        let Some(at) = func.blocks.iter().rposition(|block| block.is_loop) else {
            return Err(self.error_near("no loop to break"));
        };
        let captured = func.blocks[at..].iter().skip(1).any(|block| block.captured);
        let outer = func.blocks[at].outer;
        if captured {
            self.emit(Op::Close { a: outer as u8 })?;
        }
        let pc = self.jump()?;
        self.func().blocks[at].breaks.push(pc);
        Ok(())
    }

    fn for_statement(&mut self, line: u32) -> Result<()> {
        self.enter(true);
        self.advance()?;
        let name = self.name()?;
        match self.token {
            Token::Char(b'=') => self.numeric_for(name, line)?,
            Token::Char(b',') | Token::Word("in") => self.generic_for(name)?,
            _ => return Err(self.error_near("'=' or 'in' expected")),
        }
        self.expect_close("end", "for", line)?;
        self.leave()
    }

    /// Variables that the text does not name.
    fn hidden(&mut self, names: [&str; 3]) -> Result<()> {
        self.check_locals(3)?;
        for name in names {
            let name = self.heap.str(name.as_bytes())?;
            self.func().locals.push(name);
        }
        Ok(())
    }

    fn numeric_for(&mut self, name: StrId, line: u32) -> Result<()> {
        let a = self.func().free as u8;
        self.advance()?;
        self.one_expr()?;
        self.expect_char(b',')?;
        self.one_expr()?;
        if self.accept_char(b',')? {
            self.one_expr()?;
        } else {
            let k = self.constant(crate::value::Value::Num(1.0))? as u32;
            let register = self.func().free as u8;
            self.emit(Op::LoadK { a: register, k })?;
            self.reserve(1)?;
        }
        self.hidden(["(for index)", "(for limit)", "(for step)"])?;
        self.expect_word("do")?;
        let prep = self.emit(Op::ForPrep { a, by: 0 })?;
        self.for_body(&[name])?;
        let loop_pc = self.emit(Op::ForLoop { a, by: 0 })?;
        self.func().fix_line(line);
        self.func().fix_jump(prep, loop_pc);
        self.func().fix_jump(loop_pc, prep + 1);
        Ok(())
    }

    fn one_expr(&mut self) -> Result<()> {
        let mut e = self.expr()?;
        self.place_next(&mut e).map(drop)
    }

    fn generic_for(&mut self, first: StrId) -> Result<()> {
        let a = self.func().free as u8;
        let mut names = vec![first];
        while self.accept_char(b',')? {
            names.push(self.name()?);
            self.check_locals(names.len() + 3)?;
        }
        self.expect_word("in")?;
        let line = self.line();
        let (e, count) = self.expr_list()?;
        self.adjust(3, count, e)?;
        // Registers for the call of the iterator.
        self.reserve(3)?;
        self.func().free -= 3;
        self.hidden(["(for generator)", "(for state)", "(for control)"])?;
        self.expect_word("do")?;
        let start = self.jump()?;
        let begin = self.func().here();
        let values = names.len() as u8;
        self.for_body(&names)?;
        self.land(&[start]);
        self.emit(Op::IterCall { a, count: values })?;
        self.func().fix_line(line);
        let again = self.emit(Op::IterLoop { a, by: 0 })?;
        self.func().fix_line(line);
        self.func().fix_jump(again, begin);
        Ok(())
    }

    fn for_body(&mut self, names: &[StrId]) -> Result<()> {
        self.enter(false);
        self.check_locals(names.len())?;
        self.reserve(names.len())?;
        self.func().locals.extend_from_slice(names);
        self.block()?;
        self.leave()
    }

    fn function_statement(&mut self, line: u32) -> Result<()> {
        self.advance()?;
        let name = self.name()?;
        let mut target: Expr = self.variable(name)?.into();
        let mut is_method = false;
        while self.is_char(b'.') {
            self.dot(&mut target)?;
        }
        if self.is_char(b':') {
            is_method = true;
            self.dot(&mut target)?;
        }
        let mut function = self.body(is_method, line)?;
        self.store(target.exp, &mut function)?;
        self.func().fix_line(line);
        Ok(())
    }

    fn local_function(&mut self) -> Result<()> {
        let name = self.name()?;
        self.check_locals(1)?;
        let register = self.func().free as u8;
        self.reserve(1)?;
        // It may call itself.
        self.func().locals.push(name);
        let line = self.line();
        let mut function = self.body(false, line)?;
        self.place_in(&mut function, register)
    }

    fn local_statement(&mut self) -> Result<()> {
        let mut names = Vec::new();
        loop {
            names.push(self.name()?);
            self.check_locals(names.len())?;
            if !self.accept_char(b',')? {
                break;
            }
        }
        if self.accept_char(b'=')? {
            let (e, count) = self.expr_list()?;
            self.adjust(names.len(), count, e)?;
        } else {
            self.adjust(names.len(), 0, Exp::Void.into())?;
        }
        self.func().locals.extend_from_slice(&names);
        Ok(())
    }

    /// Makes `count` expressions, of which this is the last, `wanted` values in registers.
    fn adjust(&mut self, wanted: usize, count: usize, mut e: Expr) -> Result<()> {
        if e.is_open() {
            let more = (wanted + 1).saturating_sub(count);
            self.values(&mut e, Some(more))?;
            if more > 1 {
                self.reserve(more - 1)?;
            }
            return Ok(());
        }
        if e.exp != Exp::Void {
            self.place_next(&mut e)?;
        }
        if wanted > count {
            let a = self.func().free;
            self.reserve(wanted - count)?;
            self.emit(Op::LoadNil { a: a as u8, last: (a + wanted - count - 1) as u8 })?;
        }
        Ok(())
    }

    fn expr_statement(&mut self) -> Result<()> {
        let mut e = self.primary()?;
        if let Exp::Call(pc) = e.exp {
            if let Op::Call { results, .. } = &mut self.func().code[pc] {
                *results = 1;
            }
            return Ok(());
        }
        let mut targets = Vec::new();
        loop {
            if !matches!(e.exp, Exp::Local(_) | Exp::Upvalue(_) | Exp::Global(_) | Exp::Indexed { .. })
                || e.has_jumps()
            {
                return Err(self.error_near("syntax error"));
            }
            targets.push(e.exp);
            if !self.accept_char(b',')? {
                break;
            }
            e = self.primary()?;
            if let Exp::Local(register) = e.exp {
                self.avoid_conflict(&mut targets, register)?;
            }
            if targets.len() > SYNTAX_LEVELS_MAX {
                let limit = SYNTAX_LEVELS_MAX;
                return Err(self.too_many(limit, "variables in assignment"));
            }
        }
        self.assign(&targets)
    }

    /// A variable that is assigned to and also part of an earlier target is copied first.
    fn avoid_conflict(&mut self, targets: &mut [Exp], local: u8) -> Result<()> {
        let copy = self.func().free as u8;
        let mut conflict = false;
        for target in targets {
            if let Exp::Indexed { table, key } = target {
                if *table == local {
                    (*table, conflict) = (copy, true);
                }
                if key.as_register() == Some(local) {
                    (*key, conflict) = (Rk::register(copy), true);
                }
            }
        }
        if conflict {
            self.emit(Op::Move { a: copy, b: local })?;
            self.reserve(1)?;
        }
        Ok(())
    }

    fn assign(&mut self, targets: &[Exp]) -> Result<()> {
        self.expect_char(b'=')?;
        let (mut e, count) = self.expr_list()?;
        let Some((last, others)) = targets.split_last() else { return Ok(()) };
        let mut rest = targets;
        if count == targets.len() {
            self.one_value(&mut e);
            self.store(*last, &mut e)?;
            rest = others;
        } else {
            self.adjust(targets.len(), count, e)?;
            if count > targets.len() {
                // Extra values are dropped.
                self.func().free -= count - targets.len();
            }
        }
        for target in rest.iter().rev() {
            let register = (self.func().free - 1) as u8;
            self.store(*target, &mut Exp::Register(register).into())?;
        }
        Ok(())
    }

    fn return_statement(&mut self) -> Result<()> {
        self.advance()?;
        if self.block_follows() || self.is_char(b';') {
            self.emit(Op::Return { a: 0, count: 1 })?;
            return Ok(());
        }
        let (mut e, count) = self.expr_list()?;
        let first = self.func().locals.len() as u8;
        let op = if e.is_open() {
            self.values(&mut e, None)?;
            if let (Exp::Call(pc), 1) = (e.exp, count) {
                self.func().make_tail_call(pc);
            }
            Op::Return { a: first, count: 0 }
        } else if count == 1 {
            let a = self.place_anywhere(&mut e)?;
            Op::Return { a, count: 2 }
        } else {
            self.place_next(&mut e)?;
            Op::Return { a: first, count: count as u8 + 1 }
        };
        self.emit(op)?;
        Ok(())
    }
}
