//! LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;

const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";

/// Which matches are requested.
struct Wanted {
    /// How many matches are skipped.
    skip: usize,
    from_back: bool,
    /// How many are returned, as an array; a single one if there is no COUNT.
    count: Option<usize>,
    /// How many elements are examined.
    most: usize,
}

impl Wanted {
    fn parse(args: Args<'_>) -> Result<Self, Fail> {
        let mut wanted = Wanted { skip: 0, from_back: false, count: None, most: usize::MAX };
        let mut options = args.cursor(3);
        while !options.is_done() {
            if options.accept_with("RANK", 1) {
                let rank = options.int()?;
                match rank {
                    0 => return Err(Fail::text(RANK_ZERO)),
                    i64::MIN => return Err(errors::COUNT_OUT_OF_RANGE),
                    _ => {}
                }
                wanted.from_back = rank < 0;
                wanted.skip = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
            } else if options.accept_with("COUNT", 1) {
                wanted.count = Some(limit(options.bytes()?, "ERR COUNT can't be negative")?);
            } else if options.accept_with("MAXLEN", 1) {
                wanted.most = limit(options.bytes()?, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(errors::SYNTAX);
            }
        }
        Ok(wanted)
    }
}

/// A limit; 0 means none.
fn limit(text: &[u8], error: &'static str) -> Result<usize, Fail> {
    let limit = number::parse_int(text).and_then(|limit| usize::try_from(limit).ok());
    match limit.ok_or_else(|| Fail::text(error))? {
        0 => Ok(usize::MAX),
        limit => Ok(limit),
    }
}

pub(super) fn lpos(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let wanted = Wanted::parse(args)?;
    let (element, most) = (args.at(2), wanted.count.unwrap_or(1));
    let mut found = Vec::new();
    if let Some(list) = ctx.keys.list(args.at(1), ctx.now)? {
        let len = list.len();
        let mut note = |index: usize| found.push(Reply::count(index));
        if wanted.from_back {
            let elements = list.iter_rev_range(0..len).zip((0..len).rev()).take(wanted.most);
            let equal = elements.filter(|((_, value), _)| *value == element);
            equal.skip(wanted.skip).take(most).for_each(|(_, index)| note(index));
        } else {
            let elements = list.iter().zip(0..len).take(wanted.most);
            let equal = elements.filter(|((_, value), _)| *value == element);
            equal.skip(wanted.skip).take(most).for_each(|(_, index)| note(index));
        }
    }
    Ok(match wanted.count {
        Some(_) => Reply::Array(found),
        None => found.pop().unwrap_or(Reply::Nil),
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn matches_are_found_by_rank_from_either_end() {
        Desk::new().expect(&[
            ("RPUSH l a b c 1 2 3 c c", ":8"),
            ("LPOS l a", ":0"),
            ("LPOS l c", ":2"),
            ("LPOS l none", "$-1"),
            ("LPOS none c", "$-1"),
            ("LPOS none c COUNT 1", "*0"),
            ("LPOS l c RANK 2", ":6"),
            ("LPOS l c RANK 4", "$-1"),
            ("LPOS l c RANK -1", ":7"),
            ("LPOS l c RANK -3", ":2"),
            ("LPOS l c COUNT 0", "*3 :2 :6 :7"),
            ("LPOS l c COUNT 2 RANK 2", "*2 :6 :7"),
            ("LPOS l c count 2 rank -1", "*2 :7 :6"),
            ("LPOS l c COUNT 0 RANK 9223372036854775807", "*0"),
            ("LPOS l none COUNT 0", "*0"),
            ("LPOS l c MAXLEN 2", "$-1"),
            ("LPOS l c COUNT 0 MAXLEN 7", "*2 :2 :6"),
            ("LPOS l c COUNT 0 MAXLEN 2 RANK -1", "*2 :7 :6"),
            ("LPOS l a MAXLEN 0", ":0"),
        ]);
    }

    #[test]
    fn options_are_checked_before_the_key() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("LPOS s c RANK 0", &format!("-{}", super::RANK_ZERO)),
            (
                "LPOS s c RANK -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("LPOS s c RANK x", "-ERR value is not an integer or out of range"),
            ("LPOS s c COUNT -1", "-ERR COUNT can't be negative"),
            ("LPOS s c MAXLEN x", "-ERR MAXLEN can't be negative"),
            ("LPOS s c MAXLEN", "-ERR syntax error"),
            ("LPOS s c", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
