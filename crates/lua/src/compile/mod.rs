//! The compiler, in one pass: an expression stays a description until its target register is known. It touches the heap.
//!
//! | To find                             | open        |
//! |-------------------------------------|-------------|
//! | tokens                              | [`lexer`]   |
//! | instructions                        | [`op`]      |
//! | the finished function               | [`proto`]   |
//! | registers, constants, scopes        | `func`      |
//! | how an expression gets its register | `registers` |
//! | operators, calls                    | `expr`      |
//! | constructors, functions             | `construct` |
//! | statements                          | `stat`      |
//!
//! Invariant: time and memory are linear in the length of the text; how deep it nests is bounded.

pub(crate) mod construct;
mod expr;
mod func;
pub(crate) mod lexer;
pub(crate) mod op;
pub(crate) mod proto;
mod registers;
mod stat;

use std::rc::Rc;

pub(crate) use expr::modulo as expr_modulo;
use func::{Block, Func, TooMuch};
use lexer::{Lexer, Token};
use op::Op;
use proto::{Capture, Proto};

use crate::bounds::{LOCALS_MAX, SYNTAX_LEVELS_MAX, UPVALUES_MAX};
use crate::error::{Error, Result, Stop};
use crate::heap::Heap;
use crate::value::{StrId, Value};

/// Bytes of a text between two checks whether the run is over.
const TEXT_BETWEEN_CHECKS: usize = 4096;

/// The size of a chunk's name without its bytes.
const NAME_BYTES: usize = 16;

/// A text that is being compiled.
struct Compiler<'t> {
    heap: &'t mut Heap,
    lexer: Lexer<'t>,
    token: Token,
    /// The lookahead token, if one was read.
    ahead: Option<Token>,
    /// Line of the token that was read last.
    last_line: u32,
    /// The functions around the text that is being read, outermost first.
    funcs: Vec<Func>,
    levels: usize,
    source: Rc<str>,
    is_over: &'t mut dyn FnMut() -> bool,
    checked_at: usize,
}

/// Compiles a text. `source`: its name, with a mark: `@file`, `=name`, or the text itself. `is_over`: whether to stop.
pub(crate) fn compile(
    heap: &mut Heap,
    text: &[u8],
    source: &[u8],
    is_over: &mut dyn FnMut() -> bool,
) -> Result<Rc<Proto>> {
    heap.charge(source.len() + NAME_BYTES)?;
    // An exact copy, so that its size is what was charged.
    let name: Rc<str> = source
        .iter()
        .map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' })
        .collect::<String>()
        .into();
    let lexer = Lexer::new(text, chunk_id(source, SYNTAX_NAME));
    let mut compiler = Compiler {
        heap,
        lexer,
        token: Token::End,
        ahead: None,
        last_line: 1,
        funcs: Vec::new(),
        levels: 0,
        source: name,
        is_over,
        checked_at: 0,
    };
    let compiled = compiler.chunk();
    if compiled.is_err() {
        // Everything of it is freed.
        let bytes = compiler.funcs.iter().map(Func::all_bytes).sum();
        compiler.heap.release(bytes);
    }
    compiled
}

/// Space for the name of a chunk in errors of the compiler, with its terminating byte.
const SYNTAX_NAME: usize = 80;

/// The same in errors of a run.
pub(crate) const RUN_NAME: usize = 60;

/// The name of a chunk in errors, shortened to this many bytes.
pub(crate) fn chunk_id(source: &[u8], len_max: usize) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match source.first() {
        Some(b'=') => lossy(&source[1..source.len().min(len_max)]),
        Some(b'@') => {
            let name = &source[1..];
            let len_max = len_max - " '...' ".len() - 1;
            if name.len() > len_max {
                format!("...{}", lossy(&name[name.len() - len_max..]))
            } else {
                lossy(name)
            }
        }
        _ => {
            let line = source.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(source.len());
            let len_max = len_max - " [string \"...\"] ".len() - 1;
            let shown = line.min(len_max);
            let dots = if shown < source.len() { "..." } else { "" };
            format!("[string \"{}{dots}\"]", lossy(&source[..shown]))
        }
    }
}

