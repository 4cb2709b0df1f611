//! `HGETALL key`, `HKEYS key`, `HVALS key`

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hgetall(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    let pairs = hash.into_iter().flatten();
    Ok(Reply::Map(pairs.map(|(field, value)| (Reply::bulk(field), Reply::bulk(value))).collect()))
}

pub(super) fn hkeys(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    Ok(Reply::bulks(hash.into_iter().flatten().map(|(field, _)| field)))
}

pub(super) fn hvals(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    Ok(Reply::bulks(hash.into_iter().flatten().map(|(_, value)| value)))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn a_hash_is_returned_whole_or_by_halves() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HGETALL h", "*0"),
            ("HKEYS h", "*0"),
            ("HVALS h", "*0"),
            ("HSET h a 1 b 2", ":2"),
            ("HGETALL h", "*4 $1 a $1 1 $1 b $1 2"),
            ("HKEYS h", "*2 $1 a $1 b"),
            ("HVALS h", "*2 $1 1 $1 2"),
            ("SADD s m", ":1"),
            ("HGETALL s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HKEYS s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
        assert!(matches!(desk.run("HGETALL h"), Reply::Map(_)));
        assert!(matches!(desk.run("HGETALL none"), Reply::Map(_)));
    }
}
