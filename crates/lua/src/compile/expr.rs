//! Expressions. It touches nothing beside the function that is being compiled.

use super::lexer::Token;
use super::op::{NO_REGISTER, Op, Rk};
use super::registers::{Exp, Expr, join};
use super::{Compiler, Scope};
use crate::error::Result;
use crate::value::StrId;

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Concat,
    NotEqual,
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

/// How strongly unary operators bind.
const UNARY: u8 = 8;

impl Binary {
    fn of(token: Token) -> Option<Binary> {
        Some(match token {
            Token::Char(b'+') => Binary::Add,
            Token::Char(b'-') => Binary::Sub,
            Token::Char(b'*') => Binary::Mul,
            Token::Char(b'/') => Binary::Div,
            Token::Char(b'%') => Binary::Mod,
            Token::Char(b'^') => Binary::Pow,
            Token::Char(b'<') => Binary::Less,
            Token::Char(b'>') => Binary::Greater,
            Token::Sign("..") => Binary::Concat,
            Token::Sign("~=") => Binary::NotEqual,
            Token::Sign("==") => Binary::Equal,
            Token::Sign("<=") => Binary::LessEqual,
            Token::Sign(">=") => Binary::GreaterEqual,
            Token::Word("and") => Binary::And,
            Token::Word("or") => Binary::Or,
            _ => return None,
        })
    }

    /// How strongly it binds what is left and right of it.
    fn binds(self) -> (u8, u8) {
        match self {
            Binary::Or => (1, 1),
            Binary::And => (2, 2),
            Binary::Concat => (5, 4),
            Binary::Add | Binary::Sub => (6, 6),
            Binary::Mul | Binary::Div | Binary::Mod => (7, 7),
            Binary::Pow => (10, 9),
            _ => (3, 3),
        }
    }
}

/// Lua's arithmetic on two numbers.
pub(crate) fn modulo(a: f64, b: f64) -> f64 {
    a - (a / b).floor() * b
}

