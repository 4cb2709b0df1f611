//! `HGET key field`, `HMGET key field [field ...]`, `HEXISTS key field`, `HSTRLEN key field`, `HLEN key`

use keystead_model::value::Hash;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hget(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    Ok(Reply::maybe(hash.and_then(|hash| hash.get(args.at(2)))))
}

pub(super) fn hmget(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    let value = |field| Reply::maybe(hash.and_then(|hash| hash.get(field)));
    Ok(Reply::Array(args.from(2).map(value).collect()))
}

pub(super) fn hexists(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    Ok(Reply::yes(hash.is_some_and(|hash| hash.contains(args.at(2)))))
}

pub(super) fn hstrlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let hash = ctx.keys.hash(args.at(1), ctx.now)?;
    Ok(Reply::count(hash.and_then(|hash| hash.get(args.at(2))).map_or(0, <[u8]>::len)))
}

pub(super) fn hlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(Reply::count(ctx.keys.hash(args.at(1), ctx.now)?.map_or(0, Hash::len)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn fields_are_found_or_not() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HGET h a", "$-1"),
            ("HMGET h a b", "*2 $-1 $-1"),
            ("HLEN h", ":0"),
            ("HSET h a one b two", ":2"),
            ("HGET h a", "$3 one"),
            ("HGET h x", "$-1"),
            ("HMGET h a x b", "*3 $3 one $-1 $3 two"),
            ("HEXISTS h a", ":1"),
            ("HEXISTS h x", ":0"),
            ("HSTRLEN h a", ":3"),
            ("HSTRLEN h x", ":0"),
            ("HLEN h", ":2"),
            ("SADD s m", ":1"),
        ]);
        for line in ["HGET s a", "HMGET s a", "HEXISTS s a", "HSTRLEN s a", "HLEN s"] {
            desk.expect(&[(line, "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
        }
    }

    #[test]
    fn an_expired_field_disappears_at_its_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[("HSET h a 1 b 2", ":2"), ("HPEXPIRE h 100 FIELDS 1 a", "*1 :1")]);
        desk.now = desk.now.plus_ms(99);
        desk.expect(&[("HGET h a", "$1 1")]);
        desk.now = desk.now.plus_ms(1);
        desk.expect(&[("HGET h a", "$-1"), ("HLEN h", ":1"), ("HGETALL h", "*2 $1 b $1 2")]);
        desk.expect(&[("HPEXPIRE h 100 FIELDS 1 b", "*1 :1")]);
        desk.now = desk.now.plus_ms(100);
        desk.expect(&[("EXISTS h", ":0"), ("TYPE h", "+none")]);
    }
}
