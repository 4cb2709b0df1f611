//! `COPY source destination [DB 0] [REPLACE]`. There is one database, number 0.

use keystead_model::keyspace::Renamed;

use crate::errors;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn copy(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (source, destination) = (args.at(1), args.at(2));
    let mut options = args.cursor(3);
    let mut replace = false;
    while !options.is_done() {
        if options.accept("REPLACE") {
            replace = true;
        } else if options.accept_with("DB", 1) {
            let index = i32::try_from(options.int()?).map_err(|_| errors::NOT_INT_32)?;
            if index != 0 {
                return Err(errors::DB_INDEX);
            }
        } else {
            return Err(errors::SYNTAX);
        }
    }
    if source == destination && ctx.is_upstash() {
        return Ok(Reply::Int(0));
    }
    if source == destination {
        return Err(errors::SAME_OBJECT);
    }
    let copied = ctx.keys.copy(source, destination, replace, ctx.now)?;
    Ok(Reply::yes(copied == Renamed::Done))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_copy_has_value_and_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("COPY a b", ":0"),
            ("SADD a m", ":1"),
            ("PEXPIRE a 5000", ":1"),
            ("COPY a b", ":1"),
            ("PTTL b", ":5000"),
            ("COPY a b DB 0", ":0"),
            ("COPY a b DB 0 REPLACE", ":1"),
            ("COPY a a", "-ERR source and destination objects are the same"),
            ("COPY x x", "-ERR source and destination objects are the same"),
            ("COPY a b DB 1", "-ERR DB index is out of range"),
            (
                "COPY a b DB 2147483648",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
            ("COPY a b DB x", "-ERR value is not an integer or out of range"),
            ("COPY a b DB", "-ERR syntax error"),
            ("COPY a b foo", "-ERR syntax error"),
        ]);
        Desk::upstash().expect(&[
            ("SET a v", "+OK"),
            ("COPY a a", ":0"),
            ("COPY a a REPLACE", ":0"),
            ("COPY a a foo", "-ERR syntax error"),
            ("COPY a b", ":1"),
        ]);
    }
}
