//! What the marathon sends: random commands, appended in the wire format. It touches nothing.

use std::io::Write;

use crate::report::Random;

/// Appends a random command with one reply.
pub(super) type Command = fn(&mut Vec<u8>, &mut Random, usize);

const VALUE: [u8; 100] = [b'x'; 100];

/// A SET of 100 bytes.
pub(super) fn set(out: &mut Vec<u8>, random: &mut Random, keys: usize) {
    append(out, &[b"SET", format!("key:{:012}", random.below(keys)).as_bytes(), &VALUE]);
}

/// Strings and hashes that expire, lists and streams that are trimmed, sorted sets that are deleted: a tenth of the keys of each
/// type.
pub(super) fn mixed(out: &mut Vec<u8>, random: &mut Random, keys: usize) {
    let (key, element) = (random.below((keys / 10).max(1)), format!("{}", random.below(100)));
    let name = |kind: &str| format!("{kind}:{key}").into_bytes();
    match random.below(10) {
        0 | 1 => append(out, &[b"SET", &name("s"), &VALUE, b"EX", b"60"]),
        2 | 3 => append(out, &[b"HSET", &name("h"), element.as_bytes(), &VALUE[..50]]),
        4 => append(out, &[b"LPUSH", &name("l"), &VALUE[..50]]),
        5 => append(out, &[b"LTRIM", &name("l"), b"0", b"9"]),
        6 => append(out, &[b"ZADD", &name("z"), element.as_bytes(), element.as_bytes()]),
        7 => append(out, &[b"XADD", &name("x"), b"MAXLEN", b"~", b"20", b"*", b"f", &VALUE[..50]]),
        8 => append(out, &[b"EXPIRE", &name("h"), b"120"]),
        _ => append(out, &[b"DEL", &name("z")]),
    }
}

fn append(out: &mut Vec<u8>, parts: &[&[u8]]) {
    write!(out, "*{}\r\n", parts.len()).unwrap();
    for part in parts {
        write!(out, "${}\r\n", part.len()).unwrap();
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}
