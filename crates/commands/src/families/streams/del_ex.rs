//! `XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]`: for each id 1 if it is deleted, -1 if it does not exist,
//! 2 if a group still needs it.

use super::references::{DeleteArgs, Removal, note_deleted};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xdelex(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    let parsed = DeleteArgs::parse(args, 2)?;
    if !stream.is_there() {
        return Ok(none(parsed.count));
    }
    let (mut replies, mut highest) = (Vec::with_capacity(parsed.count), None);
    for id in parsed.ids()? {
        replies.push(Reply::Int(match parsed.references.remove(&mut stream, id) {
            Removal::Deleted => {
                highest = highest.max(Some(id));
                1
            }
            Removal::Absent => -1,
            Removal::Held => 2,
        }));
    }
    note_deleted(&mut stream, highest);
    Ok(Reply::Array(replies))
}

/// The reply if there is nothing to delete from.
pub(super) fn none(count: usize) -> Reply {
    Reply::Array(vec![Reply::Int(-1); count])
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    /// Two entries; group g has read both and acknowledged the first, group h has read the first.
    fn filled() -> Desk {
        let mut desk = Desk::new();
        for line in [
            "XADD s 1 a 1",
            "XADD s 2 a 2",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE s h 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "XREADGROUP GROUP h c COUNT 1 STREAMS s >",
            "XACK s g 1",
        ] {
            desk.run(line);
        }
        desk
    }

    #[test]
    fn groups_may_keep_lose_or_hold_an_entry() {
        filled().expect(&[
            ("XDELEX s IDS 3 1 1 9", "*3 :1 :-1 :-1"),
            ("XPENDING s h", "*4 :1 $3 1-0 $3 1-0 *1 *2 $1 c $1 1"),
            ("XDELEX s DELREF IDS 1 1", "*1 :-1"),
            ("XPENDING s h", "*4 :0 $-1 $-1 *-1"),
            ("XDELEX s delref IDS 1 2", "*1 :1"),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
        ]);
        filled().expect(&[
            ("XDELEX s ACKED IDS 2 1 2", "*2 :2 :2"),
            ("XACK s h 1", ":1"),
            ("XACK s g 2", ":1"),
            ("XDELEX s IDS 2 1 2 ACKED", "*2 :1 :2"),
            ("XREADGROUP GROUP h c NOACK STREAMS s >", "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 a $1 2"),
            ("XDELEX s ACKED IDS 1 2", "*1 :1"),
            ("XINFO STREAM none", "-ERR no such key"),
            ("XLEN s", ":0"),
        ]);
    }

    #[test]
    fn bad_arguments_delete_nothing() {
        filled().expect(&[
            ("XDELEX s IDS 1", "-ERR wrong number of arguments for 'xdelex' command"),
            ("XDELEX s IDS x 1", "-ERR Number of IDs must be a positive integer"),
            ("XDELEX s IDS 0 1", "-ERR Number of IDs must be a positive integer"),
            ("XDELEX s IDS 3 1 2", "-ERR The `numids` parameter must match the number of arguments"),
            ("XDELEX s IDS 1 1 2", "-ERR syntax error"),
            ("XDELEX s KEEPREF DELREF IDS 1 1", "-ERR syntax error"),
            ("XDELEX s FOO IDS 1 1", "-ERR syntax error"),
            ("XDELEX s ACKED IDS 2 1 x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XLEN s", ":2"),
            ("XDELEX none IDS 2 x y", "*2 :-1 :-1"),
            ("EXISTS none", ":0"),
            ("SADD t m", ":1"),
            ("XDELEX t IDS x x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