impl Compiler<'_> {
    fn chunk(&mut self) -> Result<Rc<Proto>> {
        self.heap.charge(size_of::<Proto>())?;
        let mut main = Func::new(0);
        main.bytes += self.source.len() + NAME_BYTES;
        main.is_vararg = true;
        self.funcs.push(main);
        self.advance()?;
        self.block_of_chunk()?;
        if self.token != Token::End {
            return Err(self.expected_token("<eof>"));
        }
        self.emit(Op::Return { a: 0, count: 1 })?;
        match self.funcs.pop() {
            Some(main) => Ok(Rc::new(main.finish(Rc::clone(&self.source)))),
            None => Err(self.error("no function")),
        }
    }

    fn block_of_chunk(&mut self) -> Result<()> {
        self.enter(false);
        self.statements()?;
        self.leave()
    }

    fn func(&mut self) -> &mut Func {
        match self.funcs.last_mut() {
            Some(func) => func,
            None => unreachable!("there is a function while a text is being read"),
        }
    }

    // Tokens.

    fn advance(&mut self) -> Result<()> {
        self.last_line = self.lexer.line;
        if let Some(token) = self.ahead.take() {
            self.token = token;
            return Ok(());
        }
        if self.lexer.position() - self.checked_at > TEXT_BETWEEN_CHECKS {
            self.checked_at = self.lexer.position();
            if (self.is_over)() {
                return Err(Error::stop(Stop::Interrupted));
            }
        }
        self.token = self.lexer.next(self.heap)?;
        Ok(())
    }

    fn look_ahead(&mut self) -> Result<Token> {
        let token = self.lexer.next(self.heap)?;
        self.ahead = Some(token);
        Ok(token)
    }

    fn line(&self) -> u32 {
        self.lexer.line
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(is) if is == word)
    }

    fn is_char(&self, byte: u8) -> bool {
        self.token == Token::Char(byte)
    }

    fn accept_word(&mut self, word: &str) -> Result<bool> {
        let is = self.is_word(word);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn accept_char(&mut self, byte: u8) -> Result<bool> {
        let is = self.is_char(byte);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn expect_char(&mut self, byte: u8) -> Result<()> {
        if self.accept_char(byte)? { Ok(()) } else { Err(self.expected_token(&char::from(byte).to_string())) }
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept_word(word)? { Ok(()) } else { Err(self.expected_token(word)) }
    }

    /// Expects a closing token; its error names the line of the opening one.
    fn expect_close(&mut self, close: &str, open: &str, line: u32) -> Result<()> {
        let is = match self.token {
            Token::Word(word) => word == close,
            Token::Char(byte) => close.as_bytes() == [byte],
            _ => false,
        };
        if is {
            return self.advance();
        }
        if line == self.line() {
            return Err(self.expected_token(close));
        }
        let words = format!("'{close}' expected (to close '{open}' at line {line})");
        Err(self.error_near(&words))
    }

    fn name(&mut self) -> Result<StrId> {
        let Token::Name(name) = self.token else {
            return Err(self.expected_token("<name>"));
        };
        self.advance()?;
        Ok(name)
    }

    // Errors.

    #[cold]
    fn expected_token(&self, token: &str) -> Error {
        self.error_near(&format!("'{token}' expected"))
    }

    #[cold]
    fn error_near(&self, words: &str) -> Error {
        let near = self.lexer.shown(self.token);
        self.lexer.error(words, Some(&near))
    }

    #[cold]
    fn error(&self, words: &str) -> Error {
        self.lexer.error(words, None)
    }

    #[cold]
    fn too_many(&mut self, limit: usize, what: &str) -> Error {
        let line = self.func().line;
        let which = if line == 0 { "main function".into() } else { format!("function at line {line}") };
        self.error(&format!("{which} has more than {limit} {what}"))
    }

    fn deeper(&mut self) -> Result<()> {
        self.levels += 1;
        if self.levels > SYNTAX_LEVELS_MAX {
            return Err(self.error("chunk has too many syntax levels"));
        }
        Ok(())
    }

    // Instructions.

    fn emit(&mut self, op: Op) -> Result<usize> {
        let line = self.last_line;
        match self.funcs.last_mut() {
            Some(func) => func.emit(self.heap, op, line),
            None => Ok(0),
        }
    }

    fn jump(&mut self) -> Result<usize> {
        self.emit(Op::Jump { by: 0 })
    }

    fn jump_to(&mut self, target: usize) -> Result<()> {
        let pc = self.jump()?;
        self.func().fix_jump(pc, target);
        Ok(())
    }

    fn constant(&mut self, value: Value) -> Result<usize> {
        let index = match self.funcs.last_mut() {
            Some(func) => func.constant(self.heap, value)?,
            None => Ok(0),
        };
        index.map_err(|TooMuch(words)| self.error(words))
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        let reserved = self.func().reserve(count);
        reserved.map_err(|TooMuch(words)| self.error(words))
    }

    // Scopes.

    fn enter(&mut self, is_loop: bool) {
        let func = self.func();
        let outer = func.locals.len();
        func.blocks.push(Block { is_loop, outer, ..Block::default() });
    }

    fn leave(&mut self) -> Result<()> {
        let Some(block) = self.func().blocks.pop() else { return Ok(()) };
        let func = self.func();
        func.locals.truncate(block.outer);
        if block.captured {
            self.emit(Op::Close { a: block.outer as u8 })?;
        }
        let func = self.func();
        func.free = func.locals.len();
        let here = func.here();
        func.fix_jumps(&block.breaks, here);
        Ok(())
    }

    /// Checks that this many more variables are allowed.
    fn check_locals(&mut self, more: usize) -> Result<()> {
        if self.func().locals.len() + more > LOCALS_MAX {
            return Err(self.too_many(LOCALS_MAX, "local variables"));
        }
        Ok(())
    }

    /// Finds a variable: its register, its number among the upvalues, or that it is a global.
    fn resolve(&mut self, name: StrId) -> Result<Scope> {
        let top = self.funcs.len() - 1;
        if let Some(register) = self.funcs[top].locals.iter().rposition(|local| *local == name) {
            return Ok(Scope::Local(register as u8));
        }
        let found = self.capture(top, name)?;
        Ok(found.map_or(Scope::Global, Scope::Upvalue))
    }

    /// The number of a variable of the functions around among the upvalues of this one.
    fn capture(&mut self, level: usize, name: StrId) -> Result<Option<u8>> {
        if let Some(known) = self.funcs[level].captures.iter().position(|(known, _)| *known == name) {
            return Ok(Some(known as u8));
        }
        let Some(outer) = level.checked_sub(1) else { return Ok(None) };
        let local = self.funcs[outer].locals.iter().rposition(|local| *local == name);
        let capture = match local {
            Some(register) => {
                let blocks = &mut self.funcs[outer].blocks;
                if let Some(block) = blocks.iter_mut().rfind(|block| block.outer <= register) {
                    block.captured = true;
                }
                Capture::Register(register as u8)
            }
            None => match self.capture(outer, name)? {
                Some(up) => Capture::Upvalue(up),
                None => return Ok(None),
            },
        };
        let count = self.funcs[level].captures.len();
        if count >= UPVALUES_MAX {
            return Err(self.too_many(UPVALUES_MAX, "upvalues"));
        }
        self.funcs[level].captures.push((name, capture));
        Ok(Some(count as u8))
    }
}

/// Where a variable is.
enum Scope {
    Local(u8),
    Upvalue(u8),
    Global,
}
