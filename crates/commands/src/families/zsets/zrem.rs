//! ZREM key member [member ...]

use keystead_model::Bytes;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn zrem(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut zset = ctx.keys.zset_mut(args.at(1), ctx.now)?;
    let removed = args.from(2).filter(|member| zset.remove(&Bytes::from(*member)).is_some()).count();
    Ok(Reply::count(removed))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_are_removed() {
        Desk::new().expect(&[
            ("ZREM z a", ":0"),
            ("ZADD z 1 a 2 b 3 c", ":3"),
            ("ZREM z a a x b", ":2"),
            ("ZREM z c", ":1"),
            ("EXISTS z", ":0"),
            ("SET s x", "+OK"),
            ("ZREM s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
