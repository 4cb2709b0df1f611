//! The RESP2 encoder. It touches nothing.

use crate::number::{format_float, push_int};
use crate::reply::Reply;

/// Appends a reply.
pub fn encode(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Status(text) => line(b'+', text.as_bytes(), out),
        Reply::Int(value) => int(b':', *value, out),
        Reply::Bulk(bytes) => bulk(bytes, out),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            int(b'*', items.len() as i64, out);
            items.iter().for_each(|item| encode(item, out));
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            int(b'*', pairs.len() as i64 * 2, out);
            for (name, value) in pairs {
                encode(name, out);
                encode(value, out);
            }
        }
        Reply::Dict(pairs) => {
            int(b'*', pairs.len() as i64, out);
            for (name, value) in pairs {
                int(b'*', 2, out);
                encode(name, out);
                encode(value, out);
            }
        }
        Reply::Double(value) => bulk(format_float(*value).as_bytes(), out),
        Reply::Number(text) | Reply::BigNumber(text) => bulk(text.as_bytes(), out),
        Reply::Bool(yes) => int(b':', i64::from(*yes), out),
        Reply::Verbatim(text) => bulk(text.as_bytes(), out),
        Reply::Several(replies) => replies.iter().for_each(|reply| encode(reply, out)),
        Reply::Error(fail) => line(b'-', fail.line().as_bytes(), out),
    }
}

pub(super) fn line(mark: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(mark);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn int(mark: u8, value: i64, out: &mut Vec<u8>) {
    out.push(mark);
    push_int(out, value);
    out.extend_from_slice(b"\r\n");
}

/// From so many bytes on, a buffer is not doubled: that would waste as much memory again.
const STEP_BYTES: usize = 16 * 1024 * 1024;

/// Reserves space for a large array of strings at once: a buffer that grows step by step is copied each time, and leaves holes of all
/// sizes in the memory.
#[inline]
pub(super) fn reserve_large(reply: &Reply, out: &mut Vec<u8>) {
    if let Reply::Array(_) | Reply::Set(_) | Reply::Map(_) | Reply::Pairs(_) | Reply::Dict(_) = reply {
        let bytes = string_bytes(reply);
        if bytes > STEP_BYTES {
            out.reserve_exact(bytes);
        }
    }
}

/// About the bytes of the strings in a reply.
fn string_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::Bulk(bytes) => bytes.len() + BULK_BYTES,
        Reply::Array(items) | Reply::Set(items) => items.iter().map(string_bytes).sum(),
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Dict(pairs) => {
            pairs.iter().map(|(name, value)| string_bytes(name) + string_bytes(value) + BULK_BYTES).sum()
        }
        _ => BULK_BYTES,
    }
}

/// Bytes of a string besides its own, at most; of most other replies, too.
const BULK_BYTES: usize = 16;

/// Reserves space for so many bytes.
#[inline]
pub(super) fn reserve(out: &mut Vec<u8>, bytes: usize) {
    if out.len() < STEP_BYTES {
        out.reserve(bytes);
    } else if out.capacity() - out.len() < bytes {
        out.reserve_exact(bytes.max(STEP_BYTES));
    }
}

#[inline]
pub(super) fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    reserve(out, bytes.len() + BULK_BYTES);
    int(b'$', bytes.len() as i64, out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
