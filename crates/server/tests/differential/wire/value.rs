//! One reply as it stands on the wire, byte for byte: two values are equal when their bytes are. It touches nothing.

use std::fmt;
use std::io::{self, BufRead};

/// The mark of what a server did not say: a closed connection, a silence.
const LOST: u8 = b'?';

/// Why a reply did not come.
const SILENT: &[u8] = b"silent";

/// The mark of several frames in a row on a connection with messages.
const FRAMES: u8 = b'&';

/// A reply. The first field is its mark.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// A line: a status, an error, an integer, a double, a boolean, RESP3's null, a big number.
    Line(u8, Vec<u8>),
    /// Bytes with a length. None is RESP2's null.
    Bulk(u8, Option<Vec<u8>>),
    /// Several values; a map is its keys and values in turn. None is RESP2's null.
    Many(u8, Option<Vec<Value>>),
}

impl Value {
    /// Reads one.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Value> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\r\n").filter(|text| !text.is_empty()) else {
            let kind =
                if line.is_empty() { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
            return Err(io::Error::new(kind, format!("{:?}", String::from_utf8_lossy(&line))));
        };
        let (mark, text) = (text[0], &text[1..]);
        match mark {
            b'$' | b'=' | b'!' => {
                let Some(len) = length(text)? else { return Ok(Value::Bulk(mark, None)) };
                let mut bytes = vec![0; len + 2];
                from.read_exact(&mut bytes)?;
                if bytes.split_off(len) != b"\r\n" {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a bulk without its end"));
                }
                Ok(Value::Bulk(mark, Some(bytes)))
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let Some(len) = length(text)? else { return Ok(Value::Many(mark, None)) };
                let len = if matches!(mark, b'%' | b'|') { len * 2 } else { len };
                let items = (0..len).map(|_| Value::read(from)).collect::<io::Result<_>>()?;
                Ok(Value::Many(mark, Some(items)))
            }
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => Ok(Value::Line(mark, text.to_vec())),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("a reply begins with {mark}"))),
        }
    }

    /// What stands for a reply that did not come, and why.
    pub(crate) fn lost(why: impl fmt::Display) -> Value {
        Value::Line(LOST, why.to_string().into_bytes())
    }

    /// Whether it did not come.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Value::Line(LOST, _))
    }

    /// What stands for a reply that did not come in time, and for all that would have come after it.
    pub(crate) fn silence() -> Value {
        Value::Line(LOST, SILENT.to_vec())
    }

    /// Whether it, or the last of its frames, did not come in time.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self.as_frames().last(), Some(Value::Line(LOST, why)) if why == SILENT)
    }

    /// Several frames in a row.
    pub(crate) fn frames(frames: Vec<Value>) -> Value {
        Value::Many(FRAMES, Some(frames))
    }

    /// The frames in a row, or only this one.
    pub(crate) fn as_frames(&self) -> &[Value] {
        match self {
            Value::Many(FRAMES, Some(frames)) => frames,
            _ => std::slice::from_ref(self),
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Value::Line(b'-', _) | Value::Bulk(b'!', _))
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self, Value::Line(b'+', text) if text == b"QUEUED")
    }

    pub(crate) fn is_ok(&self) -> bool {
        matches!(self, Value::Line(b'+', text) if text == b"OK")
    }

    /// The parts of an array, set, map or push.
    pub(crate) fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Many(_, items) => items.as_deref(),
            _ => None,
        }
    }

    /// The bytes of a bulk or of a line.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Line(_, text) => Some(text),
            Value::Bulk(_, text) => text.as_deref(),
            Value::Many(..) => None,
        }
    }

    /// The number that a line is.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Value::Line(b':', text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }
}

/// The number after a mark; none when it is negative.
fn length(text: &[u8]) -> io::Result<Option<usize>> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    let number = number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a length that is none"))?;
    Ok(usize::try_from(number).ok())
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Line(LOST, why) => write!(f, "no reply: {}", String::from_utf8_lossy(why)),
            Value::Line(mark, text) => write!(f, "{}{}", char::from(*mark), text.escape_ascii()),
            Value::Bulk(mark, None) => write!(f, "{}-1", char::from(*mark)),
            Value::Bulk(b'$', Some(text)) => write!(f, "\"{}\"", text.escape_ascii()),
            Value::Bulk(mark, Some(text)) => write!(f, "{}\"{}\"", char::from(*mark), text.escape_ascii()),
            Value::Many(mark, None) => write!(f, "{}-1", char::from(*mark)),
            Value::Many(mark, Some(items)) => {
                if *mark != b'*' {
                    write!(f, "{}", char::from(*mark))?;
                }
                f.debug_list().entries(items).finish()
            }
        }
    }
}
