//! Where a reply ends: the frames of RESP2 and RESP3, without building their values. Pure.
//!
//! A frame that arrives in pieces is not scanned twice: the scanner remembers its position. The bytes come from a node, which is trusted
//! to end what it begins, but not to be free of errors: what is no frame is an error, and lengths are checked.

use keystead_commands::number::parse_int;

use crate::bounds::ROUTER_REPLY_BYTES_MAX;

/// What a node sent is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Longest line of a frame whose end is looked for. Errors and numbers are far shorter.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Finds the end of the frame at the start of a buffer that grows.
#[derive(Debug)]
pub(super) struct Scanner {
    /// How much of the buffer was scanned. May be beyond its end, in a string that is arriving.
    at: usize,
    /// Elements that are still missing.
    left: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner { at: 0, left: 1 }
    }
}

impl Scanner {
    /// The length of the frame, when it is complete. The next call is for the next frame then.
    #[inline]
    pub(super) fn read(&mut self, buffer: &[u8]) -> Result<Option<usize>, Malformed> {
        while self.left > 0 {
            if !self.element(buffer)? {
                return Ok(None);
            }
        }
        if self.at > buffer.len() {
            return Ok(None);
        }
        let len = self.at;
        *self = Scanner::default();
        Ok(Some(len))
    }

    /// Forgets bytes at the start of the buffer that were passed on already.
    pub(super) fn passed(&mut self, bytes: usize) {
        self.at -= bytes.min(self.at);
    }

    /// Whether a frame has begun and bytes of it were passed on or scanned.
    pub(super) fn scanned(&self) -> usize {
        self.at
    }

    /// Scans one element, and returns whether it was there.
    #[inline]
    fn element(&mut self, buffer: &[u8]) -> Result<bool, Malformed> {
        let Some(&kind) = buffer.get(self.at) else { return Ok(false) };
        let start = self.at + 1;
        let rest = &buffer[start..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() > LINE_BYTES_MAX { Err(Malformed) } else { Ok(false) };
        };
        let next = start + end + 1;
        let number = || {
            let line = rest[..end].strip_suffix(b"\r").ok_or(Malformed)?;
            parse_int(line).filter(|n| *n >= -1 && *n <= ROUTER_REPLY_BYTES_MAX as i64).ok_or(Malformed)
        };
        let more = match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => 0,
            b'$' | b'=' | b'!' => {
                let len = number()?;
                if len >= 0 {
                    self.at = next + len as usize + 2;
                    self.left -= 1;
                    return Ok(true);
                }
                0
            }
            b'*' | b'~' | b'>' => number()?.max(0) as u64,
            b'%' => 2 * number()?.max(0) as u64,
            // Attributes come before the element that they are about.
            b'|' => 2 * number()?.max(0) as u64 + 1,
            _ => return Err(Malformed),
        };
        self.at = next;
        self.left = self.left - 1 + more;
        Ok(true)
    }
}

/// The elements of an array or set, if the frame is one.
pub(super) fn elements(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = header(frame)?;
    let mut found = Vec::with_capacity(count.min(rest.len()));
    for _ in 0..count {
        let len = Scanner::default().read(rest).ok()??;
        found.push(&rest[..len]);
        rest = &rest[len..];
    }
    rest.is_empty().then_some(found)
}

/// The number of elements of an array or set, and their bytes.
pub(super) fn header(frame: &[u8]) -> Option<(usize, &[u8])> {
    if !matches!(frame.first(), Some(b'*' | b'~')) {
        return None;
    }
    let end = frame.iter().position(|byte| *byte == b'\n')?;
    let count = parse_int(frame[1..end].strip_suffix(b"\r")?)?;
    Some((usize::try_from(count).ok()?, &frame[end + 1..]))
}

/// The number of an integer.
pub(super) fn integer(frame: &[u8]) -> Option<i64> {
    parse_int(frame.strip_prefix(b":")?.strip_suffix(b"\r\n")?)
}

