//! `MSET key value [key value ...]`
//! `MSETNX key value [key value ...]`

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn mset(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    check_pairs(args, "mset")?;
    put_all(ctx, args)?;
    Ok(Reply::Ok)
}

pub(super) fn msetnx(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    check_pairs(args, "msetnx")?;
    for key in args.from(1).step_by(2) {
        if ctx.keys.exists(key, ctx.now)? {
            return Ok(Reply::Int(0));
        }
    }
    put_all(ctx, args)?;
    Ok(Reply::Int(1))
}

fn check_pairs(args: Args<'_>, command: &str) -> Result<(), Fail> {
    if args.len().is_multiple_of(2) { Err(errors::wrong_arity(command)) } else { Ok(()) }
}

fn put_all(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Fail> {
    for index in (1..args.len()).step_by(2) {
        let value = Bytes::from(args.at(index + 1));
        ctx.keys.set_str(args.at(index), value, Expire::At(Millis::NEVER), ctx.now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn all_or_none() {
        Desk::new().expect(&[
            ("MSET a 1 b 2 a 3", "+OK"),
            ("MGET a b", "*2 $1 3 $1 2"),
            ("MSETNX c 1 b 9", ":0"),
            ("MGET b c", "*2 $1 2 $-1"),
            ("MSETNX c 1 d 2", ":1"),
            ("MGET c d", "*2 $1 1 $1 2"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
            ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command"),
        ]);
    }
}
