//! `CL.THROTTLE key max_burst count_per_period period [quantity]`
//!
//! As in redis-cell: limited (1) or not (0), the limit (`max_burst` + 1), the remaining units, the seconds until the same
//! request would pass (-1 if it did, or never will), and the seconds until the limit is fully replenished. Seconds are rounded
//! up, so that no client retries too early.

use super::check::{check, int};
use crate::{Args, CommandResult, Ctx, Reply};

/// redis-cell's burst is in addition to the one request that is always allowed.
const BESIDE: u64 = 1;

pub(super) fn cl_throttle(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let checked = check(ctx, args, "cl.throttle", BESIDE)?;
    let decision = checked.decision;
    let never = checked.quantity > decision.limit;
    let retry_after = if decision.allowed || never { -1 } else { seconds(decision.retry_after_ms) };
    let limited = i64::from(!decision.allowed);
    let reset_after = seconds(checked.reset_after_ms);
    let numbers = [limited, int(decision.limit), int(decision.remaining), retry_after, reset_after];
    Ok(Reply::Array(numbers.map(Reply::Int).into()))
}

fn seconds(ms: u64) -> i64 {
    int(ms.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    /// redis-cell's own test cases: a limit of 5, one a second.
    #[test]
    fn the_cases_of_redis_cell_match() {
        let mut desk = Desk::new();
        let start = desk.now.0;
        for (after_ms, quantity, expected) in [
            (0, 6, ":1 :5 :5 :-1 :0"),
            (0, 1, ":0 :5 :4 :-1 :1"),
            (0, 1, ":0 :5 :3 :-1 :2"),
            (0, 1, ":0 :5 :2 :-1 :3"),
            (0, 1, ":0 :5 :1 :-1 :4"),
            (0, 1, ":0 :5 :0 :-1 :5"),
            (0, 1, ":1 :5 :0 :1 :5"),
            (3000, 1, ":0 :5 :2 :-1 :3"),
            (3100, 1, ":0 :5 :1 :-1 :4"),
            (4000, 1, ":0 :5 :1 :-1 :4"),
            (8000, 1, ":0 :5 :4 :-1 :1"),
            (9500, 1, ":0 :5 :4 :-1 :1"),
            (9500, 0, ":0 :5 :4 :-1 :1"),
            (9500, 2, ":0 :5 :2 :-1 :3"),
            (9500, 5, ":1 :5 :2 :3 :3"),
        ] {
            desk.now.0 = start + after_ms;
            let line = format!("CL.THROTTLE k 4 1 1 {quantity}");
            assert_eq!(desk.resp(&line), format!("*5 {expected}"), "{line} after {after_ms} ms");
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("CL.THROTTLE k 0 2 3", "*5 :0 :1 :0 :-1 :2"),
            ("CL.THROTTLE k 0 2 3", "*5 :1 :1 :0 :2 :2"),
        ]);
        desk.now.0 += 500;
        desk.expect(&[("CL.THROTTLE k 0 2 3", "*5 :1 :1 :0 :1 :1")]);
        desk.now.0 += 999;
        desk.expect(&[("CL.THROTTLE k 0 2 3", "*5 :1 :1 :0 :1 :1")]);
        desk.now.0 += 1;
        desk.expect(&[("CL.THROTTLE k 0 2 3", "*5 :0 :1 :0 :-1 :2")]);
    }

    #[test]
    fn quantity_0_and_denials_change_nothing() {
        let mut desk = Desk::new();
        desk.expect(&[("CL.THROTTLE k 4 1 1 0", "*5 :0 :5 :5 :-1 :0"), ("EXISTS k", ":0")]);
        desk.run("CL.THROTTLE k 4 1 1 5");
        let before = (desk.keys.revision(), desk.resp("PTTL k"));
        assert_eq!(before.1, ":5000");
        desk.expect(&[
            ("CL.THROTTLE k 4 1 1", "*5 :1 :5 :0 :1 :5"),
            ("CL.THROTTLE k 4 1 1 0", "*5 :0 :5 :0 :-1 :5"),
        ]);
        assert_eq!((desk.keys.revision(), desk.resp("PTTL k")), before);
        desk.now.0 += 5000;
        desk.expect(&[("EXISTS k", ":0"), ("CL.THROTTLE k 4 1 1", "*5 :0 :5 :4 :-1 :1")]);
    }

    #[test]
    fn a_smaller_burst_applies_at_once() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("CL.THROTTLE k 9 1 1 10", "*5 :0 :10 :0 :-1 :10"),
            ("CL.THROTTLE k 4 1 1 0", "*5 :1 :5 :0 :5 :10"),
            ("CL.THROTTLE k 19 1 1", "*5 :0 :20 :9 :-1 :11"),
        ]);
    }

    #[test]
    fn scripts_and_transactions_call_it() {
        let mut desk = Desk::new();
        let expected =
            desk.run_args(&["EVAL", "return redis.call('CL.THROTTLE', KEYS[1], 1, 1, 60)", "1", "k"]);
        assert_eq!(crate::testing::shown(&expected), "*5 :0 :2 :1 :-1 :60");
        desk.expect(&[
            ("CL.THROTTLE k 1 1 60", "*5 :0 :2 :0 :-1 :120"),
            ("CL.THROTTLE k 1 1 60", "*5 :1 :2 :0 :60 :120"),
        ]);
        let spec = crate::table::find(b"cl.throttle").unwrap();
        assert!(spec.writes() && !spec.read_only() && spec.over_rest());
    }
}
