//! `GETSET key value`

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn getset(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let key = args.at(1);
    let old = ctx.keys.str(key, ctx.now)?.map_or(Reply::Nil, Reply::string);
    ctx.keys.set_str(key, Bytes::from(args.at(2)), Expire::At(Millis::NEVER), ctx.now)?;
    Ok(old)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_previous_string_is_returned_and_its_expiry_removed() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("GETSET k 1", "$-1"),
            ("SET k 2 EX 10", "+OK"),
            ("GETSET k 3", "$1 2"),
            ("GET k", "$1 3"),
        ]);
        assert_eq!(desk.keys.expires_at(b"k", desk.now).unwrap(), Some(keystead_core::Millis::NEVER));
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[("GETSET s v", "-WRONGTYPE Operation against a key holding the wrong kind of value")]);
    }
}
