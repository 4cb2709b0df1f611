//! `THROTTLE key max_burst count_per_period period [quantity]`
//!
//! As in throttlecrab over RESP: allowed (1) or not (0), the limit (`max_burst`), the remaining units, the seconds until
//! the limit is fully replenished, and the seconds until the same request would pass (0 if it did). Seconds are rounded down.

use super::check::{check, int};
use crate::{Args, CommandResult, Ctx, Reply};

/// throttlecrab's burst is the whole limit.
const BESIDE: u64 = 0;

pub(super) fn throttle(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let checked = check(ctx, args, "throttle", BESIDE)?;
    let decision = checked.decision;
    let (reset_after, retry_after) = (checked.reset_after_ms / 1000, decision.retry_after_ms / 1000);
    let numbers = [u64::from(decision.allowed), decision.limit, decision.remaining, reset_after, retry_after];
    Ok(Reply::Array(numbers.map(|number| Reply::Int(int(number))).into()))
}

#[cfg(test)]
mod tests {
    use crate::bounds::{THROTTLE_PERIOD_SECONDS_MAX, THROTTLE_UNITS_MAX};
    use crate::testing::Desk;

    #[test]
    fn the_burst_is_the_limit_and_seconds_are_cut_off() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("THROTTLE k 3 2 3", "*5 :1 :3 :2 :1 :0"),
            ("THROTTLE k 3 2 3 2", "*5 :1 :3 :0 :4 :0"),
            ("THROTTLE k 3 2 3", "*5 :0 :3 :0 :4 :1"),
            ("throttle k 3 2 3 0", "*5 :1 :3 :0 :4 :0"),
            ("THROTTLE k 3 2 3 4", "*5 :0 :3 :0 :4 :6"),
        ]);
        desk.now.0 += 1499;
        desk.expect(&[("THROTTLE k 3 2 3", "*5 :0 :3 :0 :3 :0")]);
        desk.now.0 += 1;
        desk.expect(&[("THROTTLE k 3 2 3", "*5 :1 :3 :0 :4 :0")]);
    }

    /// throttlecrab lets an idle key fill up to nearly twice its burst.
    #[test]
    fn a_replenished_key_admits_its_burst_and_no_more() {
        let mut desk = Desk::new();
        desk.run("THROTTLE k 10 1 1");
        desk.now.0 += 8900;
        let admitted = (0..30).filter(|_| desk.resp("THROTTLE k 10 1 1").starts_with("*5 :1")).count();
        assert_eq!(admitted, 10);
    }

    #[test]
    fn both_commands_share_the_state_of_a_key() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("THROTTLE k 2 1 60", "*5 :1 :2 :1 :60 :0"),
            ("CL.THROTTLE k 1 1 60", "*5 :0 :2 :0 :-1 :120"),
            ("THROTTLE k 2 1 60", "*5 :0 :2 :0 :120 :60"),
            ("TYPE k", "+state"),
            ("GET k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("DEL k", ":1"),
            ("THROTTLE k 2 1 60", "*5 :1 :2 :1 :60 :0"),
        ]);
    }

    #[test]
    fn a_key_of_another_type_is_an_error_and_stays() {
        let mut desk = Desk::new();
        desk.run("SET s 1");
        desk.keys.set_state(b"c", "[1,2]", keystead_model::keyspace::Expire::Keep, desk.now).unwrap();
        let revision = desk.keys.revision();
        for name in ["THROTTLE", "CL.THROTTLE"] {
            for key in ["s", "c"] {
                for quantity in ["", " 0"] {
                    let line = format!("{name} {key} 2 1 60{quantity}");
                    let expected = "-WRONGTYPE Operation against a key holding the wrong kind of value";
                    assert_eq!(desk.resp(&line), expected, "{line}");
                }
            }
        }
        assert_eq!(desk.keys.revision(), revision);
        desk.expect(&[("GET s", "$1 1")]);
    }

    #[test]
    fn invalid_limits_are_errors_and_change_nothing() {
        let mut desk = Desk::new();
        let (units, seconds) = (THROTTLE_UNITS_MAX, THROTTLE_PERIOD_SECONDS_MAX);
        let invalid = |name: &str, min: u64, max: u64| {
            format!("-ERR invalid {name}: it must be a whole number from {min} to {max}")
        };
        let prefix = "-ERR max_burst, count_per_period and period do not go together: ";
        for (arguments, expected) in [
            ("x 1 1", invalid("max_burst", 1, units)),
            ("0 1 1", invalid("max_burst", 1, units)),
            ("9007199254740992 1 1", invalid("max_burst", 1, units)),
            ("1 0 1", invalid("count_per_period", 1, units)),
            ("1 -1 1", invalid("count_per_period", 1, units)),
            ("1 1 0", invalid("period", 1, seconds)),
            ("1 1 1.5", invalid("period", 1, seconds)),
            ("1 1 3153600001", invalid("period", 1, seconds)),
            ("1 1 1 -1", invalid("quantity", 0, units)),
            ("1 1 1 9007199254740992", invalid("quantity", 0, units)),
            ("1 1 1 99999999999999999999", invalid("quantity", 0, units)),
            ("1 1 1 ''", invalid("quantity", 0, units)),
            (
                "1 2000000 1",
                format!("{prefix}periodMs / limit must be at least 1/1024 of a millisecond, not 5e-4"),
            ),
            (
                "9007199254740991 1 3153600000",
                format!("{prefix}burst: this policy takes longer than 1e15 ms to replenish"),
            ),
            ("1 1 1 1 1", "-ERR wrong number of arguments for 'throttle' command".to_owned()),
            ("1 1", "-ERR wrong number of arguments for 'throttle' command".to_owned()),
        ] {
            assert_eq!(desk.resp(&format!("THROTTLE k {arguments}")), expected, "{arguments}");
        }
        desk.expect(&[
            ("CL.THROTTLE k -1 1 1", &invalid("max_burst", 0, units - 1)),
            ("CL.THROTTLE k 9007199254740991 1 1", &invalid("max_burst", 0, units - 1)),
            ("CL.THROTTLE k 1 1 1 1 1", "-ERR wrong number of arguments for 'cl.throttle' command"),
        ]);
        assert_eq!((desk.keys.len(), desk.keys.revision().0), (0, 0));
    }

    #[test]
    fn the_largest_numbers_are_accepted() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("THROTTLE k 1 1 1 9007199254740991", "*5 :0 :1 :1 :0 :9007199254740"),
            ("CL.THROTTLE k 0 1 1 9007199254740991", "*5 :1 :1 :1 :-1 :0"),
            ("THROTTLE k 1 1 3153600000", "*5 :1 :1 :0 :3153600000 :0"),
            ("THROTTLE l 1000000 1000000 1 1000000", "*5 :1 :1000000 :0 :1 :0"),
        ]);
    }
}
