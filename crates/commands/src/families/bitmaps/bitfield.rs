//! `BITFIELD key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | INCRBY encoding offset
//! increment ...]`
//! `BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]`

use std::borrow::Cow;

use keystead_model::Bytes;

use super::field::{Field, Overflow};
use super::offset;
use crate::args::Cursor;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

const BAD_TYPE: Fail = Fail::Text(Cow::Borrowed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
));
const BAD_OVERFLOW: Fail = Fail::Text(Cow::Borrowed("ERR Invalid OVERFLOW type specified"));
const READ_ONLY: Fail = Fail::Text(Cow::Borrowed("ERR BITFIELD_RO only supports the GET subcommand"));

/// One of the operations of a command.
struct Op {
    field: Field,
    offset: usize,
    change: Option<Change>,
}

struct Change {
    kind: Kind,
    number: i64,
    overflow: Overflow,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Set,
    IncrBy,
}

pub(super) fn bitfield(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let ops = parse(args)?;
    match ops.iter().filter(|op| op.change.is_some()).map(Op::end).max() {
        None => read(ctx, args.at(1), &ops),
        Some(end) => change(ctx, args.at(1), &ops, end),
    }
}

pub(super) fn bitfield_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let ops = parse(args)?;
    if ops.iter().any(|op| op.change.is_some()) {
        return Err(READ_ONLY);
    }
    read(ctx, args.at(1), &ops)
}

fn read(ctx: &mut Ctx<'_>, key: &[u8], ops: &[Op]) -> CommandResult {
    let value = ctx.keys.str(key, ctx.now)?.map_or(&[][..], |value| value);
    Ok(Reply::Array(ops.iter().map(|op| Reply::Int(op.field.get(value, op.offset))).collect()))
}

/// The string is extended to at least `end` bytes, even if every change fails.
fn change(ctx: &mut Ctx<'_>, key: &[u8], ops: &[Op], end: usize) -> CommandResult {
    let replies = ctx.keys.update_str(key, ctx.now, |old| {
        let old = old.map_or(&[][..], |old| old);
        let mut new = Vec::with_capacity(old.len().max(end));
        new.extend_from_slice(old);
        let grows = new.len() < end;
        if grows {
            new.resize(end, 0);
        }
        let mut changed = grows;
        let replies = ops.iter().map(|op| op.run(&mut new, &mut changed)).collect();
        Ok::<_, Fail>((changed.then(|| Bytes::from(new)), replies))
    })?;
    Ok(Reply::Array(replies))
}

impl Op {
    /// Bytes that a string must have to hold its field.
    fn end(&self) -> usize {
        (self.offset + self.field.bits() as usize).div_ceil(8)
    }

    fn run(&self, bytes: &mut [u8], changed: &mut bool) -> Reply {
        let old = self.field.get(bytes, self.offset);
        let Some(change) = &self.change else { return Reply::Int(old) };
        let new = match change.kind {
            Kind::Set => self.field.add(change.number, 0, change.overflow),
            Kind::IncrBy => self.field.add(old, change.number, change.overflow),
        };
        let Some(new) = new else { return Reply::Nil };
        if new != old {
            self.field.put(bytes, self.offset, new);
            *changed = true;
        }
        Reply::Int(if change.kind == Kind::Set { old } else { new })
    }
}

fn parse(args: Args<'_>) -> Result<Vec<Op>, Fail> {
    let mut cursor = args.cursor(2);
    let mut ops = Vec::new();
    let mut overflow = Overflow::default();
    while !cursor.is_done() {
        if cursor.accept_with("GET", 2) {
            ops.push(parse_op(&mut cursor, None)?);
        } else if cursor.accept_with("SET", 3) {
            ops.push(parse_op(&mut cursor, Some((Kind::Set, overflow)))?);
        } else if cursor.accept_with("INCRBY", 3) {
            ops.push(parse_op(&mut cursor, Some((Kind::IncrBy, overflow)))?);
        } else if cursor.accept_with("OVERFLOW", 1) {
            overflow = parse_overflow(&mut cursor)?;
        } else {
            return Err(errors::SYNTAX);
        }
    }
    Ok(ops)
}

fn parse_op(cursor: &mut Cursor<'_>, change: Option<(Kind, Overflow)>) -> Result<Op, Fail> {
    let field = Field::parse(cursor.bytes()?).ok_or(BAD_TYPE)?;
    let offset = offset::parse_field(cursor.bytes()?, field.bits())?;
    let change = match change {
        Some((kind, overflow)) => Some(Change { kind, number: cursor.int()?, overflow }),
        None => None,
    };
    Ok(Op { field, offset, change })
}

fn parse_overflow(cursor: &mut Cursor<'_>) -> Result<Overflow, Fail> {
    if cursor.accept("WRAP") {
        Ok(Overflow::Wrap)
    } else if cursor.accept("SAT") {
        Ok(Overflow::Sat)
    } else if cursor.accept("FAIL") {
        Ok(Overflow::Fail)
    } else {
        Err(BAD_OVERFLOW)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn fields_are_read_set_and_counted_up() {
        Desk::new().expect(&[
            ("BITFIELD k", "*0"),
            ("BITFIELD k INCRBY i5 100 1 GET u4 0", "*2 :1 :0"),
            ("STRLEN k", ":14"),
            ("BITFIELD k SET u8 #1 255 GET u8 #1 GET i8 8", "*3 :0 :255 :-1"),
            ("BITFIELD k INCRBY u2 0 3 INCRBY u2 0 1", "*2 :3 :0"),
            ("BITFIELD k OVERFLOW SAT INCRBY u2 0 9 OVERFLOW FAIL INCRBY u2 0 1", "*2 :3 $-1"),
            ("BITFIELD k SET i8 0 200", "*1 :-64"),
            ("BITFIELD_RO k GET i8 0 GET u63 1000", "*2 :-56 :0"),
        ]);
    }

    #[test]
    fn a_failed_change_still_lengthens_the_string() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("BITFIELD k OVERFLOW FAIL INCRBY u2 14 5", "*1 $-1"),
            ("GET k", "$2 \0\0"),
            ("BITFIELD k SET u8 0 0 INCRBY u8 0 0", "*2 :0 :0"),
        ]);
        assert_eq!(
            desk.keys.version(b"k", desk.now).unwrap().map(|version| version.0),
            Some(1),
            "what stays is not written"
        );
    }

    #[test]
    fn errors_come_in_redis_order() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        let bad_type = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let bad_offset = "-ERR bit offset is not an integer or out of range";
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        desk.expect(&[
            ("BITFIELD s", wrong_type),
            ("BITFIELD s GET u8 0", wrong_type),
            ("BITFIELD s SET u8 0 1", wrong_type),
            ("BITFIELD_RO s", wrong_type),
            ("BITFIELD s GET u64 x", bad_type),
            ("BITFIELD s GET u8 x", bad_offset),
            ("BITFIELD s SET u8 4294967296 x", bad_offset),
            ("BITFIELD s SET u8 #9223372036854775807 x", bad_offset),
            ("BITFIELD s SET u8 0 x", "-ERR value is not an integer or out of range"),
            ("BITFIELD s GET u8", "-ERR syntax error"),
            ("BITFIELD s SET u8 0", "-ERR syntax error"),
            ("BITFIELD s OVERFLOW FOO", "-ERR Invalid OVERFLOW type specified"),
            ("BITFIELD s OVERFLOW", "-ERR syntax error"),
            ("BITFIELD_RO s SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ]);
    }
}
