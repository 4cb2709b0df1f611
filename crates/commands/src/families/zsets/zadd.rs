//! ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]
//! ZINCRBY key increment member

use keystead_model::Bytes;
use keystead_model::keyspace::ZSetMut;
use keystead_model::value::{PACKED_ELEMENT_BYTES_MAX, PACKED_LEN_MAX, ZSet};

use crate::args::{Args, Cursor};
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;

const XX_AND_NX: &str = "ERR XX and NX options at the same time are not compatible";
const GT_LT_NX: &str = "ERR GT, LT, and/or NX options at the same time are not compatible";
const INCR_PAIRS: &str = "ERR INCR option supports a single increment-element pair";
const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// Which members are set, and what is returned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    /// Only members that do not exist.
    pub(crate) nx: bool,
    /// Only members that exist.
    pub(crate) xx: bool,
    /// Only to a higher score.
    pub(crate) gt: bool,
    /// Only to a lower score.
    pub(crate) lt: bool,
    /// Changed members count like new ones.
    pub(crate) ch: bool,
    /// The score is added to the existing one.
    pub(crate) incr: bool,
}

impl Mode {
    /// Consumes the next option if it is one that GEOADD has, too: NX, XX or CH.
    pub(crate) fn accept(&mut self, args: &mut Cursor<'_>) -> bool {
        let options = [("NX", &mut self.nx), ("XX", &mut self.xx), ("CH", &mut self.ch)];
        for (word, chosen) in options {
            if args.accept(word) {
                *chosen = true;
                return true;
            }
        }
        false
    }
}

/// The result for one member.
struct Put {
    score: f64,
    is_new: bool,
    is_changed: bool,
}

pub(super) fn zadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    parse_and_add(ctx, args, Mode::default())
}

pub(super) fn zincrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    parse_and_add(ctx, args, Mode { incr: true, ..Mode::default() })
}

fn parse_and_add(ctx: &mut Ctx<'_>, args: Args<'_>, mut mode: Mode) -> CommandResult {
    let mut cursor = args.cursor(2);
    loop {
        if mode.accept(&mut cursor) {
            continue;
        } else if cursor.accept("INCR") {
            mode.incr = true;
        } else if cursor.accept("GT") {
            mode.gt = true;
        } else if cursor.accept("LT") {
            mode.lt = true;
        } else {
            break;
        }
    }
    let pairs = cursor.left() / 2;
    if pairs == 0 || !cursor.left().is_multiple_of(2) {
        return Err(errors::SYNTAX);
    }
    if mode.nx && mode.xx {
        return Err(Fail::text(XX_AND_NX));
    }
    if (mode.nx && (mode.gt || mode.lt)) || (mode.gt && mode.lt) {
        return Err(Fail::text(GT_LT_NX));
    }
    if mode.incr && pairs > 1 {
        return Err(Fail::text(INCR_PAIRS));
    }
    let mut members = Vec::with_capacity(pairs);
    while let (Some(score), Some(member)) = (cursor.next(), cursor.next()) {
        members.push((number::parse_float(score).ok_or(errors::NOT_FLOAT)?, member));
    }
    add(ctx, args.at(1), mode, &members)
}

/// Sets the scores of members. With INCR there is one member only, so that an error changes nothing.
pub(crate) fn add(ctx: &mut Ctx<'_>, key: &[u8], mode: Mode, members: &[(f64, &[u8])]) -> CommandResult {
    let mut zset = ctx.keys.zset_mut(key, ctx.now)?;
    let (mut new, mut changed, mut last) = (0, 0, None);
    if zset.is_there() || !mode.xx {
        for (score, member) in members {
            if let Some(put) = put(&mut zset, mode, *score, &Bytes::from(*member))? {
                new += usize::from(put.is_new);
                changed += usize::from(put.is_changed);
                last = Some(put.score);
            }
        }
    }
    Ok(match last {
        _ if !mode.incr => Reply::count(if mode.ch { new + changed } else { new }),
        Some(score) => Reply::Double(score),
        None => Reply::Nil,
    })
}