impl Compiler<'_> {
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.subexpr(0).map(|(e, _)| e)
    }

    /// An expression of operators that bind more strongly than `limit`, and the operator behind it.
    fn subexpr(&mut self, limit: u8) -> Result<(Expr, Option<Binary>)> {
        self.deeper()?;
        let unary = match self.token {
            Token::Word("not") => Some(b'n'),
            Token::Char(byte @ (b'-' | b'#')) => Some(byte),
            _ => None,
        };
        let mut e = match unary {
            Some(sign) => {
                self.advance()?;
                let (mut e, _) = self.subexpr(UNARY)?;
                self.prefix(sign, &mut e)?;
                e
            }
            None => self.simple()?,
        };
        let mut operator = Binary::of(self.token);
        while let Some(binary) = operator.filter(|binary| binary.binds().0 > limit) {
            self.advance()?;
            self.infix(binary, &mut e)?;
            let (right, next) = self.subexpr(binary.binds().1)?;
            e = self.postfix(binary, e, right)?;
            operator = next;
        }
        self.levels -= 1;
        Ok((e, operator))
    }

    fn prefix(&mut self, sign: u8, e: &mut Expr) -> Result<()> {
        match (sign, e.exp) {
            (b'n', _) => return self.negate_truth(e),
            (b'-', Exp::Number(number)) if !e.has_jumps() => e.exp = Exp::Number(-number),
            _ => {
                let b = self.place_anywhere(e)?;
                self.release(e);
                let a = NO_REGISTER;
                let op = if sign == b'-' { Op::Negate { a, b } } else { Op::Length { a, b } };
                *e = Exp::Open(self.emit(op)?).into();
            }
        }
        Ok(())
    }

    /// Prepares the left operand before the right one is compiled.
    fn infix(&mut self, binary: Binary, e: &mut Expr) -> Result<()> {
        match binary {
            Binary::And => self.go_if_true(e),
            Binary::Or => self.go_if_false(e),
            Binary::Concat => self.place_next(e).map(drop),
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Mod | Binary::Pow => {
                let is_number = matches!(e.exp, Exp::Number(_)) && !e.has_jumps();
                if is_number { Ok(()) } else { self.settle_operand(e) }
            }
            _ => self.settle_operand(e),
        }
    }

    /// As a register or a constant; what it is stays in the expression.
    fn settle_operand(&mut self, e: &mut Expr) -> Result<()> {
        self.place_operand(e).map(drop)
    }

    fn postfix(&mut self, binary: Binary, mut left: Expr, mut right: Expr) -> Result<Expr> {
        match binary {
            Binary::And => {
                self.discharge(&mut right)?;
                join(&mut right.on_false, &mut left.on_false);
                Ok(right)
            }
            Binary::Or => {
                self.discharge(&mut right)?;
                join(&mut right.on_true, &mut left.on_true);
                Ok(right)
            }
            Binary::Concat => self.concat(&mut left, &mut right),
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Mod | Binary::Pow => {
                self.arithmetic(binary, &mut left, &mut right)
            }
            _ => self.comparison(binary, &mut left, &mut right),
        }
    }

    fn concat(&mut self, left: &mut Expr, right: &mut Expr) -> Result<Expr> {
        self.place_value(right)?;
        let Exp::Register(from) = left.exp else { return Ok(Exp::Nil.into()) };
        if let Exp::Open(pc) = right.exp
            && let Op::Concat { first, .. } = &mut self.func().code[pc]
        {
            *first = from;
            self.func().note(pc, from);
            self.release(left);
            return Ok(Exp::Open(pc).into());
        }
        let last = self.place_next(right)?;
        self.release(right);
        self.release(left);
        let pc = self.emit(Op::Concat { a: NO_REGISTER, first: from, last })?;
        Ok(Exp::Open(pc).into())
    }

    fn arithmetic(&mut self, binary: Binary, left: &mut Expr, right: &mut Expr) -> Result<Expr> {
        if let Some(number) = folded(binary, left, right) {
            return Ok(Exp::Number(number).into());
        }
        let (b, c) = self.operands(left, right)?;
        let a = NO_REGISTER;
        let op = match binary {
            Binary::Add => Op::Add { a, b, c },
            Binary::Sub => Op::Sub { a, b, c },
            Binary::Mul => Op::Mul { a, b, c },
            Binary::Div => Op::Div { a, b, c },
            Binary::Mod => Op::Mod { a, b, c },
            _ => Op::Pow { a, b, c },
        };
        Ok(Exp::Open(self.emit(op)?).into())
    }

    fn operands(&mut self, left: &mut Expr, right: &mut Expr) -> Result<(Rk, Rk)> {
        let c = self.place_operand(right)?;
        let b = self.place_operand(left)?;
        let (high, low) = if b.0 > c.0 { (b, c) } else { (c, b) };
        // A constant has the higher number and occupies no register.
        self.func().release_rk(high);
        self.func().release_rk(low);
        Ok((b, c))
    }

    fn comparison(&mut self, binary: Binary, left: &mut Expr, right: &mut Expr) -> Result<Expr> {
        let (b, c) = self.operands(left, right)?;
        let op = match binary {
            Binary::Equal => Op::Equal { want: true, b, c },
            Binary::NotEqual => Op::Equal { want: false, b, c },
            Binary::Less => Op::Less { want: true, b, c },
            Binary::LessEqual => Op::LessEqual { want: true, b, c },
            Binary::Greater => Op::Less { want: true, b: c, c: b },
            _ => Op::LessEqual { want: true, b: c, c: b },
        };
        self.emit(op)?;
        Ok(Exp::Jump(self.jump()?).into())
    }

    fn simple(&mut self) -> Result<Expr> {
        let e = match self.token {
            Token::Number(number) => Exp::Number(number).into(),
            Token::String(id) => Exp::String(id).into(),
            Token::Word("nil") => Exp::Nil.into(),
            Token::Word("true") => Exp::True.into(),
            Token::Word("false") => Exp::False.into(),
            Token::Sign("...") => {
                if !self.func().is_vararg {
                    return Err(self.error_near("cannot use '...' outside a vararg function"));
                }
                let pc = self.emit(Op::Vararg { a: NO_REGISTER, count: 0 })?;
                Exp::Vararg(pc).into()
            }
            Token::Char(b'{') => return self.constructor(),
            Token::Word("function") => {
                let line = self.line();
                self.advance()?;
                return self.body(false, line);
            }
            _ => return self.primary(),
        };
        self.advance()?;
        Ok(e)
    }

    /// A variable by its name.
    pub(super) fn variable(&mut self, name: StrId) -> Result<Exp> {
        Ok(match self.resolve(name)? {
            Scope::Local(register) => Exp::Local(register),
            Scope::Upvalue(up) => Exp::Upvalue(up),
            Scope::Global => Exp::Global(name),
        })
    }

    fn prefixed(&mut self) -> Result<Expr> {
        match self.token {
            Token::Char(b'(') => {
                let line = self.line();
                self.advance()?;
                let mut e = self.expr()?;
                self.expect_close(")", "(", line)?;
                self.discharge(&mut e)?;
                Ok(e)
            }
            Token::Name(_) => {
                let name = self.name()?;
                Ok(self.variable(name)?.into())
            }
            _ => Err(self.error_near("unexpected symbol")),
        }
    }

    /// A variable or an expression in parentheses, with its calls and fields.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let mut e = self.prefixed()?;
        loop {
            match self.token {
                Token::Char(b'.') => self.dot(&mut e)?,
                Token::Char(b'[') => {
                    let table = self.place_anywhere(&mut e)?;
                    let key = self.bracket()?;
                    e = Exp::Indexed { table, key }.into();
                }
                Token::Char(b':') => {
                    self.advance()?;
                    let name = self.name()?;
                    self.method(&mut e, name)?;
                    self.arguments(&mut e)?;
                }
                Token::Char(b'(' | b'{') | Token::String(_) => {
                    self.place_next(&mut e)?;
                    self.arguments(&mut e)?;
                }
                _ => return Ok(e),
            }
        }
    }

    /// `.name` behind an expression.
    pub(super) fn dot(&mut self, e: &mut Expr) -> Result<()> {
        let table = self.place_anywhere(e)?;
        self.advance()?;
        let name = self.name()?;
        let key = self.place_operand(&mut Exp::String(name).into())?;
        *e = Exp::Indexed { table, key }.into();
        Ok(())
    }

    /// `[key]`.
    pub(super) fn bracket(&mut self) -> Result<Rk> {
        self.advance()?;
        let mut key = self.expr()?;
        self.place_value(&mut key)?;
        let key = self.place_operand(&mut key)?;
        self.expect_char(b']')?;
        Ok(key)
    }

    fn method(&mut self, e: &mut Expr, name: StrId) -> Result<()> {
        let object = self.place_anywhere(e)?;
        self.release(e);
        let a = self.func().free as u8;
        self.reserve(2)?;
        let mut key = Exp::String(name).into();
        let key = self.place_operand(&mut key)?;
        self.func().release_rk(key);
        self.emit(Op::Method { a, object, key })?;
        *e = Exp::Register(a).into();
        Ok(())
    }

    /// The arguments of a call of what is in the highest register (with the object behind it).
    fn arguments(&mut self, e: &mut Expr) -> Result<()> {
        let line = self.line();
        let mut last: Expr = match self.token {
            Token::Char(b'(') => {
                if line != self.last_line {
                    return Err(self.error_near("ambiguous syntax (function call x new statement)"));
                }
                self.advance()?;
                let mut last: Expr = Exp::Void.into();
                if !self.is_char(b')') {
                    (last, _) = self.expr_list()?;
                    self.values(&mut last, None)?;
                }
                self.expect_close(")", "(", line)?;
                last
            }
            Token::Char(b'{') => self.constructor()?,
            Token::String(id) => {
                self.advance()?;
                Exp::String(id).into()
            }
            _ => return Err(self.error_near("function arguments expected")),
        };
        let Exp::Register(a) = e.exp else { return Ok(()) };
        let args = if last.is_open() {
            0
        } else {
            if last.exp != Exp::Void {
                self.place_next(&mut last)?;
            }
            (self.func().free - usize::from(a)) as u8
        };
        let pc = self.emit(Op::Call { a, args, results: 2 })?;
        self.func().fix_line(line);
        self.func().free = usize::from(a) + 1;
        *e = Exp::Call(pc).into();
        Ok(())
    }

    /// Expressions between commas: the last one, and how many. The others are in registers, in turn.
    pub(super) fn expr_list(&mut self) -> Result<(Expr, usize)> {
        let (mut e, mut count) = (self.expr()?, 1);
        while self.accept_char(b',')? {
            self.place_next(&mut e)?;
            e = self.expr()?;
            count += 1;
        }
        Ok((e, count))
    }
}

/// Folds an operation on two constants, if the result is a number.
fn folded(binary: Binary, left: &Expr, right: &Expr) -> Option<f64> {
    let (Exp::Number(a), Exp::Number(b)) = (left.exp, right.exp) else { return None };
    if left.has_jumps() || right.has_jumps() {
        return None;
    }
    let number = match binary {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div if b != 0.0 => a / b,
        Binary::Mod if b != 0.0 => modulo(a, b),
        Binary::Pow => a.powf(b),
        _ => return None,
    };
    (!number.is_nan()).then_some(number)
}
