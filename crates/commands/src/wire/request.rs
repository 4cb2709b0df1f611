//! The request parser: arrays of bulk strings, and inline requests. It touches nothing.
//!
//! A request that arrives in pieces is not parsed twice: the parser remembers its position. It copies only inline
//! requests, whose quotes must be removed. Errors have Redis's texts; after one, the connection is closed.

use crate::args::{Args, Part};
use crate::bounds::{
    ARGUMENTS_MAX, INLINE_BYTES_MAX, UNAUTHENTICATED_ARGUMENTS_MAX, UNAUTHENTICATED_BULK_BYTES_MAX,
};
use crate::wire::foreign::{self, Foreign};

/// Spans of arguments that are allocated in advance, whatever number is announced.
const PARTS_RESERVED_MAX: usize = 1024;

/// The bounds of a request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Whether the client is authenticated, or no token is needed.
    pub trusted: bool,
}

/// A protocol error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// Redis's text.
    pub words: String,
    /// The protocol, if it is a known one. Nothing that follows it may run.
    pub foreign: Option<Foreign>,
}

impl ProtocolError {
    fn new(words: impl Into<String>) -> Self {
        ProtocolError { words: words.into(), foreign: None }
    }
}

impl From<Foreign> for ProtocolError {
    fn from(foreign: Foreign) -> Self {
        ProtocolError { words: foreign.words().to_owned(), foreign: Some(foreign) }
    }
}

/// Parses requests from a buffer that grows.
#[derive(Debug, Default)]
pub struct Parser {
    /// How much of the buffer was parsed.
    at: usize,
    /// The number of arguments still missing; `None` between requests.
    left: Option<usize>,
    /// The length of the argument that is arriving.
    bulk: Option<usize>,
    parts: Vec<Part>,
    /// An inline request without its quotes; its arguments are here instead of in the buffer.
    line: Vec<u8>,
    typed: bool,
}

impl Parser {
    /// Continues to parse `buffer`, which begins where the current request begins. Returns the length of the request when it is
    /// complete; until [`finish`](Parser::finish) the result stays the same.
    ///
    /// # Errors
    /// When this is not a valid request.
    #[inline]
    pub fn read(&mut self, buffer: &[u8], bounds: Bounds) -> Result<Option<usize>, ProtocolError> {
        let mut left = match self.left {
            Some(left) => left,
            None => match buffer.first() {
                None => return Ok(None),
                Some(b'*') => match self.read_count(buffer, bounds)? {
                    Some(left) => left,
                    None => return Ok(None),
                },
                Some(_) => return self.read_line(buffer),
            },
        };
        while left > 0 {
            if !self.read_bulk(buffer, bounds)? {
                self.left = Some(left);
                return Ok(None);
            }
            left -= 1;
        }
        self.left = Some(0);
        Ok(Some(self.at))
    }

    /// The arguments of the complete request. An empty request has none and is skipped.
    #[must_use]
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        Args::new(if self.typed { &self.line } else { buffer }, &self.parts)
    }

    /// Prepares for the next request, which begins at the start of the buffer.
    pub fn finish(&mut self) {
        self.parts.clear();
        (self.at, self.left, self.bulk) = (0, None, None);
        if self.typed {
            self.line.clear();
            self.typed = false;
        }
        if self.parts.capacity() > PARTS_RESERVED_MAX {
            self.parts = Vec::new();
        }
    }

    /// How many bytes the buffer needs before parsing can continue; 0 if unknown.
    #[must_use]
    pub fn wants(&self) -> usize {
        self.bulk.map_or(0, |len| self.at + len + 2)
    }

    fn read_count(&mut self, buffer: &[u8], bounds: Bounds) -> Result<Option<usize>, ProtocolError> {
        let Some((line, next)) = line_at(buffer, 1) else {
            return too_long(buffer.len(), "too big mbulk count string");
        };
        let count = signed(line).filter(|n| *n <= ARGUMENTS_MAX as i64);
        let count = count.ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
        if !bounds.trusted && count > UNAUTHENTICATED_ARGUMENTS_MAX as i64 {
            return Err(ProtocolError::new("unauthenticated multibulk length"));
        }
        let count = usize::try_from(count).unwrap_or(0);
        self.parts.reserve(count.min(PARTS_RESERVED_MAX));
        self.at = next;
        self.left = Some(count);
        Ok(Some(count))
    }

    #[inline]
    fn read_bulk(&mut self, buffer: &[u8], bounds: Bounds) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let Some(&mark) = buffer.get(self.at) else { return Ok(false) };
                if mark != b'$' {
                    let got = char::from(mark);
                    return Err(ProtocolError::new(format!("expected '$', got '{got}'")));
                }
                let Some((line, next)) = line_at(buffer, self.at + 1) else {
                    return too_long(buffer.len() - self.at, "too big bulk count string").map(|()| false);
                };
                let len = signed(line).and_then(|n| usize::try_from(n).ok());
                let len = len.filter(|len| *len <= bounds.bulk_bytes_max);
                let len = len.ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
                if !bounds.trusted && len > UNAUTHENTICATED_BULK_BYTES_MAX {
                    return Err(ProtocolError::new("unauthenticated bulk length"));
                }
                self.at = next;
                self.bulk = Some(len);
                len
            }
        };
        // Redis does not check the two bytes that end an argument.
        if buffer.len() < self.at + len + 2 {
            return Ok(false);
        }
        self.parts.push(Part { start: self.at as u32, len: len as u32 });
        self.at += len + 2;
        self.bulk = None;
        Ok(true)
    }

    fn read_line(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if let Some(foreign) = buffer.first().and_then(|byte| foreign::by_first_byte(*byte)) {
            return Err(foreign.into());
        }
        let Some(end) = buffer[self.at..].iter().position(|byte| *byte == b'\n').map(|n| self.at + n) else {
            self.at = buffer.len();
            return too_long(buffer.len(), "too big inline request");
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        self.typed = true;
        self.line.clear();
        split_line(line, &mut self.line, &mut self.parts)
            .ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))?;
        let words = Args::new(&self.line, &self.parts);
        if let Some(foreign) = foreign::by_words(words.from(0)) {
            return Err(foreign.into());
        }
        self.at = end + 1;
        self.left = Some(0);
        Ok(Some(self.at))
    }
}

