//! `HDEL key field [field ...]`

use keystead_model::Bytes;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    let removed = args.from(2).filter(|field| hash.remove(&Bytes::from(*field)).is_some()).count();
    Ok(Reply::count(removed))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn deleting_the_last_field_deletes_the_key() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HDEL h a", ":0"),
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HDEL h a a x", ":1"),
            ("HKEYS h", "*2 $1 b $1 c"),
            ("HDEL h b c", ":2"),
            ("EXISTS h", ":0"),
            ("SADD s m", ":1"),
            ("HDEL s m", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
