//! `SINTERCARD numkeys key [key ...] [LIMIT limit]`

use std::ops::ControlFlow;

use super::algebra::{How, each};
use crate::errors::{self, Fail};
use crate::number;
use crate::{Args, CommandResult, Ctx, Reply};

const NO_KEYS: &str = "ERR numkeys should be greater than 0";
const TOO_MANY_KEYS: &str = "ERR Number of keys can't be greater than number of args";
const NEGATIVE_LIMIT: &str = "ERR LIMIT can't be negative";

pub(super) fn sintercard(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let count = number::parse_int(args.at(1)).filter(|count| *count > 0);
    let count = count.ok_or(Fail::Text(NO_KEYS.into()))?;
    let count = usize::try_from(count).ok().filter(|count| *count <= args.len() - 2);
    let count = count.ok_or(Fail::Text(TOO_MANY_KEYS.into()))?;
    let mut limit = usize::MAX;
    let mut options = args.cursor(2 + count);
    while !options.is_done() {
        if !options.accept_with("LIMIT", 1) {
            return Err(errors::SYNTAX);
        }
        let number = number::parse_int(options.bytes()?).filter(|limit| *limit >= 0);
        let number = number.ok_or(Fail::Text(NEGATIVE_LIMIT.into()))?;
        limit = usize::try_from(number).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    }
    let mut found = 0;
    each(ctx, How::Intersect, args.from(2).take(count), |_| {
        found += 1;
        if found < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(Reply::count(found))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_intersection_is_counted_up_to_the_limit() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SADD a 1 2 3", ":3"),
            ("SADD b 2 3 4", ":3"),
            ("SINTERCARD 2 a b", ":2"),
            ("SINTERCARD 2 a b LIMIT 1", ":1"),
            ("SINTERCARD 2 a b LIMIT 0", ":2"),
            ("SINTERCARD 2 a b LIMIT 9", ":2"),
            ("SINTERCARD 2 a none", ":0"),
            ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0"),
            ("SINTERCARD x a", "-ERR numkeys should be greater than 0"),
            ("SINTERCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
            ("SINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
            ("SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative"),
            ("SINTERCARD 1 a LIMIT", "-ERR syntax error"),
            ("SINTERCARD 1 a b", "-ERR syntax error"),
            ("HSET h f v", ":1"),
            ("SINTERCARD 2 none h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
