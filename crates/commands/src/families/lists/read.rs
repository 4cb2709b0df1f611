//! LLEN key
//! LINDEX key index
//! LRANGE key start stop

use keystead_model::value::List;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;
use crate::span;

pub(super) fn llen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.list(args.at(1), ctx.now)?.map_or(0, List::len)))
}

pub(super) fn lindex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let Some(list) = ctx.keys.list(args.at(1), ctx.now)? else {
        return Ok(Reply::Nil);
    };
    Ok(Reply::maybe(span::position(args.int(2)?, list.len()).and_then(|index| list.get(index))))
}

pub(super) fn lrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    let Some(list) = ctx.keys.list(args.at(1), ctx.now)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let elements = list.iter_range(span::span(start, stop, list.len()));
    Ok(Reply::bulks(elements.map(|(_, value)| value)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn elements_are_read_by_index() {
        Desk::new().expect(&[
            ("LLEN l", ":0"),
            ("RPUSH l a b c", ":3"),
            ("LLEN l", ":3"),
            ("LINDEX l 0", "$1 a"),
            ("LINDEX l -1", "$1 c"),
            ("LINDEX l 3", "$-1"),
            ("LINDEX l -4", "$-1"),
            ("LRANGE l 0 -1", "*3 $1 a $1 b $1 c"),
            ("LRANGE l -2 100", "*2 $1 b $1 c"),
            ("LRANGE l 2 1", "*0"),
            ("LRANGE none 0 -1", "*0"),
        ]);
    }

    #[test]
    fn an_index_checks_its_key_first_and_a_range_last() {
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("RPUSH l a", ":1"),
            ("LINDEX none x", "$-1"),
            ("LINDEX s x", wrong_type),
            ("LINDEX l x", "-ERR value is not an integer or out of range"),
            ("LRANGE s x 1", "-ERR value is not an integer or out of range"),
            ("LRANGE s 0 1", wrong_type),
            ("LLEN s", wrong_type),
        ]);
    }
}
