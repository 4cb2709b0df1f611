//! `XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]`

use super::trimming::Options;
use crate::errors;
use crate::{Answer, Args, Ctx, Reply};

pub(super) fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Answer {
    let (mut rest, mut options) = (args.cursor(2), Options::default());
    while !rest.is_done() {
        if !options.take(&mut rest)? {
            return Err(errors::SYNTAX);
        }
    }
    let Some(trim) = options.finish(true)? else {
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
    fn the_first_entries_leave() {
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
    fn about_means_whole_nodes() {
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
