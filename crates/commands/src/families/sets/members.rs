//! `SISMEMBER key member`, `SMISMEMBER key member [member ...]`, `SCARD key`, `SMEMBERS key`

use keystead_model::value::Set;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn sismember(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let set = ctx.keys.set(args.at(1), ctx.now)?;
    Ok(Reply::yes(set.is_some_and(|set| set.contains(args.at(2)))))
}

pub(super) fn smismember(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let set = ctx.keys.set(args.at(1), ctx.now)?;
    let is_member = |member| Reply::yes(set.is_some_and(|set| set.contains(member)));
    Ok(Reply::Array(args.from(2).map(is_member).collect()))
}

pub(super) fn scard(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.set(args.at(1), ctx.now)?.map_or(0, Set::len)))
}

pub(super) fn smembers(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let set = ctx.keys.set(args.at(1), ctx.now)?;
    Ok(Reply::Set(set.into_iter().flatten().map(Reply::bulk).collect()))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn members_are_returned() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SISMEMBER s a", ":0"),
            ("SMISMEMBER s a b", "*2 :0 :0"),
            ("SCARD s", ":0"),
            ("SMEMBERS s", "*0"),
            ("SADD s a b", ":2"),
            ("SISMEMBER s a", ":1"),
            ("SISMEMBER s x", ":0"),
            ("SMISMEMBER s a x b", "*3 :1 :0 :1"),
            ("SCARD s", ":2"),
            ("SMEMBERS s", "*2 $1 a $1 b"),
            ("HSET h f v", ":1"),
        ]);
        assert!(matches!(desk.run("SMEMBERS s"), Reply::Set(_)));
        assert!(matches!(desk.run("SMEMBERS none"), Reply::Set(_)));
        for line in ["SISMEMBER h a", "SMISMEMBER h a", "SCARD h", "SMEMBERS h"] {
            desk.expect(&[(line, "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
        }
    }
}
