//! `SRANDMEMBER key [count]`

use crate::errors;
use crate::random::Pick;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn srandmember(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let pick = match args.len() {
        2 => None,
        3 => Some(Pick::new(Pick::parse_count(args.at(2))?, false)?),
        _ => return Err(errors::SYNTAX),
    };
    let set = ctx.keys.set(args.at(1), ctx.now)?;
    let Some(pick) = pick else {
        let member = set.and_then(|set| set.nth(ctx.random.below(set.len())));
        return Ok(Reply::maybe(member));
    };
    let Some(set) = set else {
        return Ok(Reply::Array(Vec::new()));
    };
    let picked = ctx.random.pick(pick, set.len());
    Ok(Reply::bulks(picked.into_iter().filter_map(|index| set.nth(index))))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn members_are_picked_once_each_or_with_repetition() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SRANDMEMBER s", "$-1"),
            ("SRANDMEMBER s 1", "*0"),
            ("SADD s a", ":1"),
            ("SRANDMEMBER s", "$1 a"),
            ("SRANDMEMBER s 5", "*1 $1 a"),
            ("SRANDMEMBER s -3", "*3 $1 a $1 a $1 a"),
            ("SRANDMEMBER s 0", "*0"),
            ("SCARD s", ":1"),
        ]);
        assert!(matches!(desk.run("SRANDMEMBER s 1"), Reply::Array(_)));
    }

    #[test]
    fn the_count_is_checked_before_the_key() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSET h f v", ":1"),
            ("SRANDMEMBER h x", "-ERR value is not an integer or out of range"),
            (
                "SRANDMEMBER h -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("SRANDMEMBER h x 2", "-ERR syntax error"),
            ("SRANDMEMBER h 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
