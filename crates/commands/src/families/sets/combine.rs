//! `SINTER key [key ...]`, `SUNION key [key ...]`, `SDIFF key [key ...]`, `SINTERSTORE destination key [key ...]`,
//! `SUNIONSTORE destination key [key ...]`, `SDIFFSTORE destination key [key ...]`

use std::ops::ControlFlow;

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use keystead_model::value::{Set, Value};

use super::algebra::{How, each};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn sinter(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    combined_reply(ctx, args, How::Intersect)
}

pub(super) fn sunion(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    combined_reply(ctx, args, How::Unite)
}

pub(super) fn sdiff(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    combined_reply(ctx, args, How::Subtract)
}

pub(super) fn sinterstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    store(ctx, args, How::Intersect)
}

pub(super) fn sunionstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    store(ctx, args, How::Unite)
}

pub(super) fn sdiffstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    store(ctx, args, How::Subtract)
}

fn combined_reply(ctx: &mut Ctx<'_>, args: Args<'_>, how: How) -> CommandResult {
    let mut members = Vec::new();
    each(ctx, how, args.from(1), |member| {
        members.push(Reply::bulk(member));
        ControlFlow::Continue(())
    })?;
    Ok(Reply::Set(members))
}

fn store(ctx: &mut Ctx<'_>, args: Args<'_>, how: How) -> CommandResult {
    let mut set = Set::new();
    each(ctx, how, args.from(2), |member| {
        set.insert(&Bytes::from(member));
        ControlFlow::Continue(())
    })?;
    let len = set.len();
    ctx.keys.replace(args.at(1), Value::Set(set), Expire::At(Millis::NEVER), ctx.now)?;
    Ok(Reply::count(len))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    fn desk() -> Desk {
        let mut desk = Desk::new();
        desk.run("SADD a 1 2 3 x");
        desk.run("SADD b 3 2 y");
        desk.run("SADD c 2 y z");
        desk.run("HSET h f v");
        desk
    }

    #[test]
    fn sets_are_combined() {
        let mut desk = desk();
        desk.expect(&[
            ("SINTER a", "*4 $1 1 $1 2 $1 3 $1 x"),
            ("SINTER a b", "*2 $1 3 $1 2"),
            ("SINTER a b c", "*1 $1 2"),
            ("SINTER a none b", "*0"),
            ("SUNION none", "*0"),
            ("SUNION none a none", "*4 $1 1 $1 2 $1 3 $1 x"),
            ("SUNION a b c", "*6 $1 1 $1 2 $1 3 $1 x $1 y $1 z"),
            ("SUNION a a", "*4 $1 1 $1 2 $1 3 $1 x"),
            ("SDIFF a", "*4 $1 1 $1 2 $1 3 $1 x"),
            ("SDIFF a none b", "*2 $1 1 $1 x"),
            ("SDIFF a b c", "*2 $1 1 $1 x"),
            ("SDIFF a a", "*0"),
            ("SDIFF none a", "*0"),
        ]);
        for line in ["SINTER none", "SUNION none", "SDIFF none", "SINTER a b"] {
            assert!(matches!(desk.run(line), Reply::Set(_)));
        }
        for line in ["SINTER none h", "SUNION a h", "SDIFF none h", "SINTERSTORE d none h", "SUNIONSTORE a h"]
        {
            desk.expect(&[(line, "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
        }
    }

    #[test]
    fn a_result_replaces_any_value() {
        desk().expect(&[
            ("EXPIRE h 10", ":1"),
            ("SINTERSTORE h a b", ":2"),
            ("TTL h", ":-1"),
            ("SMEMBERS h", "*2 $1 3 $1 2"),
            ("SUNIONSTORE a a b", ":5"),
            ("SCARD a", ":5"),
            ("SDIFFSTORE a a b", ":2"),
            ("SMEMBERS a", "*2 $1 1 $1 x"),
            ("SDIFFSTORE a a a", ":0"),
            ("EXISTS a", ":0"),
            ("SINTERSTORE none a b", ":0"),
            ("EXISTS none", ":0"),
        ]);
    }
}
