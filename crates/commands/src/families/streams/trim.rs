//! `XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`

use super::trimming::Options;
use crate::errors;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xtrim(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (mut rest, mut options) = (args.cursor(2), Options::default());
    while !rest.is_done() {
        if !options.take(&mut rest)? {
            return Err(errors::SYNTAX);
        }
    }
    let Some(trim) = options.finish(true, ctx.dialect)? else {
        return Err(errors::SYNTAX);
    };
    Ok(Reply::count(trim.apply(&mut ctx.keys.stream_mut(args.at(1), ctx.now)?)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    fn filled(count: u64) -> Desk {
        let mut desk = Desk::new();
        for n in 1..=count {
            desk.run(&format!("XADD s {n} field {n}"));
        }
        desk
    }

    #[test]
    fn the_oldest_entries_are_removed() {
        filled(10).expect(&[
            ("XTRIM x MAXLEN 0", ":0"),
            ("XTRIM s MAXLEN 8", ":2"),
            ("XTRIM s MAXLEN = 8", ":0"),
            ("XTRIM s MINID 5", ":2"),
            ("XTRIM s MINID = 4", ":0"),
            ("XTRIM s MAXLEN 18446744073709551615", "-ERR value is not an integer or out of range"),
            ("XTRIM s MAXLEN 9223372036854775807", ":0"),
            ("XTRIM s MAXLEN 0", ":6"),
            ("XLEN s", ":0"),
        ]);
    }

    #[test]
    fn approximate_trimming_removes_whole_nodes() {
        filled(250).expect(&[
            ("XTRIM s MAXLEN ~ 151", ":0"),
            ("XTRIM s MAXLEN ~ 150 LIMIT 99", ":0"),
            ("XTRIM s MAXLEN ~ 140", ":100"),
            ("XTRIM s MINID ~ 200", ":0"),
            ("XTRIM s MINID ~ 201", ":100"),
            ("XTRIM s MAXLEN ~ 1", ":0"),
            ("XTRIM s MAXLEN ~ 0", ":50"),
        ]);
        filled(50).expect(&[("XTRIM s MAXLEN ~ 10", ":0"), ("XTRIM s MINID ~ 51", ":50")]);
        filled(10_200).expect(&[
            ("XTRIM s MAXLEN ~ 0 LIMIT 150", ":100"),
            ("XTRIM s MAXLEN ~ 0", ":10000"),
            ("XTRIM s MAXLEN ~ 0 LIMIT 0", ":100"),
        ]);
    }

    #[test]
    fn upstash_trims_exactly() {
        let mut desk = filled(250);
        desk.dialect = crate::ctx::Dialect::Upstash;
        desk.expect(&[
            ("XTRIM s MAXLEN ~ 151", ":99"),
            ("XTRIM s MINID ~ 105 LIMIT 3", ":3"),
            ("XTRIM s MINID ~ 105", ":2"),
            ("XADD s MAXLEN ~ 30 300 a b", "$5 300-0"),
            ("XLEN s", ":30"),
        ]);
    }

    #[test]
    fn groups_may_hold_entries() {
        let mut desk = filled(6);
        for line in ["XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 4 STREAMS s >", "XACK s g 1 3"] {
            desk.run(line);
        }
        desk.expect(&[
            // 2 and 4 are pending, 5 and 6 not yet read.
            ("XTRIM s MAXLEN 0 ACKED", ":2"),
            ("XLEN s", ":4"),
            ("XTRIM s MINID 3 ACKED", ":0"),
            ("XTRIM s MINID 3 KEEPREF", ":1"),
            ("XPENDING s g", "*4 :2 $3 2-0 $3 4-0 *1 *2 $1 c $1 2"),
            ("XTRIM s MAXLEN = 2 DELREF", ":1"),
            ("XPENDING s g", "*4 :1 $3 2-0 $3 2-0 *1 *2 $1 c $1 1"),
            ("XTRIM s DELREF MAXLEN 9 ACKED", "-ERR syntax error"),
            ("XADD s ACKED MAXLEN 1 7 a b", "$3 7-0"),
            ("XLEN s", ":3"),
            ("XADD s MAXLEN 1 DELREF 8 a b", "$3 8-0"),
            ("XLEN s", ":1"),
        ]);
        let mut desk = filled(250);
        desk.run("XGROUP CREATE s g 0");
        desk.run("XREADGROUP GROUP g c COUNT 150 STREAMS s >");
        desk.run("XACK s g 1 2");
        desk.expect(&[
            ("XTRIM s MAXLEN ~ 20 ACKED", ":2"),
            ("XTRIM s MAXLEN ~ 20 DELREF", ":200"),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
        ]);
    }

    #[test]
    fn bad_arguments_trim_nothing() {
        filled(2).expect(&[
            ("XTRIM s MAXLEN", "-ERR wrong number of arguments for 'xtrim' command"),
            ("XTRIM s FOO 1", "-ERR syntax error"),
            ("XTRIM s MAXLEN 1 FOO", "-ERR syntax error"),
            ("XTRIM s MAXLEN ~", "-ERR value is not an integer or out of range"),
            ("XTRIM s LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy"),
            (
                "XTRIM s LIMIT 1",
                "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ),
            (
                "XTRIM s MINID 1 LIMIT 0",
                "-ERR syntax error, LIMIT cannot be used without the special ~ option",
            ),
            ("XLEN s", ":2"),
            ("SADD t m", ":1"),
            ("XTRIM t MAXLEN 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
