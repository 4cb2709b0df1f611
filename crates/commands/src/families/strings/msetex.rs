//! `MSETEX numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT
//! unix-time-milliseconds | KEEPTTL]`

use super::condition::accept_there;
use super::expire::ExpiryOption;
use crate::errors::{self, Fail};
use crate::number;
use crate::{Args, CommandResult, Ctx, Reply};

const NO_COUNT: Fail = Fail::fixed("ERR invalid numkeys value");
const NO_PAIRS: Fail = Fail::fixed("ERR wrong number of key-value pairs");

pub(super) fn msetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let count = number::parse_int(args.at(1)).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = usize::try_from(count.ok_or(NO_COUNT)?).map_err(|_| NO_COUNT)?;
    let end = 2 + 2 * count;
    if end > args.len() {
        return Err(NO_PAIRS);
    }
    let (mut there, mut expire) = (None, ExpiryOption::default());
    let mut options = args.cursor(end);
    while !options.is_done() {
        if !accept_there(&mut there, &mut options) && !expire.accept(&mut options, "KEEPTTL") {
            return Err(errors::SYNTAX);
        }
    }
    let expire = expire.of_new("msetex", ctx.now)?;
    let pairs = (2..end).step_by(2).map(|index| (args.at(index), args.at(index + 1)));
    if let Some(wanted) = there {
        for (key, _) in pairs.clone() {
            if ctx.keys.exists(key, ctx.now)? != wanted {
                return Ok(Reply::Int(0));
            }
        }
    }
    for (key, value) in pairs {
        ctx.keys.set_str(key, value.into(), expire, ctx.now)?;
    }
    Ok(Reply::Int(1))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn all_keys_get_the_same_expiry_or_none_is_set() {
        Desk::new().expect(&[
            ("MSETEX 2 a 1 b 2 EX 10", ":1"),
            ("MGET a b", "*2 $1 1 $1 2"),
            ("PTTL a", ":10000"),
            ("PTTL b", ":10000"),
            ("MSETEX 2 a 3 c 3 NX", ":0"),
            ("MSETEX 2 a 3 c 3 XX PX 5", ":0"),
            ("MGET a c", "*2 $1 1 $-1"),
            ("MSETEX 2 a 3 b 3 xx keepttl", ":1"),
            ("PTTL a", ":10000"),
            ("MSETEX 2 a 3 b 3", ":1"),
            ("PTTL a", ":-1"),
            ("MSETEX 1 a 3 EXAT 1", ":1"),
            ("EXISTS a", ":0"),
        ]);
    }

    #[test]
    fn errors_change_nothing() {
        Desk::new().expect(&[
            ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command"),
            ("MSETEX a 1 EX 10", "-ERR invalid numkeys value"),
            ("MSETEX 0 a 1", "-ERR invalid numkeys value"),
            ("MSETEX 2147483648 a 1", "-ERR invalid numkeys value"),
            ("MSETEX 2147483647 a 1", "-ERR wrong number of key-value pairs"),
            ("MSETEX 2 a 1 b", "-ERR wrong number of key-value pairs"),
            ("MSETEX 1 a 1 b", "-ERR syntax error"),
            ("MSETEX 1 a 1 NX XX", "-ERR syntax error"),
            ("MSETEX 1 a 1 EX 1 PX 1", "-ERR syntax error"),
            ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command"),
            ("MSETEX 1 a 1 EX x", "-ERR value is not an integer or out of range"),
            ("EXISTS a", ":0"),
        ]);
    }
}
