//! `SPOP key [count]`

use keystead_model::Bytes;

use crate::errors;
use crate::number;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn spop(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    match args.len() {
        2 => one(ctx, args),
        3 => several(ctx, args),
        _ => Err(errors::SYNTAX),
    }
}

fn one(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut set = ctx.keys.set_mut(args.at(1), ctx.now)?;
    let index = ctx.random.below(set.len());
    let Some(member) = set.nth(index).map(Bytes::from) else {
        return Ok(Reply::Nil);
    };
    set.remove(&member);
    Ok(Reply::shared(member))
}

fn several(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let count = number::parse_int(args.at(2)).filter(|count| *count >= 0).ok_or(errors::NOT_POSITIVE)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let key = args.at(1);
    let Some(set) = ctx.keys.set(key, ctx.now)? else {
        return Ok(Reply::Set(Vec::new()));
    };
    if count >= set.len() {
        let members = set.iter().map(Reply::bulk).collect();
        // The whole set is deleted as one change.
        ctx.keys.delete(key, ctx.now)?;
        return Ok(Reply::Set(members));
    }
    let picked = ctx.random.distinct(count, set.len());
    let members: Vec<Bytes> =
        picked.into_iter().filter_map(|index| set.nth(index)).map(Bytes::from).collect();
    let mut set = ctx.keys.set_mut(key, ctx.now)?;
    for member in &members {
        set.remove(member);
    }
    Ok(Reply::Set(members.into_iter().map(Reply::shared).collect()))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn popped_members_are_removed() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SPOP s", "$-1"),
            ("SPOP s 3", "*0"),
            ("SADD s a", ":1"),
            ("SPOP s 0", "*0"),
            ("SPOP s", "$1 a"),
            ("EXISTS s", ":0"),
            ("SADD s a b", ":2"),
            ("SPOP s 9223372036854775807", "*2 $1 a $1 b"),
            ("EXISTS s", ":0"),
        ]);
        for n in 0..300 {
            desk.run(&format!("SADD s {n}"));
        }
        let Reply::Set(popped) = desk.run("SPOP s 100") else { panic!() };
        assert_eq!(popped.len(), 100);
        desk.expect(&[("SCARD s", ":200")]);
        for member in popped {
            let Reply::Bulk(member) = member else { panic!() };
            assert_eq!(desk.run_args(&[b"SISMEMBER", &b"s"[..], &member]), Reply::Int(0));
        }
    }

    #[test]
    fn the_count_is_checked_before_the_key() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSET h f v", ":1"),
            ("SPOP h -1", "-ERR value is out of range, must be positive"),
            ("SPOP h x", "-ERR value is out of range, must be positive"),
            ("SPOP h 1 2", "-ERR syntax error"),
            ("SPOP h 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SPOP h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
