//! `HRANDFIELD key [count [WITHVALUES]]`

use crate::meter;
use crate::random::Pick;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hrandfield(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 2 {
        return one(ctx, args);
    }
    let count = Pick::parse_count(args.at(2))?;
    let mut options = args.cursor(3);
    let with_values = options.accept("WITHVALUES");
    options.finish()?;
    let pick = Pick::new(count, with_values)?;
    let Some(hash) = ctx.keys.hash(args.at(1), ctx.now)? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let picked = ctx.random.pick(pick, hash.len());
    let pairs = picked.into_iter().filter_map(|index| hash.nth(index));
    Ok(if with_values {
        let pairs = pairs.map(|(field, value)| (Reply::bulk(field), Reply::bulk(value)));
        Reply::Pairs(pairs.take_while(|_| !meter::is_exceeded()).collect())
    } else {
        Reply::bulks(pairs.map(|(field, _)| field))
    })
}

fn one(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let Some(hash) = ctx.keys.hash(args.at(1), ctx.now)? else {
        return Ok(Reply::Nil);
    };
    let index = ctx.random.below(hash.len());
    Ok(Reply::maybe(hash.nth(index).map(|(field, _)| field)))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn fields_are_picked_once_each_or_with_repetition() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HRANDFIELD h", "$-1"),
            ("HRANDFIELD h 1", "*0"),
            ("HSET h a 1", ":1"),
            ("HRANDFIELD h", "$1 a"),
            ("HRANDFIELD h 5 WITHVALUES", "*2 $1 a $1 1"),
            ("HRANDFIELD h -2 withvalues", "*4 $1 a $1 1 $1 a $1 1"),
            ("HRANDFIELD h 0", "*0"),
            ("HSET h b 2", ":1"),
            ("HRANDFIELD h 2", "*2 $1 a $1 b"),
        ]);
        assert!(matches!(desk.run("HRANDFIELD h 1 WITHVALUES"), Reply::Pairs(pairs) if pairs.len() == 1));
        assert!(matches!(desk.run("HRANDFIELD h -7"), Reply::Array(fields) if fields.len() == 7));
    }

    #[test]
    fn counts_are_checked_first() {
        let mut desk = Desk::new();
        desk.run("SADD h m");
        desk.expect(&[
            ("HRANDFIELD h x foo", "-ERR value is not an integer or out of range"),
            (
                "HRANDFIELD h -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("HRANDFIELD h 1 foo", "-ERR syntax error"),
            ("HRANDFIELD h 1 WITHVALUES 1", "-ERR syntax error"),
            ("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range"),
            ("HRANDFIELD h 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