/// Waits for the rest of a line, unless it exceeds the bound.
fn too_long<T: Default>(len: usize, words: &str) -> Result<T, ProtocolError> {
    if len > INLINE_BYTES_MAX { Err(ProtocolError::new(words)) } else { Ok(T::default()) }
}

/// The second words of the complete requests in a buffer, which are keys as a rule, up to the first request that is not an array of
/// bulk strings. It checks nothing else: what it returns is only a hint.
pub fn second_words(mut buffer: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (count, mut at) = number_after(buffer, 0, b'*')?;
        let mut second: &[u8] = &[];
        for number in 0..count {
            let (len, start) = number_after(buffer, at, b'$')?;
            let word = buffer.get(start..start.checked_add(len)?)?;
            if number == 1 {
                second = word;
            }
            at = start + len + 2;
        }
        buffer = buffer.get(at..)?;
        Some(second)
    })
}

/// The number in the line at `start`, which begins with `mark`, and where the next line begins.
#[inline]
fn number_after(buffer: &[u8], start: usize, mark: u8) -> Option<(usize, usize)> {
    let line = buffer.get(start..)?.strip_prefix(&[mark])?;
    let (mut number, mut digits) = (0_usize, 0);
    while let Some(digit @ b'0'..=b'9') = line.get(digits) {
        number = number.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
        digits += 1;
    }
    (digits > 0).then_some((number, start + digits + 3))
}

/// The line at `start` without its end, and where the next one begins.
#[inline]
fn line_at(buffer: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let rest = buffer.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    // The line feed must have arrived as well, whatever it is.
    (rest.len() > end + 1).then(|| (&rest[..end], start + end + 2))
}

/// A number in a protocol line.
#[inline]
fn signed(line: &[u8]) -> Option<i64> {
    crate::number::parse_int(line)
}

/// Splits an inline request into arguments; `None` if a quote is not closed, or is followed by another character.
fn split_line(line: &[u8], out: &mut Vec<u8>, parts: &mut Vec<Part>) -> Option<()> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if at >= line.len() {
            return Some(());
        }
        let start = out.len();
        loop {
            match line.get(at) {
                None => break,
                Some(byte) if byte.is_ascii_whitespace() || *byte == 0 => break,
                Some(b'"') => at = double_quoted(line, at + 1, out)?,
                Some(b'\'') => at = single_quoted(line, at + 1, out)?,
                Some(byte) => {
                    out.push(*byte);
                    at += 1;
                }
            }
        }
        parts.push(Part { start: start as u32, len: (out.len() - start) as u32 });
        if line.get(at) == Some(&0) {
            return Some(());
        }
    }
}

