//! `SET key value [NX | XX | IFEQ match-value | IFNE match-value | IFDEQ match-digest | IFDNE match-digest] [GET] [EX seconds
//! | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]`

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use super::condition::{Condition, accept_there};
use super::expire::ExpiryOption;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn set(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 3 {
        ctx.keys.set_str(args.at(1), Bytes::from(args.at(2)), Expire::At(Millis::NEVER), ctx.now)?;
        return Ok(Reply::Ok);
    }
    set_with_options(ctx, args)
}

fn set_with_options(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let options = Options::parse(args)?;
    let expire = options.expire.of_new("set", ctx.now)?;
    let key = args.at(1);
    let old =
        if options.get { Some(ctx.keys.str(key, ctx.now)?.map_or(Reply::Nil, Reply::string)) } else { None };
    if let Some(wanted) = options.there {
        let there = match &old {
            Some(old) => *old != Reply::Nil,
            None => ctx.keys.exists(key, ctx.now)?,
        };
        if there != wanted {
            return Ok(old.unwrap_or(Reply::Nil));
        }
    }
    if let Some(condition) = options.condition {
        let there = ctx.keys.str(key, ctx.now)?;
        if !condition.holds(there.map(|there| &there[..]))? {
            return Ok(old.unwrap_or(Reply::Nil));
        }
    }
    ctx.keys.set_str(key, Bytes::from(args.at(2)), expire, ctx.now)?;
    Ok(old.unwrap_or(Reply::Ok))
}

#[derive(Default)]
struct Options<'a> {
    /// XX: the key must exist; NX: it must not.
    there: Option<bool>,
    condition: Option<Condition<'a>>,
    get: bool,
    expire: ExpiryOption<'a>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Fail> {
        let mut cursor = args.cursor(3);
        let mut options = Options::default();
        while !cursor.is_done() {
            let conditional = options.condition.is_none() && accept_there(&mut options.there, &mut cursor)
                || options.there.is_none() && Condition::accept(&mut options.condition, &mut cursor);
            if conditional {
                continue;
            }
            if cursor.accept("GET") {
                options.get = true;
            } else if !options.expire.accept(&mut cursor, "KEEPTTL") {
                return Err(errors::SYNTAX);
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

    #[test]
    fn conditions_and_the_value_before() {
        Desk::new().expect(&[
            ("SET k v XX", "$-1"),
            ("SET k v XX GET", "$-1"),
            ("SET k 1 NX GET", "$-1"),
            ("GET k", "$1 1"),
            ("SET k 2 NX", "$-1"),
            ("SET k 2 nx get", "$1 1"),
            ("SET k 2 XX", "+OK"),
            ("SET k 3 GET", "$1 2"),
            ("GET k", "$1 3"),
        ]);
    }

    #[test]
    fn the_current_string_may_decide() {
        let no_digest = "-ERR must be exactly 16 hexadecimal characters";
        Desk::new().expect(&[
            ("SET k v IFEQ hello", "$-1"),
            ("SET k v IFDEQ short", "$-1"),
            ("EXISTS k", ":0"),
            ("SET k v IFDNE short", "+OK"),
            ("DEL k", ":1"),
            ("SET k hello IFNE hello", "+OK"),
            ("SET k v IFNE hello", "$-1"),
            ("SET k v IFNE hello GET", "$5 hello"),
            ("SET k v IFEQ other GET", "$5 hello"),
            ("SET k v IFDEQ short", no_digest),
            ("SET k v IFDNE 9555E8555C62DCFD", "$-1"),
            ("SET k v IFDEQ 9555E8555C62DCFD EX 10 GET", "$5 hello"),
            ("PTTL k", ":10000"),
            ("SET k w IFEQ x IFEQ v keepttl", "+OK"),
            ("PTTL k", ":10000"),
            ("SET k x IFEQ w", "+OK"),
            ("GET k", "$1 x"),
            ("TTL k", ":-1"),
            ("SET k v IFEQ", "-ERR syntax error"),
            ("SET k v IFEQ x NX", "-ERR syntax error"),
            ("SET k v XX IFEQ x", "-ERR syntax error"),
            ("SET k v IFEQ x IFNE x", "-ERR syntax error"),
            ("SADD s m", ":1"),
            ("SET s v IFNE m", WRONG_TYPE),
            ("SCARD s", ":1"),
        ]);
    }

    #[test]
    fn an_expiry_is_set_kept_or_removed() {
        let mut desk = Desk::new();
        let now_ms = desk.now.0;
        let mut expires = |line: &str, ms: Option<u64>| {
            assert_eq!(desk.resp(line), "+OK", "{line}");
            let expires_at = desk.keys.expires_at(b"k", desk.now).unwrap();
            assert_eq!(expires_at.map(|at| at.0), ms, "{line}");
        };
        expires("SET k v EX 10", Some(now_ms + 10_000));
        expires("SET k v KEEPTTL KEEPTTL", Some(now_ms + 10_000));
        expires("SET k v", Some(u64::MAX));
        expires("SET k v px 10 PX 20", Some(now_ms + 20));
        expires("SET k v EXAT 1800000000", Some(1_800_000_000_000));
        expires("SET k v PXAT 1800000000001", Some(1_800_000_000_001));
        expires("SET k v EXAT 1", None);
    }

    #[test]
    fn errors_come_in_redis_order_and_change_nothing() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("SET s v NX XX", "-ERR syntax error"),
            ("SET s v EX", "-ERR syntax error"),
            ("SET s v EX 1 PX 1", "-ERR syntax error"),
            ("SET s v KEEPTTL EX 1", "-ERR syntax error"),
            ("SET s v EX 1 KEEPTTL", "-ERR syntax error"),
            ("SET s v PERSIST", "-ERR syntax error"),
            ("SET s v GET EX x", "-ERR value is not an integer or out of range"),
            ("SET s v GET EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET s v EX 9223372036854775", "-ERR invalid expire time in 'set' command"),
            ("SET s v PX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET s v GET", WRONG_TYPE),
            ("GET s", WRONG_TYPE),
            ("SET s v PXAT 9223372036854775807", "+OK"),
            ("GET s", "$1 v"),
        ]);
    }
}
