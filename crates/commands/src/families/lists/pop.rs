//! LPOP key [count]
//! RPOP key [count]

use super::end::End;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::number;
use crate::reply::Reply;

pub(super) fn lpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop(ctx, args, End::Left, "lpop")
}

pub(super) fn rpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    pop(ctx, args, End::Right, "rpop")
}

fn pop(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, name: &str) -> CommandResult {
    if args.len() > 3 {
        return Err(errors::wrong_arity(name));
    }
    let count = match args.get(2) {
        Some(text) => {
            let count = number::parse_int(text).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(errors::NOT_POSITIVE)?)
        }
        None => None,
    };
    let mut list = ctx.keys.list_mut(args.at(1), ctx.now)?;
    Ok(match count {
        Some(_) if !list.is_there() => Reply::NilArray,
        Some(count) => end.pop_many(&mut list, count),
        None => end.pop(&mut list).map_or(Reply::Nil, Reply::shared),
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn elements_are_popped_from_an_end() {
        Desk::new().expect(&[
            ("RPUSH l a b c d e f", ":6"),
            ("LPOP l", "$1 a"),
            ("RPOP l", "$1 f"),
            ("LPOP l 2", "*2 $1 b $1 c"),
            ("LPOP l 0", "*0"),
            ("RPOP l 9223372036854775807", "*2 $1 e $1 d"),
            ("EXISTS l", ":0"),
            ("LPOP l", "$-1"),
            ("LPOP l 1", "*-1"),
            ("LPOP l 0", "*-1"),
        ]);
    }

    #[test]
    fn counts_are_checked_before_the_key() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("LPOP s -1", "-ERR value is out of range, must be positive"),
            ("RPOP s x", "-ERR value is out of range, must be positive"),
            ("RPOP s 1 2", "-ERR wrong number of arguments for 'rpop' command"),
            ("LPOP s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
