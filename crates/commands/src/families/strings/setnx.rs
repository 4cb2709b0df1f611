//! `SETNX key value`

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn setnx(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let key = args.at(1);
    if ctx.keys.exists(key, ctx.now)? {
        return Ok(Reply::Int(0));
    }
    ctx.keys.set_str(key, Bytes::from(args.at(2)), Expire::At(Millis::NEVER), ctx.now)?;
    Ok(Reply::Int(1))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn only_an_absent_key_is_set() {
        let mut desk = Desk::new();
        desk.expect(&[("SETNX k 1", ":1"), ("SETNX k 2", ":0"), ("GET k", "$1 1"), ("SET e 1 PX 5", "+OK")]);
        desk.now.0 += 5;
        desk.expect(&[("SETNX e 2", ":1"), ("GET e", "$1 2")]);
        desk.now.0 += 5;
        desk.expect(&[("GET e", "$1 2")]);
    }
}
