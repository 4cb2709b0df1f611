//! `SMOVE source destination member`

use keystead_model::Bytes;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn smove(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (source, destination, member) = (args.at(1), args.at(2), args.at(3));
    if !ctx.keys.exists(source, ctx.now)? {
        return Ok(Reply::Int(0));
    }
    let is_member = ctx.keys.set(source, ctx.now)?.is_some_and(|set| set.contains(member));
    ctx.keys.set(destination, ctx.now)?;
    if is_member && source != destination {
        let member = Bytes::from(member);
        ctx.keys.set_mut(source, ctx.now)?.remove(&member);
        ctx.keys.set_mut(destination, ctx.now)?.insert(&member);
    }
    Ok(Reply::yes(is_member))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_member_moves_if_it_is_one() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSET h f v", ":1"),
            ("SMOVE a h m", ":0"),
            ("SADD a m n", ":2"),
            ("SMOVE a h m", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SMOVE a h x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SMOVE h a m", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SMOVE a b x", ":0"),
            ("EXISTS b", ":0"),
            ("SMOVE a a m", ":1"),
            ("SMOVE a b m", ":1"),
            ("SMOVE a b n", ":1"),
            ("EXISTS a", ":0"),
            ("SMEMBERS b", "*2 $1 m $1 n"),
        ]);
    }
}
