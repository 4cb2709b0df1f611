//! LREM key count element

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;

pub(super) fn lrem(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let count = args.int(2)?;
    if count == i64::MIN {
        return Err(errors::COUNT_OUT_OF_RANGE);
    }
    let mut list = ctx.keys.list_mut(args.at(1), ctx.now)?;
    let most =
        if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let element = args.at(3);
    let len = list.len();
    let mut found: Vec<usize> = if count < 0 {
        let from_back = list.iter_rev_range(0..len).zip((0..len).rev());
        from_back.filter(|((_, value), _)| *value == element).map(|(_, index)| index).take(most).collect()
    } else {
        let from_front = list.iter().zip(0..len);
        from_front.filter(|((_, value), _)| *value == element).map(|(_, index)| index).take(most).collect()
    };
    // From the last one to the first, so that the others keep their indices.
    found.sort_unstable_by(|a, b| b.cmp(a));
    for index in &found {
        list.remove(*index);
    }
    Ok(Reply::count(found.len()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn equal_elements_are_removed_from_either_end() {
        Desk::new().expect(&[
            ("LREM l 0 a", ":0"),
            ("RPUSH l a b a c a d a", ":7"),
            ("LREM l 1 a", ":1"),
            ("LRANGE l 0 -1", "*6 $1 b $1 a $1 c $1 a $1 d $1 a"),
            ("LREM l -2 a", ":2"),
            ("LRANGE l 0 -1", "*4 $1 b $1 a $1 c $1 d"),
            ("LREM l 0 x", ":0"),
            ("RPUSH l a", ":5"),
            ("LREM l 0 a", ":2"),
            ("LREM l 9223372036854775807 b", ":1"),
            ("LREM l -9223372036854775807 c", ":1"),
            ("LREM l 5 d", ":1"),
            ("EXISTS l", ":0"),
        ]);
    }

    #[test]
    fn the_count_is_checked_before_the_key() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("LREM s x a", "-ERR value is not an integer or out of range"),
            (
                "LREM s -9223372036854775808 a",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("LREM s 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
