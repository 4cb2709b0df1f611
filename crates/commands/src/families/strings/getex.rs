//! `GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]`

use keystead_core::Millis;

use super::expire::{self, ExpiryOption};
use crate::errors;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn getex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(2);
    let mut expiry = ExpiryOption::default();
    while !cursor.is_done() {
        if !expiry.accept(&mut cursor, "PERSIST") {
            return Err(errors::SYNTAX);
        }
    }
    let key = args.at(1);
    let Some(value) = ctx.keys.str(key, ctx.now)?.map(Reply::string) else {
        return Ok(Reply::Nil);
    };
    let at = match expiry {
        ExpiryOption::Nothing => return Ok(value),
        ExpiryOption::Word => Millis::NEVER,
        ExpiryOption::Until(form, text) => expire::moment(form, text, "getex", ctx.now)?,
    };
    // PERSIST on a key without expiration changes nothing.
    if at != Millis::NEVER || ctx.keys.expires_at(key, ctx.now)? != Some(Millis::NEVER) {
        ctx.keys.set_expiry(key, at, ctx.now)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_read_changes_the_expiry() {
        let mut desk = Desk::new();
        let now_ms = desk.now.0;
        desk.expect(&[("SET k v", "+OK")]);
        let mut expires = |line: &str, ms: Option<u64>| {
            assert_eq!(desk.resp(line), "$1 v", "{line}");
            assert_eq!(desk.keys.expires_at(b"k", desk.now).unwrap().map(|at| at.0), ms, "{line}");
        };
        expires("GETEX k", Some(u64::MAX));
        expires("GETEX k EX 1", Some(now_ms + 1000));
        expires("GETEX k PX 5", Some(now_ms + 5));
        expires("GETEX k", Some(now_ms + 5));
        expires("GETEX k PERSIST", Some(u64::MAX));
        expires("GETEX k EXAT 1800000000", Some(1_800_000_000_000));
        expires("GETEX k PXAT 1", None);
    }

    #[test]
    fn errors() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("GETEX k KEEPTTL", "-ERR syntax error"),
            ("GETEX k EX 1 PERSIST", "-ERR syntax error"),
            ("GETEX k EX", "-ERR syntax error"),
            ("GETEX k EX 0", "$-1"),
            ("GETEX s EX 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v", "+OK"),
            ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command"),
            ("GETEX k EX x", "-ERR value is not an integer or out of range"),
        ]);
    }

    #[test]
    fn persisting_without_expiry_is_no_change() {
        let mut desk = Desk::new();
        desk.expect(&[("SET k v", "+OK"), ("GETEX k PERSIST", "$1 v")]);
        assert_eq!(desk.keys.version(b"k", desk.now).unwrap().map(|version| version.0), Some(1));
    }
}
