//! `BITOP AND | OR | XOR | NOT destkey key [key ...]`

use std::borrow::Cow;

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use crate::errors::{self, Fail};
use crate::{Answer, Args, Ctx, Reply};

const ONE_KEY: Fail = Fail::Text(Cow::Borrowed("ERR BITOP NOT must be called with a single source key."));

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    And,
    Or,
    Xor,
    Not,
}

const OPS: [(&[u8], Op); 4] = [(b"AND", Op::And), (b"OR", Op::Or), (b"XOR", Op::Xor), (b"NOT", Op::Not)];

pub(super) fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Answer {
    let op = OPS.iter().find(|(name, _)| args.at(1).eq_ignore_ascii_case(name));
    let op = op.map(|(_, op)| *op).ok_or(errors::SYNTAX)?;
    if op == Op::Not && args.len() != 4 {
        return Err(ONE_KEY);
    }
    let mut sources = Vec::with_capacity(args.len() - 3);
    for key in args.from(3) {
        // Long values are shared, not copied.
        sources.push(ctx.keys.str(key, ctx.now)?.cloned().unwrap_or_default());
    }
    let new = combine(op, &sources);
    let len = new.len();
    if new.is_empty() {
        ctx.keys.delete(args.at(2), ctx.now)?;
    } else {
        ctx.keys.set_str(args.at(2), Bytes::from(new), Expire::At(Millis::NEVER), ctx.now)?;
    }
    Ok(Reply::count(len))
}

/// Shorter strings are filled up with zeros.
fn combine(op: Op, sources: &[Bytes]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut new = Vec::with_capacity(len);
    if let Some(first) = sources.first() {
        new.extend_from_slice(first);
    }
    new.resize(len, 0);
    for source in sources.iter().skip(1) {
        let pairs = new.iter_mut().zip(source.iter());
        match op {
            Op::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                new[source.len()..].fill(0);
            }
            Op::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Op::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Op::Not => {}
        }
    }
    if op == Op::Not {
        new.iter_mut().for_each(|byte| *byte = !*byte);
    }
    new
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn operations() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("MSET a abc b abcdef e '' d old", "+OK"),
            ("BITOP AND d a b", ":6"),
            ("GET d", "$6 abc\0\0\0"),
            ("BITOP or d a b", ":6"),
            ("GET d", "$6 abcdef"),
            ("BITOP XOR d a b none", ":6"),
            ("GET d", "$6 \0\0\0def"),
            ("BITOP XOR d a", ":3"),
            ("GET d", "$3 abc"),
            ("BITOP AND d b none", ":6"),
            ("GET d", "$6 \0\0\0\0\0\0"),
            ("BITOP NOT d d", ":6"),
            ("BITCOUNT d", ":48"),
            ("BITOP OR d e none", ":0"),
            ("GET d", "$-1"),
        ]);
    }

    #[test]
    fn refusals() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("BITOP FOO d s", "-ERR syntax error"),
            ("BITOP NOT d s s", "-ERR BITOP NOT must be called with a single source key."),
            ("BITOP AND d none s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET a v", "+OK"),
            ("BITOP AND s a", ":1"),
            ("GET s", "$1 v"),
        ]);
    }
}
