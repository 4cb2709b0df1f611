//! The lexer. It touches the heap, which interns the strings of the text.

use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::number;
use crate::value::StrId;

/// The keywords.
const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token {
    /// A keyword.
    Word(&'static str),
    /// A sign of one to three characters that is not a single one: `..`, `...`, `==`, `>=`, `<=`, `~=`.
    Sign(&'static str),
    /// Any other character.
    Char(u8),
    Name(StrId),
    String(StrId),
    Number(f64),
    End,
}

/// Reads tokens.
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    /// Where the token begins that is being read.
    begin: usize,
    pub(crate) line: u32,
    /// What errors call the text.
    chunk: String,
}

/// What marks the end of the text.
const EOF: u8 = 0;

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8], chunk: String) -> Lexer<'t> {
        // A first line that begins with # is for the shell; Redis's own is removed before.
        let mut lexer = Lexer { text, at: 0, begin: 0, line: 1, chunk };
        if text.first() == Some(&b'#') {
            lexer.at = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
        }
        lexer
    }

    #[inline]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(EOF)
    }

    fn peek_after(&self) -> u8 {
        self.text.get(self.at + 1).copied().unwrap_or(EOF)
    }

    fn is_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let is = !self.is_end() && self.peek() == byte;
        self.at += usize::from(is);
        is
    }

    /// How far the text has been read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// An error near the token that is being read.
    #[cold]
    pub(crate) fn error(&self, words: &str, near: Option<&[u8]>) -> Error {
        self.error_on(self.line, words, near)
    }

    #[cold]
    pub(crate) fn error_on(&self, line: u32, words: &str, near: Option<&[u8]>) -> Error {
        let mut text = format!("{}:{line}: {words}", self.chunk).into_bytes();
        if let Some(near) = near {
            text.extend_from_slice(b" near '");
            // As C prints it, which ends at a zero byte.
            text.extend(near.iter().take_while(|byte| **byte != 0).copied().take(200));
            text.push(b'\'');
        }
        Error::syntax(text)
    }

    /// An error near what has been read of this token.
    fn error_here(&self, words: &str) -> Error {
        self.error(words, Some(&self.text[self.begin..self.at]))
    }

    /// The token as an error shows it.
    pub(crate) fn shown(&self, token: Token) -> Vec<u8> {
        match token {
            Token::Word(word) | Token::Sign(word) => word.into(),
            Token::Char(byte) if byte.is_ascii_control() => format!("char({byte})").into(),
            Token::Char(byte) => vec![byte],
            Token::Name(_) | Token::String(_) | Token::Number(_) => self.text[self.begin..self.at].into(),
            Token::End => b"<eof>".into(),
        }
    }

    fn new_line(&mut self) {
        let first = self.peek();
        self.at += 1;
        let second = self.peek();
        if !self.is_end() && matches!(second, b'\n' | b'\r') && second != first {
            self.at += 1;
        }
        self.line += 1;
    }

    /// The next token.
    pub(crate) fn next(&mut self, heap: &mut Heap) -> Result<Token> {
        loop {
            self.begin = self.at;
            if self.is_end() {
                return Ok(Token::End);
            }
            match self.peek() {
                b'\n' | b'\r' => self.new_line(),
                b' ' | b'\t' | 0x0B | 0x0C => self.at += 1,
                b'-' => {
                    self.at += 1;
                    if !self.accept(b'-') {
                        return Ok(Token::Char(b'-'));
                    }
                    self.comment()?;
                }
                b'[' => {
                    if let Some(level) = self.long_bracket()? {
                        let content = self.long_text(level, "string")?;
                        return long_string(heap, content).map(Token::String);
                    }
                    self.at += 1;
                    return Ok(Token::Char(b'['));
                }
                b'=' => return Ok(self.either(b'=', "==")),
                b'<' => return Ok(self.either(b'<', "<=")),
                b'>' => return Ok(self.either(b'>', ">=")),
                b'~' => return Ok(self.either(b'~', "~=")),
                quote @ (b'"' | b'\'') => return self.string(heap, quote),
                b'.' if !self.peek_after().is_ascii_digit() => {
                    self.at += 1;
                    let sign = match (self.accept(b'.'), self.peek()) {
                        (false, _) => return Ok(Token::Char(b'.')),
                        (true, b'.') if self.accept(b'.') => "...",
                        (true, _) => "..",
                    };
                    return Ok(Token::Sign(sign));
                }
                b'.' | b'0'..=b'9' => return self.number(),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => return self.word(heap),
                byte => {
                    self.at += 1;
                    return Ok(Token::Char(byte));
                }
            }
        }
    }

    fn either(&mut self, first: u8, both: &'static str) -> Token {
        self.at += 1;
        if self.accept(b'=') { Token::Sign(both) } else { Token::Char(first) }
    }

    fn comment(&mut self) -> Result<()> {
        if self.peek() == b'['
            && let Ok(Some(level)) = self.long_bracket()
        {
            self.begin = self.at;
            self.long_text(level, "comment")?;
            return Ok(());
        }
        while !self.is_end() && !matches!(self.peek(), b'\n' | b'\r') {
            self.at += 1;
        }
        Ok(())
    }

    /// The level of a long bracket that opens at this position. Consumes nothing if there is none.
    fn long_bracket(&mut self) -> Result<Option<usize>> {
        let signs = self.text[self.at + 1..].iter().take_while(|byte| **byte == b'=').count();
        match self.text.get(self.at + 1 + signs) {
            Some(b'[') => Ok(Some(signs)),
            _ if signs > 0 => {
                self.at += 1 + signs;
                Err(self.error_here("invalid long string delimiter"))
            }
            _ => Ok(None),
        }
    }

    /// The text between long brackets. Every kind of line ending becomes `\n`.
    fn long_text(&mut self, level: usize, what: &str) -> Result<&'t [u8]> {
        self.at += level + 2;
        if !self.is_end() && matches!(self.peek(), b'\n' | b'\r') {
            self.new_line();
        }
        let begin = self.at;
        while !self.is_end() {
            match self.peek() {
                b']' => {
                    let rest = &self.text[self.at + 1..];
                    let signs = rest.iter().take(level).take_while(|byte| **byte == b'=').count();
                    if signs == level && rest.get(level) == Some(&b']') {
                        let end = self.at;
                        self.at += level + 2;
                        return Ok(&self.text[begin..end]);
                    }
                    self.at += 1;
                }
                b'[' if level == 0 && self.peek_after() == b'[' => {
                    self.at += 2;
                    return Err(self.error("nesting of [[...]] is deprecated", Some(b"[")));
                }
                b'\n' | b'\r' => self.new_line(),
                _ => self.at += 1,
            }
        }
        Err(self.error(&format!("unfinished long {what}"), Some(b"<eof>")))
    }

    fn string(&mut self, heap: &mut Heap, quote: u8) -> Result<Token> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            if self.is_end() {
                return Err(self.error("unfinished string", Some(b"<eof>")));
            }
            match self.peek() {
                byte if byte == quote => {
                    self.at += 1;
                    return heap.str_owned(bytes).map(Token::String);
                }
                b'\n' | b'\r' => return Err(self.error_here("unfinished string")),
                b'\\' => {
                    self.at += 1;
                    self.escape(&mut bytes)?;
                }
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        if self.is_end() {
            return Ok(());
        }
        let byte = self.peek();
        let plain = match byte {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0B,
            b'\n' | b'\r' => {
                bytes.push(b'\n');
                self.new_line();
                return Ok(());
            }
            b'0'..=b'9' => {
                let digits = self.text[self.at..].iter().take(3).take_while(|byte| byte.is_ascii_digit());
                let (mut value, mut count) = (0_u32, 0);
                for digit in digits {
                    value = value * 10 + u32::from(digit - b'0');
                    count += 1;
                }
                self.at += count;
                let byte = u8::try_from(value).map_err(|_| self.error_here("escape sequence too large"))?;
                bytes.push(byte);
                return Ok(());
            }
            other => other,
        };
        bytes.push(plain);
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<Token> {
        while self.peek().is_ascii_digit() || self.peek() == b'.' {
            self.at += 1;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
        }
        while self.peek().is_ascii_alphanumeric() || self.peek() == b'_' {
            self.at += 1;
        }
        let value = number::parse(&self.text[self.begin..self.at]);
        value.map(Token::Number).ok_or_else(|| self.error_here("malformed number"))
    }

    fn word(&mut self, heap: &mut Heap) -> Result<Token> {
        while self.peek().is_ascii_alphanumeric() || self.peek() == b'_' {
            self.at += 1;
        }
        let word = &self.text[self.begin..self.at];
        if let Ok(at) = KEYWORDS.binary_search(&word) {
            return Ok(Token::Word(std::str::from_utf8(KEYWORDS[at]).unwrap_or_default()));
        }
        heap.str(word).map(Token::Name)
    }
}

/// Every kind of line ending becomes `\n`.
fn long_string(heap: &mut Heap, content: &[u8]) -> Result<StrId> {
    if !content.contains(&b'\r') {
        return heap.str(content);
    }
    let (mut bytes, mut at) = (Vec::with_capacity(content.len()), 0);
    while let Some(byte) = content.get(at) {
        let is_end = matches!(byte, b'\r' | b'\n');
        bytes.push(if is_end { b'\n' } else { *byte });
        let pair = is_end && matches!(content.get(at + 1), Some(next @ (b'\r' | b'\n')) if next != byte);
        at += 1 + usize::from(pair);
    }
    heap.str_owned(bytes)
}
