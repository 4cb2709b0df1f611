//! `DIGEST key`

use super::condition;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn digest(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let value = ctx.keys.str(args.at(1), ctx.now)?;
    Ok(value.map_or(Reply::Nil, |value| Reply::text(condition::digest(value))))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn digests_are_those_of_redis() {
        Desk::new().expect(&[
            ("MSET a hello b '' c 123 d v8", "+OK"),
            ("DIGEST a", "$16 9555e8555c62dcfd"),
            ("DIGEST b", "$16 2d06800538d394c2"),
            ("DIGEST c", "$16 404a763b3f4c8c9a"),
            ("DIGEST d", "$16 0cc76dbb41381419"),
            ("DIGEST none", "$-1"),
            ("SADD s m", ":1"),
            ("DIGEST s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("DIGEST", "-ERR wrong number of arguments for 'digest' command"),
        ]);
    }
}
