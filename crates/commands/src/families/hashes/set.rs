//! `HSET key field value [field value ...]`, `HMSET` with the same arguments, `HSETNX key field value`

use keystead_model::Bytes;

use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hset(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    put(ctx, args, "hset").map(Reply::count)
}

pub(super) fn hmset(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    put(ctx, args, "hmset").map(|_| Reply::Ok)
}

pub(super) fn hsetnx(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    if hash.contains(args.at(2)) {
        return Ok(Reply::Int(0));
    }
    hash.set(&Bytes::from(args.at(2)), &Bytes::from(args.at(3)));
    Ok(Reply::Int(1))
}

/// Sets fields, removes their expiration, and returns how many are new.
fn put(ctx: &mut Ctx<'_>, args: Args<'_>, name: &str) -> Result<usize, Fail> {
    if args.len() % 2 == 1 {
        return Err(errors::wrong_arity(name));
    }
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    let mut created = 0;
    for index in (2..args.len()).step_by(2) {
        let old = hash.set(&Bytes::from(args.at(index)), &Bytes::from(args.at(index + 1)));
        created += usize::from(old.is_none());
    }
    Ok(created)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn fields_are_set_and_new_ones_counted() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSET h a 1 b 2", ":2"),
            ("HSET h a 3 c 4 c 5", ":1"),
            ("HGETALL h", "*6 $1 a $1 3 $1 b $1 2 $1 c $1 5"),
            ("HMSET h a 1", "+OK"),
            ("HSETNX h a 9", ":0"),
            ("HSETNX h d 9", ":1"),
            ("HMGET h a d", "*2 $1 1 $1 9"),
            ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
            ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
            ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command"),
            ("SADD s m", ":1"),
            ("HSET s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSETNX s a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn setting_a_field_removes_its_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSET h a 1", ":1"),
            ("HEXPIRE h 10 FIELDS 1 a", "*1 :1"),
            ("HSETNX h a 2", ":0"),
            ("HTTL h FIELDS 1 a", "*1 :10"),
            ("HSET h a 2", ":0"),
            ("HTTL h FIELDS 1 a", "*1 :-1"),
        ]);
    }
}
