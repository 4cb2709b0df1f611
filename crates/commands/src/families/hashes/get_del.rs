//! `HGETDEL key FIELDS numfields field [field ...]`

use keystead_model::Bytes;

use super::fields;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hgetdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut hash = ctx.keys.hash_mut(args.at(1), ctx.now)?;
    let fields = fields::parse(args, 2, fields::NOT_POSITIVE)?;
    let removed = fields.map(|field| hash.remove(&Bytes::from(field)).map_or(Reply::Nil, Reply::shared));
    Ok(Reply::Array(removed.collect()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn fields_are_returned_once() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HGETDEL h FIELDS 1 a", "*1 $-1"),
            ("HSET h a 1 b 2", ":2"),
            ("HGETDEL h FIELDS 3 a a x", "*3 $1 1 $-1 $-1"),
            ("HGETDEL h FIELDS 2 b", "-ERR The `numfields` parameter must match the number of arguments"),
            ("HGETDEL h FIELDS x b", "-ERR Number of fields must be a positive integer"),
            ("HGETDEL h FOO 1 b", "-ERR Mandatory argument FIELDS is missing or not at the right position"),
            ("HGETDEL h FIELDS 1 b", "*1 $1 2"),
            ("EXISTS h", ":0"),
            ("SADD s m", ":1"),
            ("HGETDEL s FOO 1 b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
