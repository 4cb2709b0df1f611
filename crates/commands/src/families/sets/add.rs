//! `SADD key member [member ...]`, `SREM key member [member ...]`

use keystead_model::Bytes;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn sadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut set = ctx.keys.set_mut(args.at(1), ctx.now)?;
    Ok(Reply::count(args.from(2).filter(|member| set.insert(&Bytes::from(*member))).count()))
}

pub(super) fn srem(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut set = ctx.keys.set_mut(args.at(1), ctx.now)?;
    Ok(Reply::count(args.from(2).filter(|member| set.remove(&Bytes::from(*member))).count()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_are_added_and_removed() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SREM s a", ":0"),
            ("SADD s a b a", ":2"),
            ("SADD s b c", ":1"),
            ("SMEMBERS s", "*3 $1 a $1 b $1 c"),
            ("SREM s a a x", ":1"),
            ("SREM s b c", ":2"),
            ("EXISTS s", ":0"),
            ("HSET h f v", ":1"),
            ("SADD h a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SREM h a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
