//! `RENAME key newkey`, `RENAMENX key newkey`

use keystead_model::keyspace::Renamed;

use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn rename(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    renamed(ctx, args, true).map(|_| Reply::Ok)
}

pub(super) fn renamenx(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    renamed(ctx, args, false).map(Reply::yes)
}

/// Whether the key was renamed.
fn renamed(ctx: &mut Ctx<'_>, args: Args<'_>, overwrite: bool) -> Result<bool, Fail> {
    match ctx.keys.rename(args.at(1), args.at(2), overwrite, ctx.now)? {
        Renamed::Done => Ok(true),
        Renamed::Taken => Ok(false),
        Renamed::Absent => Err(errors::NO_KEY),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn renaming_moves_value_and_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("RENAME a b", "-ERR no such key"),
            ("RENAMENX a a", "-ERR no such key"),
            ("SADD a m", ":1"),
            ("PEXPIRE a 5000", ":1"),
            ("HSET b f v", ":1"),
            ("RENAMENX a b", ":0"),
            ("RENAME a a", "+OK"),
            ("RENAMENX a a", ":0"),
            ("RENAME a b", "+OK"),
            ("TYPE b", "+set"),
            ("PTTL b", ":5000"),
            ("EXISTS a", ":0"),
            ("RENAMENX b c", ":1"),
            ("SMEMBERS c", "*1 $1 m"),
        ]);
    }
}