/// The bytes of a string.
pub(super) fn string(frame: &[u8]) -> Option<&[u8]> {
    if let Some(line) = frame.strip_prefix(b"+") {
        return line.strip_suffix(b"\r\n");
    }
    let rest = frame.strip_prefix(b"$")?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    rest.get(end + 1..)?.strip_suffix(b"\r\n")
}

/// The line of an error.
pub(super) fn error(frame: &[u8]) -> Option<&str> {
    std::str::from_utf8(frame.strip_prefix(b"-")?.strip_suffix(b"\r\n")?).ok()
}

/// Whether it is a null of either version.
pub(super) fn is_null(frame: &[u8]) -> bool {
    matches!(frame, b"$-1\r\n" | b"*-1\r\n" | b"_\r\n")
}

#[cfg(test)]
mod tests {
    use keystead_commands::Reply;
    use keystead_commands::session::Protocol;
    use keystead_commands::wire::encode;
    use proptest::prelude::*;

    use super::*;

    /// The lengths of all frames of some bytes that arrive in pieces.
    fn frames(bytes: &[u8], step: usize) -> Result<Vec<usize>, Malformed> {
        let (mut scanner, mut start, mut end, mut found) = (Scanner::default(), 0, 0, Vec::new());
        loop {
            if let Some(len) = scanner.read(&bytes[start..end])? {
                found.push(len);
                start += len;
            } else if end == bytes.len() {
                return Ok(found);
            } else {
                end = bytes.len().min(end + step);
            }
        }
    }

    fn any_reply() -> impl Strategy<Value = Reply> {
        let leaf = prop_oneof![
            Just(Reply::Ok),
            Just(Reply::Nil),
            Just(Reply::NilArray),
            any::<i64>().prop_map(Reply::Int),
            any::<bool>().prop_map(Reply::Bool),
            any::<f64>().prop_map(Reply::Double),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Reply::bulk(&bytes)),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Reply::Array),
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Reply::Set),
                proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_replies_end_where_they_end(replies in proptest::collection::vec(any_reply(), 1..5), step in 1usize..50) {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
                for reply in &replies {
                    let before = bytes.len();
                    encode(protocol, reply, &mut bytes);
                    lengths.push(bytes.len() - before);
                }
                prop_assert_eq!(frames(&bytes, step), Ok(lengths));
            }
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(bytes: Vec<u8>, step in 1usize..20) {
            let _ = frames(&bytes, step);
        }
    }

    #[test]
    fn attributes_belong_to_what_follows() {
        assert_eq!(frames(b"|1\r\n+a\r\n:1\r\n$1\r\nx\r\n:2\r\n", 3), Ok(vec![19, 4]));
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for bytes in [&b"x\r\n"[..], b"$x\r\n", b"*99999999999999\r\n", b"$-2\r\n", b"HTTP/1.1 400\r\n"] {
            assert_eq!(frames(bytes, 1), Err(Malformed));
        }
    }

    #[test]
    fn parts_of_frames_are_found() {
        let array = b"*3\r\n$1\r\na\r\n*1\r\n:1\r\n$-1\r\n";
        assert_eq!(elements(array).unwrap(), [&b"$1\r\na\r\n"[..], b"*1\r\n:1\r\n", b"$-1\r\n"]);
        assert_eq!(elements(b"*2\r\n:1\r\n"), None);
        assert_eq!(integer(b":-7\r\n"), Some(-7));
        assert_eq!((string(b"$2\r\nab\r\n"), string(b"+ab\r\n")), (Some(&b"ab"[..]), Some(&b"ab"[..])));
        assert_eq!(error(b"-ERR x\r\n"), Some("ERR x"));
        assert!(is_null(b"$-1\r\n") && is_null(b"_\r\n") && !is_null(b"$0\r\n\r\n"));
    }
}