fn double_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        match (line.get(at)?, line.get(at + 1), line.get(at + 2), line.get(at + 3)) {
            (b'\\', Some(b'x'), Some(high), Some(low)) if hex(*high).is_some() && hex(*low).is_some() => {
                out.push(hex(*high)? * 16 + hex(*low)?);
                at += 4;
            }
            (b'\\', Some(byte), ..) => {
                out.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            (b'"', ..) => return closed(line, at + 1),
            (byte, ..) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        match (line.get(at)?, line.get(at + 1)) {
            (b'\\', Some(b'\'')) => {
                out.push(b'\'');
                at += 2;
            }
            (b'\'', _) => return closed(line, at + 1),
            (byte, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
}

/// A closing quote is followed by a space or the end.
fn closed(line: &[u8], at: usize) -> Option<usize> {
    line.get(at).is_none_or(u8::is_ascii_whitespace).then_some(at)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bulk_bytes_max: 1 << 20, trusted: true };

    /// All requests in `bytes` when they arrive in pieces of `step` bytes, and the error at the end, if any.
    fn requests(bytes: &[u8], step: usize, bounds: Bounds) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
        let mut parser = Parser::default();
        let (mut start, mut found) = (0, Vec::new());
        let mut end = 0;
        while end < bytes.len() {
            end = (end + step).min(bytes.len());
            loop {
                match parser.read(&bytes[start..end], bounds) {
                    Ok(None) => break,
                    Ok(Some(len)) => {
                        found.push(parser.args(&bytes[start..end]).from(0).map(<[u8]>::to_vec).collect());
                        parser.finish();
                        start += len;
                    }
                    Err(error) => return (found, Some(error.words)),
                }
            }
        }
        (found, None)
    }

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split_terminator(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn requests_are_found_however_they_arrive() {
        let bytes =
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\nPING\r\n\r\n*-1\r\n*1\r\n$0\r\n\r\nset k \"a b\\x41\"\n";
        let expected = vec![
            words("GET k"),
            vec![],
            words("PING"),
            vec![],
            vec![],
            vec![vec![]],
            vec![b"set".to_vec(), b"k".to_vec(), b"a bA".to_vec()],
        ];
        for step in 1..bytes.len() {
            assert_eq!(requests(bytes, step, BOUNDS), (expected.clone(), None), "in pieces of {step}");
        }
    }

    #[test]
    fn protocol_errors_have_redis_texts() {
        let stranger = Bounds { trusted: false, ..BOUNDS };
        let long = "x".repeat(70_000);
        for (bytes, bounds, expected) in [
            ("*x\r\n", BOUNDS, "invalid multibulk length"),
            ("*1048577\r\n", BOUNDS, "invalid multibulk length"),
            ("*99999999999999999999\r\n", BOUNDS, "invalid multibulk length"),
            ("*1\r\n:1\r\n", BOUNDS, "expected '$', got ':'"),
            ("*1\r\n$-1\r\n", BOUNDS, "invalid bulk length"),
            ("*1\r\n$1073741824\r\n", BOUNDS, "invalid bulk length"),
            ("*1\r\n$x\r\n", BOUNDS, "invalid bulk length"),
            ("*11\r\n", stranger, "unauthenticated multibulk length"),
            ("*1\r\n$16385\r\n", stranger, "unauthenticated bulk length"),
            ("GET \"a\r\n", BOUNDS, "unbalanced quotes in request"),
            ("GET \"a\"b\r\n", BOUNDS, "unbalanced quotes in request"),
            ("GET 'a\r\n", BOUNDS, "unbalanced quotes in request"),
            ("POST / HTTP/1.1\r\n\r\nPING\r\n", BOUNDS, "HTTP on a port of the Redis protocol"),
            ("\x16\x03\x01", BOUNDS, "TLS or binary data on a port of the Redis protocol without TLS"),
            (&long, BOUNDS, "too big inline request"),
            (&format!("*{long}"), BOUNDS, "too big mbulk count string"),
            (&format!("*1\r\n${long}"), BOUNDS, "too big bulk count string"),
        ] {
            for step in [1000, 100_000] {
                let (_, error) = requests(bytes.as_bytes(), step, bounds);
                assert_eq!(error.as_deref(), Some(expected), "{}", &bytes[..bytes.len().min(40)]);
            }
        }
    }

    #[test]
    fn second_words_are_those_of_complete_requests() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n*0\r\n*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$1\r\n1\r\n";
        let all: [&[u8]; 4] = [b"k", b"", b"", b"ab"];
        assert_eq!(second_words(bytes).collect::<Vec<_>>(), all);
        for end in 0..bytes.len() {
            let found: Vec<_> = second_words(&bytes[..end]).collect();
            assert!(found.len() < 4 && found == all[..found.len()], "{end}");
        }
        for bytes in [
            &b"PING\r\n"[..],
            b"*x",
            b"*2\r\n:1\r\n",
            b"*99999999999999999999\r\n",
            b"*1\r\n$18446744073709551615\r\n",
        ] {
            assert_eq!(second_words(bytes).count(), 0);
        }
    }

    #[test]
    fn a_large_announced_length_reserves_little() {
        let mut parser = Parser::default();
        assert_eq!(parser.read(b"*1048576\r\n", BOUNDS), Ok(None));
        assert!(parser.parts.capacity() <= 2 * PARTS_RESERVED_MAX);
    }
}
