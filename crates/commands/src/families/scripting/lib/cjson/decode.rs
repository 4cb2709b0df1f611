//! `cjson.decode`. It touches only the Lua VM.

use keystead_lua::{Args, Host, Result, Value, Vm};

use super::{Settings, depth_max};
use crate::families::scripting::world::Run;

pub(super) fn run(run: &mut Run<'_, '_>, vm: &mut Vm, args: Args, n: usize) -> Result<usize> {
    let settings = run.cjson[n].clone();
    let id = vm.check_str(args, 0)?;
    vm.check_room(vm.bytes(id).len())?;
    let text = vm.bytes(id).to_vec();
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(vm.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser { vm: &mut *vm, host: run, settings: &settings, text: &text, at: 0, depth: 0 };
    let token = parser.next();
    let value = parser.value(token)?;
    match parser.next() {
        (Token::End, _) => vm.one(value),
        token => parser.unexpected("the end", &token),
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(words) => words,
        }
    }
}

/// A token, and where it begins.
type Found = (Token, usize);

struct Parser<'a> {
    vm: &'a mut Vm,
    host: &'a mut dyn Host,
    settings: &'a Settings,
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    /// The byte at an offset; a zero after the end, as in C.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn unexpected<T>(&mut self, wanted: &str, (token, at): &Found) -> Result<T> {
        let words = format!("Expected {wanted} but found {} at character {}", token.name(), at + 1);
        Err(self.vm.error(words))
    }

    fn next(&mut self) -> Found {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let single = match self.byte(at) {
            0 => return (Token::End, at),
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.text(),
            first => return (self.word(first), at),
        };
        self.at += 1;
        (single, at)
    }

    /// Numbers, true, false, null.
    fn word(&mut self, first: u8) -> Token {
        let lenient = self.settings.decode_invalid_numbers;
        let rest = &self.text[self.at..];
        if first == b'-' || first.is_ascii_digit() {
            if !lenient && is_invalid_number(rest) {
                return Token::Wrong("invalid number");
            }
            return self.number();
        }
        for (word, token) in
            [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)]
        {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        let may_begin_a_number = matches!(first, b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+');
        if may_begin_a_number && lenient && is_invalid_number(rest) {
            return self.number();
        }
        Token::Wrong("invalid token")
    }

    fn number(&mut self) -> Token {
        match strtod(&self.text[self.at..]) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => Token::Wrong("invalid number"),
        }
    }

    fn text(&mut self) -> Found {
        let begin = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.byte(self.at) {
                b'"' => break,
                0 => return (Token::Wrong("unexpected end of string"), self.at),
                b'\\' => match self.byte(self.at + 1) {
                    b'u' => match self.unicode() {
                        Some((code, len)) => {
                            out.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                            self.at += len;
                        }
                        None => return (Token::Wrong("invalid unicode escape code"), self.at),
                    },
                    letter => {
                        let byte = match letter {
                            b'"' | b'\\' | b'/' => letter,
                            b'b' => 8,
                            b't' => b'\t',
                            b'n' => b'\n',
                            b'f' => 12,
                            b'r' => b'\r',
                            _ => return (Token::Wrong("invalid escape code"), self.at),
                        };
                        out.push(byte);
                        self.at += 2;
                    }
                },
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        (Token::Text(out), begin)
    }

    /// The character of `\uXXXX`, or of a surrogate pair, and its length in bytes.
    fn unicode(&self) -> Option<(char, usize)> {
        let hex4 = |at: usize| {
            (at..at + 4).try_fold(0, |code, at| Some(code << 4 | char::from(self.byte(at)).to_digit(16)?))
        };
        let high = hex4(self.at + 2)?;
        if high & 0xF800 != 0xD800 {
            return Some((char::from_u32(high)?, 6));
        }
        if high & 0x400 != 0 || self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
            return None;
        }
        let low = hex4(self.at + 8)?;
        if low & 0xFC00 != 0xDC00 {
            return None;
        }
        let code = ((high & 0x3FF) << 10 | (low & 0x3FF)) + 0x10000;
        Some((char::from_u32(code)?, 12))
    }

    fn descend(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth <= depth_max(self.settings.decode_depth_max) {
            return Ok(());
        }
        let words =
            format!("Found too many nested data structures ({}) at character {}", self.depth, self.at);
        Err(self.vm.error(words))
    }

    fn value(&mut self, found: Found) -> Result<Value> {
        if let Token::Text(bytes) = &found.0 {
            self.vm.work(self.host, bytes.len() / 4)?;
        }
        self.vm.work(self.host, 4)?;
        Ok(match found.0 {
            Token::Text(bytes) => self.vm.string_owned(bytes)?,
            Token::Number(number) => Value::Num(number),
            Token::Boolean(yes) => Value::Bool(yes),
            Token::Null => Value::Null,
            Token::ObjectBegin => self.object()?,
            Token::ArrayBegin => self.array()?,
            _ => return self.unexpected("value", &found),
        })
    }

    fn object(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.vm.table(0, 0)?;
        let mut found = self.next();
        if matches!(found.0, Token::ObjectEnd) {
            self.depth -= 1;
            return Ok(Value::Table(table));
        }
        loop {
            let (Token::Text(key), _) = found else {
                return self.unexpected("object key string", &found);
            };
            found = self.next();
            if !matches!(found.0, Token::Colon) {
                return self.unexpected("colon", &found);
            }
            found = self.next();
            let value = self.value(found)?;
            let key = self.vm.string_owned(key)?;
            self.vm.raw_set(table, key, value)?;
            found = self.next();
            match found.0 {
                Token::ObjectEnd => break,
                Token::Comma => found = self.next(),
                _ => return self.unexpected("comma or object end", &found),
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.vm.table(0, 0)?;
        let mut found = self.next();
        if matches!(found.0, Token::ArrayEnd) {
            self.depth -= 1;
            return Ok(Value::Table(table));
        }
        for i in 1.. {
            let value = self.value(found)?;
            self.vm.raw_set(table, Value::Num(i as f64), value)?;
            found = self.next();
            match found.0 {
                Token::ArrayEnd => break,
                Token::Comma => found = self.next(),
                _ => return self.unexpected("comma or array end", &found),
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}

/// Whether it is not a JSON number.
fn is_invalid_number(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    if byte(0) == b'0' {
        return byte(1) | 0x20 == b'x' || byte(1).is_ascii_digit();
    }
    if byte(0) <= b'9' {
        return false;
    }
    let begins = |word: &[u8]| text.get(..3).is_some_and(|text| text.eq_ignore_ascii_case(word));
    begins(b"inf") || begins(b"nan")
}

/// C's `strtod`: the number at the beginning of a text, and its length in bytes.
fn strtod(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let body = &text[sign..];
    let begins = |word: &[u8]| body.get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word));
    let digits = |from: usize| body.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let (number, len) = if begins(b"infinity") {
        (f64::INFINITY, 8)
    } else if begins(b"inf") {
        (f64::INFINITY, 3)
    } else if begins(b"nan") {
        (f64::NAN, 3)
    } else if begins(b"0x") && body.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let len = body[2..].iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'.').count();
        (crate::number::parse_float(&body[..2 + len])?, 2 + len)
    } else {
        let whole = digits(0);
        let mut len = whole;
        if body.get(len) == Some(&b'.') {
            let fraction = digits(len + 1);
            if whole + fraction == 0 {
                return None;
            }
            len += 1 + fraction;
        } else if whole == 0 {
            return None;
        }
        if matches!(body.get(len), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(body.get(len + 1), Some(b'-' | b'+')));
            let exponent = digits(len + 1 + signed);
            if exponent > 0 {
                len += 1 + signed + exponent;
            }
        }
        (std::str::from_utf8(&body[..len]).ok()?.parse().ok()?, len)
    };
    Some((if negative { -number } else { number }, sign + len))
}
