//! `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`

use keystead_model::keyspace::Miss;

use super::condition::Condition;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

const NO_STRING: Fail = Fail::fixed("ERR Key should be of string type if conditions are specified");
const NO_CONDITION: Fail = Fail::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");

pub(super) fn delex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let key = args.at(1);
    if args.len() == 2 {
        return Ok(Reply::yes(ctx.keys.delete(key, ctx.now)?));
    }
    if args.len() != 4 {
        return Err(errors::wrong_arity("delex"));
    }
    let there = match ctx.keys.str(key, ctx.now) {
        Ok(Some(there)) => there,
        Ok(None) => return Ok(Reply::Int(0)),
        Err(Miss::WrongType(_)) => return Err(NO_STRING),
        Err(miss) => return Err(miss.into()),
    };
    let condition = Condition::named(args.at(2), args.at(3)).ok_or(NO_CONDITION)?;
    Ok(Reply::yes(condition.holds(Some(there))? && ctx.keys.delete(key, ctx.now)?))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_key_is_deleted_if_its_string_is_the_one() {
        let hello = "9555e8555c62dcfd";
        Desk::new().expect(&[
            ("DELEX k", ":0"),
            ("SET k hello", "+OK"),
            ("DELEX k IFEQ other", ":0"),
            ("DELEX k ifne hello", ":0"),
            ("DELEX k IFDEQ zzzzzzzzzzzzzzzz", ":0"),
            (&format!("DELEX k IFDNE {}", hello.to_uppercase()), ":0"),
            ("GET k", "$5 hello"),
            (&format!("DELEX k IFDEQ {hello}"), ":1"),
            ("SET k 0123", "+OK"),
            ("DELEX k IFEQ 123", ":0"),
            ("DELEX k IFNE 123", ":1"),
            ("SET k hello", "+OK"),
            ("DELEX k IFDNE 0000000000000000", ":1"),
            ("SET k hello", "+OK"),
            ("DELEX k IFEQ hello", ":1"),
            ("EXISTS k", ":0"),
            ("SADD s m", ":1"),
            ("DELEX s", ":1"),
        ]);
    }

    #[test]
    fn errors_come_in_redis_order_and_delete_nothing() {
        let arity = "-ERR wrong number of arguments for 'delex' command";
        let no_digest = "-ERR must be exactly 16 hexadecimal characters";
        Desk::new().expect(&[
            ("DELEX none IFEQ", arity),
            ("DELEX none IFEQ a b", arity),
            ("DELEX none FOO a", ":0"),
            ("DELEX none IFDEQ a", ":0"),
            ("SADD s m", ":1"),
            ("DELEX s FOO a", "-ERR Key should be of string type if conditions are specified"),
            ("SET k hello", "+OK"),
            ("DELEX k FOO hello", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
            ("DELEX k IFDEQ ''", no_digest),
            ("DELEX k IFDNE 9555e8555c62dcf", no_digest),
            ("EXISTS k s", ":2"),
        ]);
    }
}
