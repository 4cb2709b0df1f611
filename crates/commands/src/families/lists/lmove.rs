//! LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>
//! RPOPLPUSH source destination
//! BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout
//! BRPOPLPUSH source destination timeout

use keystead_model::value::Kind;

use super::end::End;
use crate::args::Args;
use crate::blocking;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;

pub(super) fn lmove(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (from, to) = (End::parse(args.at(3))?, End::parse(args.at(4))?);
    Ok(transfer(ctx, args, from, to)?.unwrap_or(Reply::Nil))
}

pub(super) fn rpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(transfer(ctx, args, End::Right, End::Left)?.unwrap_or(Reply::Nil))
}

pub(super) fn blmove(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (from, to) = (End::parse(args.at(3))?, End::parse(args.at(4))?);
    transfer_or_wait(ctx, args, from, to, args.at(5))
}

pub(super) fn brpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    transfer_or_wait(ctx, args, End::Right, End::Left, args.at(3))
}

fn transfer_or_wait(ctx: &mut Ctx<'_>, args: Args<'_>, from: End, to: End, timeout: &[u8]) -> CommandResult {
    let timeout_ms = blocking::timeout_seconds(timeout)?;
    if let Some(reply) = transfer(ctx, args, from, to)? {
        return Ok(reply);
    }
    ctx.wait_for([args.at(1)], timeout_ms);
    // Redis distinguishes these two cases.
    Ok(if ctx.may_wait { Reply::NilArray } else { Reply::Nil })
}

/// Moves one element and returns it; `None` if the source does not exist, whatever the destination is.
fn transfer(ctx: &mut Ctx<'_>, args: Args<'_>, from: End, to: End) -> Result<Option<Reply>, Fail> {
    let (source, destination) = (args.at(1), args.at(2));
    if blocking::first_of(ctx, [source], Kind::List)?.is_none() {
        return Ok(None);
    }
    if source == destination {
        // One handle, so that a list of one element is not deleted in between.
        let mut list = ctx.keys.list_mut(source, ctx.now)?;
        let Some(value) = from.pop(&mut list) else { return Ok(None) };
        to.push(&mut list, &value);
        return Ok(Some(Reply::shared(value)));
    }
    if ctx.keys.kind(destination, ctx.now)?.is_some_and(|kind| kind != Kind::List) {
        return Err(errors::WRONG_TYPE);
    }
    let Some(value) = from.pop(&mut ctx.keys.list_mut(source, ctx.now)?) else { return Ok(None) };
    to.push(&mut ctx.keys.list_mut(destination, ctx.now)?, &value);
    Ok(Some(Reply::shared(value)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_element_moves_from_end_to_end() {
        Desk::new().expect(&[
            ("RPUSH a 1 2 3", ":3"),
            ("LMOVE a b LEFT RIGHT", "$1 1"),
            ("LMOVE a b right left", "$1 3"),
            ("RPOPLPUSH a b", "$1 2"),
            ("EXISTS a", ":0"),
            ("LRANGE b 0 -1", "*3 $1 2 $1 3 $1 1"),
            ("LMOVE a b LEFT LEFT", "$-1"),
            ("RPOPLPUSH a b", "$-1"),
        ]);
    }

    #[test]
    fn a_list_turns_on_itself_and_keeps_its_expiry() {
        Desk::new().expect(&[
            ("RPUSH a 1 2 3", ":3"),
            ("RPOPLPUSH a a", "$1 3"),
            ("LRANGE a 0 -1", "*3 $1 3 $1 1 $1 2"),
            ("LMOVE a a LEFT LEFT", "$1 3"),
            ("LRANGE a 0 -1", "*3 $1 3 $1 1 $1 2"),
            ("RPUSH one 1", ":1"),
            ("EXPIRE one 100", ":1"),
            ("LMOVE one one LEFT RIGHT", "$1 1"),
            ("TTL one", ":100"),
        ]);
    }

    #[test]
    fn an_error_moves_nothing() {
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Desk::new().expect(&[
            ("RPUSH a 1", ":1"),
            ("SET s x", "+OK"),
            ("LMOVE a s LEFT LEFT", wrong_type),
            ("LMOVE s a LEFT LEFT", wrong_type),
            ("LMOVE none s LEFT LEFT", "$-1"),
            ("LMOVE a b LEFT UP", "-ERR syntax error"),
            ("BLMOVE a s LEFT LEFT x", "-ERR timeout is not a float or out of range"),
            ("BLMOVE a s UP LEFT x", "-ERR syntax error"),
            ("BLMOVE a s LEFT LEFT 1", wrong_type),
            ("BRPOPLPUSH s a 1", wrong_type),
            ("LRANGE a 0 -1", "*1 $1 1"),
        ]);
    }

    #[test]
    fn it_blocks_on_its_source() {
        let mut desk = Desk::new();
        desk.expect(&[("BLMOVE a b LEFT RIGHT 2", "*-1")]);
        let wait = desk.wait.clone().unwrap();
        assert_eq!((wait.keys.len(), wait.keys[0].as_slice(), wait.timeout_ms), (1, &b"a"[..], Some(2000)));
        desk.expect(&[("RPUSH a 1", ":1"), ("BRPOPLPUSH a b 0", "$1 1"), ("LRANGE b 0 -1", "*1 $1 1")]);
        assert!(desk.wait.is_none());
    }
}
