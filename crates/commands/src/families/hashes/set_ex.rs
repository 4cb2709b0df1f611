//! `HSETEX key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]
//! FIELDS numfields field value [field value ...]`

use keystead_core::Millis;
use keystead_model::Bytes;

use super::moment::Form;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply, number};

const ONE_CONDITION: &str = "ERR Only one of FXX or FNX arguments can be specified";
const ONE_EXPIRY: &str = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
const NO_TIME: &str = "ERR missing expire time";
const NOT_A_COUNT: &str = "ERR invalid number of fields";

/// The expiration of the fields.
#[derive(Clone, Copy)]
enum Expiry {
    /// Unchanged.
    Keep,
    At(Millis),
}

#[derive(Default)]
struct Options {
    expiry: Option<Expiry>,
    /// All fields must exist (`true`), or none (`false`).
    all_there: Option<bool>,
    /// The index of the first field. All arguments that follow are fields and values.
    first: usize,
}

impl Options {
    fn parse(args: Args<'_>, now: Millis) -> Result<Self, Fail> {
        let mut parsed = Options::default();
        let mut options = args.cursor(2);
        loop {
            if options.accept("FIELDS") {
                parsed.first = first_field(args, options.index())?;
                return Ok(parsed);
            } else if options.accept("FXX") {
                parsed.demand(true)?;
            } else if options.accept("FNX") {
                parsed.demand(false)?;
            } else if options.accept("KEEPTTL") {
                parsed.expire(Expiry::Keep)?;
            } else if let Some(form) = Form::accept(&mut options) {
                if parsed.expiry.is_some() {
                    return Err(Fail::Text(ONE_EXPIRY.into()));
                }
                let text = options.next().ok_or(Fail::Text(NO_TIME.into()))?;
                parsed.expire(Expiry::At(form.moment(text, now, "hsetex")?))?;
            } else {
                let word = String::from_utf8_lossy(options.peek().unwrap_or_default()).into_owned();
                return Err(Fail::text(format!("ERR unknown argument: {word}")));
            }
        }
    }

    fn demand(&mut self, all_there: bool) -> Result<(), Fail> {
        match self.all_there.replace(all_there) {
            Some(_) => Err(Fail::Text(ONE_CONDITION.into())),
            None => Ok(()),
        }
    }

    fn expire(&mut self, expiry: Expiry) -> Result<(), Fail> {
        match self.expiry.replace(expiry) {
            Some(_) => Err(Fail::Text(ONE_EXPIRY.into())),
            None => Ok(()),
        }
    }
}

/// The index of the first field, after their number at `at`.
fn first_field(args: Args<'_>, at: usize) -> Result<usize, Fail> {
    let rest = args.len().saturating_sub(at + 1);
    if rest < 2 {
        return Err(errors::wrong_arity("hsetex"));
    }
    let count = number::parse_int(args.at(at)).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or(Fail::Text(NOT_A_COUNT.into()))?;
    if rest % 2 == 1 || usize::try_from(count) != Ok(rest / 2) {
        return Err(errors::wrong_arity("hsetex"));
    }
    Ok(at + 1)
}

pub(super) fn hsetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let now = ctx.now;
    let options = Options::parse(args, now)?;
    let mut hash = ctx.keys.hash_mut(args.at(1), now)?;
    let fields = (options.first..args.len()).step_by(2);
    if let Some(wanted) = options.all_there
        && fields.clone().any(|index| hash.contains(args.at(index)) != wanted)
    {
        return Ok(Reply::Int(0));
    }
    for index in fields {
        let (field, value) = (Bytes::from(args.at(index)), Bytes::from(args.at(index + 1)));
        match options.expiry {
            Some(Expiry::At(at)) if at <= now => {
                hash.remove(&field);
            }
            Some(Expiry::At(at)) => {
                hash.set_until(&field, &value, at);
            }
            Some(Expiry::Keep) => {
                let at = hash.expires_at(&field);
                hash.set_until(&field, &value, at);
            }
            None => {
                hash.set(&field, &value);
            }
        }
    }
    Ok(Reply::Int(1))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn fields_are_set_with_their_expiry() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSETEX h FXX FIELDS 1 a 1", ":0"),
            ("EXISTS h", ":0"),
            ("HSETEX h FNX EX 10 FIELDS 2 a 1 b 2", ":1"),
            ("HTTL h FIELDS 2 a b", "*2 :10 :10"),
            ("HSETEX h FNX FIELDS 2 c 1 a 2", ":0"),
            ("HSETEX h fxx FIELDS 2 c 1 a 2", ":0"),
            ("HGETALL h", "*4 $1 a $1 1 $1 b $1 2"),
            ("HSETEX h KEEPTTL FXX FIELDS 1 a 3", ":1"),
            ("HTTL h FIELDS 1 a", "*1 :10"),
            ("HSETEX h FIELDS 1 a 4", ":1"),
            ("HTTL h FIELDS 1 a", "*1 :-1"),
            ("HSETEX h PX 1500 FIELDS 1 a 5", ":1"),
            ("HPTTL h FIELDS 1 a", "*1 :1500"),
            ("HSETEX h EXAT 1700000002 FIELDS 1 a 5", ":1"),
            ("HPTTL h FIELDS 1 a", "*1 :2000"),
            ("HSETEX h PXAT 1 FIELDS 2 a 6 x 7", ":1"),
            ("HKEYS h", "*1 $1 b"),
            ("HSETEX h EX 0 FIELDS 1 b 6", ":1"),
            ("EXISTS h", ":0"),
            ("HSETEX h EX 0 FIELDS 1 b 6", ":1"),
            ("EXISTS h", ":0"),
        ]);
    }

    #[test]
    fn arguments_are_checked_before_the_key() {
        let mut desk = Desk::new();
        desk.run("SADD s m");
        let arity = "-ERR wrong number of arguments for 'hsetex' command";
        desk.expect(&[
            ("HSETEX s FOO FIELDS 1 a 1", "-ERR unknown argument: FOO"),
            ("HSETEX s FXX FNX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
            ("HSETEX s FNX FNX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
            (
                "HSETEX s EX 10 KEEPTTL FIELDS 1 a 1",
                "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
            ),
            (
                "HSETEX s EX 10 PX x FIELDS 1 a 1",
                "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
            ),
            (
                "HSETEX s FNX KEEPTTL EX FIELDS",
                "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
            ),
            ("HSETEX s EX x FIELDS 1 a 1", "-ERR value is not an integer or out of range"),
            ("HSETEX s EX -1 FIELDS 1 a 1", "-ERR invalid expire time, must be >= 0"),
            ("HSETEX s EX 9223372036854775807 FIELDS 1 a 1", "-ERR invalid expire time in 'hsetex' command"),
            ("HSETEX s FIELDS 0 a 1", "-ERR invalid number of fields"),
            ("HSETEX s FIELDS 1 a 1 b", arity),
            ("HSETEX s FIELDS 2 a 1", arity),
            ("HSETEX s FNX EX 10 FIELDS", arity),
            ("HSETEX s FIELDS 1 a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
