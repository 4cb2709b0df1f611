//! `BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]`

use std::borrow::Cow;

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use keystead_model::value::Str;

use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

const ONE_KEY: Fail = Fail::Text(Cow::Borrowed("ERR BITOP NOT must be called with a single source key."));

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first and in no other.
    Diff,
    /// Set in some other and not in the first.
    Diff1,
    /// Set in the first and in some other.
    AndOr,
    /// Set in exactly one.
    One,
}

const OPS: &[(&str, Op)] = &[
    ("AND", Op::And),
    ("OR", Op::Or),
    ("XOR", Op::Xor),
    ("NOT", Op::Not),
    ("DIFF", Op::Diff),
    ("DIFF1", Op::Diff1),
    ("ANDOR", Op::AndOr),
    ("ONE", Op::One),
];

pub(super) fn bitop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let op = OPS.iter().find(|(name, _)| args.at(1).eq_ignore_ascii_case(name.as_bytes()));
    let (name, op) = op.copied().ok_or(errors::SYNTAX)?;
    if op == Op::Not && args.len() != 4 {
        return Err(ONE_KEY);
    }
    if matches!(op, Op::Diff | Op::Diff1 | Op::AndOr) && args.len() < 5 {
        let words = format!("ERR BITOP {name} must be called with at least two source keys.");
        return Err(Fail::text(words));
    }
    let mut sources = Vec::with_capacity(args.len() - 3);
    for key in args.from(3) {
        // Long values are shared, not copied.
        sources.push(ctx.keys.str(key, ctx.now)?.map(Str::to_bytes).unwrap_or_default());
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

/// Shorter strings are padded with zeros.
fn combine(op: Op, sources: &[Bytes]) -> Vec<u8> {
    if matches!(op, Op::Diff | Op::Diff1 | Op::AndOr) {
        return against_the_others(op, sources);
    }
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut new = Vec::with_capacity(len);
    if let Some(first) = sources.first() {
        new.extend_from_slice(first);
    }
    new.resize(len, 0);
    // ONE: bits that are set in two or more.
    let mut twice = vec![0; if op == Op::One { len } else { 0 }];
    for source in sources.iter().skip(1) {
        let pairs = new.iter_mut().zip(source.iter());
        match op {
            Op::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                new[source.len()..].fill(0);
            }
            Op::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Op::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Op::One => pairs.zip(&mut twice).for_each(|((byte, other), twice)| {
                *twice |= *byte & other;
                *byte |= other;
            }),
            Op::Not | Op::Diff | Op::Diff1 | Op::AndOr => {}
        }
    }
    match op {
        Op::Not => new.iter_mut().for_each(|byte| *byte = !*byte),
        Op::One => new.iter_mut().zip(twice).for_each(|(byte, twice)| *byte &= !twice),
        _ => {}
    }
    new
}

/// The first string, and the union of the others.
fn against_the_others(op: Op, sources: &[Bytes]) -> Vec<u8> {
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    let mut new = combine(Op::Or, others);
    new.resize(new.len().max(first.len()), 0);
    for (byte, x) in new.iter_mut().zip(first.iter().chain(std::iter::repeat(&0))) {
        *byte = match op {
            Op::Diff => x & !*byte,
            Op::Diff1 => *byte & !x,
            _ => *byte & x,
        };
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
    fn one_against_others() {
        // a 97 0110_0001, b 98 0110_0010, d 100 0110_0100
        Desk::new().expect(&[
            ("MSET x ab y bb z dd long aaa", "+OK"),
            ("BITOP DIFF r x y", ":2"),
            ("GET r", "$2 \u{1}\0"),
            ("BITOP DIFF1 r x y z", ":2"),
            ("GET r", "$2 \u{6}\u{4}"),
            ("BITOP ANDOR r x y z", ":2"),
            ("GET r", "$2 `b"),
            ("BITOP one r x y z", ":2"),
            ("GET r", "$2 \u{7}\u{4}"),
            ("BITOP ONE r x", ":2"),
            ("GET r", "$2 ab"),
            ("BITOP ONE r x x x", ":2"),
            ("GET r", "$2 \0\0"),
            ("BITOP DIFF r x long", ":3"),
            ("GET r", "$3 \0\u{2}\0"),
            ("BITOP DIFF1 r x long", ":3"),
            ("GET r", "$3 \0\u{1}a"),
            ("BITOP ANDOR r long x none", ":3"),
            ("GET r", "$3 a`\0"),
            ("BITOP DIFF r none none", ":0"),
            ("EXISTS r", ":0"),
            ("BITOP DIFF r x", "-ERR BITOP DIFF must be called with at least two source keys."),
            ("BITOP diff1 r x", "-ERR BITOP DIFF1 must be called with at least two source keys."),
            ("BITOP ANDOR r x", "-ERR BITOP ANDOR must be called with at least two source keys."),
        ]);
    }

    #[test]
    fn errors() {
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