/// `None` if the mode forbids it.
fn put(zset: &mut ZSetMut<'_>, mode: Mode, score: f64, member: &Bytes) -> Result<Option<Put>, Fail> {
    let Mode { nx, xx, gt, lt, incr, .. } = mode;
    // The two zeros are equal but not identical, so they take the slow path.
    if !(nx || xx || gt || lt || incr) && score != 0.0 {
        let old = zset.insert(member, score);
        let is_changed = old.is_some_and(|old| old != score);
        return Ok(Some(Put { score, is_new: old.is_none(), is_changed }));
    }
    let Some(old) = zset.score(member) else {
        if xx {
            return Ok(None);
        }
        put_score(zset, member, score);
        return Ok(Some(Put { score, is_new: true, is_changed: false }));
    };
    if nx {
        return Ok(None);
    }
    let score = if incr { old + score } else { score };
    if score.is_nan() {
        return Err(Fail::text(NOT_A_NUMBER));
    }
    if (lt && score >= old) || (gt && score <= old) {
        return Ok(None);
    }
    if score != old {
        put_score(zset, member, score);
    }
    Ok(Some(Put { score, is_new: false, is_changed: score != old }))
}

fn put_score(zset: &mut ZSetMut<'_>, member: &Bytes, score: f64) {
    let score = normalized(zset, member, score);
    zset.insert(member, score);
}

/// A score as a sorted set stores it: in small ones, in Redis too, zero has no sign.
fn normalized(zset: &ZSet, member: &[u8], score: f64) -> f64 {
    let stays_small = zset.len() < PACKED_LEN_MAX && member.len() <= PACKED_ELEMENT_BYTES_MAX;
    if score == 0.0 && zset.is_packed() && stays_small { 0.0 } else { score }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn members_are_added_and_updated() {
        Desk::new().expect(&[
            ("ZADD z 1 a 2 b", ":2"),
            ("ZADD z 1 a 3 b 4 c", ":1"),
            ("ZADD z CH 1 a 5 b 6 d", ":2"),
            ("ZADD z 1 e 2 e", ":1"),
            ("ZRANGE z 0 -1 WITHSCORES", "*10 $1 a $1 1 $1 e $1 2 $1 c $1 4 $1 b $1 5 $1 d $1 6"),
            ("ZADD z -0 zero", ":1"),
            ("ZSCORE z zero", "$1 0"),
            ("ZADD z CH 0 zero", ":0"),
            ("ZADD z inf i -inf j 0x10 h 1e3 k", ":4"),
            ("ZSCORE z h", "$2 16"),
        ]);
    }

    #[test]
    fn options_say_which_members_are_set() {
        Desk::new().expect(&[
            ("ZADD z XX 1 a", ":0"),
            ("EXISTS z", ":0"),
            ("ZADD z NX 10 a", ":1"),
            ("ZADD z NX CH 11 a 5 b", ":1"),
            ("ZADD z XX CH 12 a 5 c", ":1"),
            ("ZADD z GT CH 11 a 6 b 1 c", ":2"),
            ("ZADD z lt ch 11 a 7 b 9 d", ":2"),
            ("ZADD z GT XX CH 100 none", ":0"),
            ("ZRANGE z 0 -1 WITHSCORES", "*8 $1 c $1 1 $1 b $1 6 $1 d $1 9 $1 a $2 11"),
        ]);
    }

    #[test]
    fn scores_are_incremented() {
        Desk::new().expect(&[
            ("ZADD z INCR 1.5 a", "$3 1.5"),
            ("ZADD z INCR NX 1 a", "$-1"),
            ("ZADD z INCR XX 1 b", "$-1"),
            ("ZADD none INCR XX 1 b", "$-1"),
            ("ZADD z INCR GT -1 a", "$-1"),
            ("ZADD z INCR LT -1 a", "$3 0.5"),
            ("ZINCRBY z 2 a", "$3 2.5"),
            ("ZINCRBY z inf a", "$3 inf"),
            ("ZINCRBY z -inf a", &format!("-{NOT_A_NUMBER}")),
            ("ZSCORE z a", "$3 inf"),
            ("ZINCRBY z 1 c", "$1 1"),
            ("ZINCRBY z x c", "-ERR value is not a valid float"),
            ("ZINCRBY z nx c", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn arguments_are_checked_before_the_key_and_all_before_the_first() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("ZADD s 1 a 2", "-ERR syntax error"),
            ("ZADD s NX CH", "-ERR syntax error"),
            ("ZADD s NX XX 1 a", &format!("-{XX_AND_NX}")),
            ("ZADD s NX GT 1 a", &format!("-{GT_LT_NX}")),
            ("ZADD s GT LT 1 a", &format!("-{GT_LT_NX}")),
            ("ZADD s INCR 1 a 2 b", &format!("-{INCR_PAIRS}")),
            ("ZADD s 1 a x b", "-ERR value is not a valid float"),
            ("ZADD s nan a", "-ERR value is not a valid float"),
            ("ZADD s 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("ZADD z 1 a x b", "-ERR value is not a valid float"),
            ("EXISTS z", ":0"),
        ]);
    }
}
