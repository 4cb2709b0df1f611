//! `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]`: for each id 1 if it is acknowledged and deleted, -1
//! if it was not pending, 2 if it is acknowledged and another group still needs it.

use keystead_model::Bytes;

use super::del_ex::none;
use super::references::{DeleteArgs, Removal, note_deleted};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xackdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    let parsed = DeleteArgs::parse(args, 3)?;
    if stream.group(args.at(2)).is_none() {
        return Ok(none(parsed.count));
    }
    let (group, ids) = (Bytes::from(args.at(2)), parsed.ids()?);
    let (mut replies, mut highest) = (Vec::with_capacity(parsed.count), None);
    for id in ids {
        let was_pending = stream.remove_pending(&group, id).is_some();
        replies.push(Reply::Int(match was_pending.then(|| parsed.references.remove(&mut stream, id)) {
            None => -1,
            Some(Removal::Held) => 2,
            Some(left) => {
                highest = highest.max((left == Removal::Deleted).then_some(id));
                1
            }
        }));
    }
    note_deleted(&mut stream, highest);
    Ok(Reply::Array(replies))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    const NONE: &str = "*4 :0 $-1 $-1 *-1";
    const BOTH: &str = "*4 :2 $3 1-0 $3 2-0 *1 *2 $1 c $1 2";

    /// Two entries that two groups have read.
    fn filled() -> Desk {
        let mut desk = Desk::new();
        for line in [
            "XADD s 1 a 1",
            "XADD s 2 a 2",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE s h 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "XREADGROUP GROUP h c STREAMS s >",
        ] {
            desk.run(line);
        }
        desk
    }

    #[test]
    fn acknowledged_entries_are_deleted_as_requested() {
        filled().expect(&[
            ("XACKDEL s g DELREF IDS 2 1 2", "*2 :1 :1"),
            ("XLEN s", ":0"),
            ("XPENDING s g", NONE),
            ("XPENDING s h", NONE),
            ("XACKDEL s h DELREF IDS 2 1 2", "*2 :-1 :-1"),
        ]);
        filled().expect(&[
            ("XACKDEL s g ACKED IDS 2 1 2", "*2 :2 :2"),
            ("XLEN s", ":2"),
            ("XPENDING s g", NONE),
            ("XPENDING s h", BOTH),
            ("XACKDEL s h ACKED IDS 2 1 2", "*2 :1 :1"),
            ("XLEN s", ":0"),
        ]);
        filled().expect(&[
            ("XACKDEL s g IDS 2 1 2 KEEPREF", "*2 :1 :1"),
            ("XLEN s", ":0"),
            ("XPENDING s h", BOTH),
            ("XACKDEL s h IDS 2 1 2", "*2 :1 :1"),
            ("XPENDING s h", NONE),
        ]);
    }

    #[test]
    fn bad_arguments_change_nothing() {
        filled().expect(&[
            ("XACKDEL s g IDS 1", "-ERR wrong number of arguments for 'xackdel' command"),
            ("XACKDEL s g IDS -5 1", "-ERR Number of IDs must be a positive integer"),
            ("XACKDEL s g DELREF ACKED IDS 1 1", "-ERR syntax error"),
            ("XACKDEL s g KEEPREF ACKED x", "-ERR syntax error"),
            ("XACKDEL s g IDS 2 1 x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XPENDING s g", BOTH),
            ("XACKDEL s none IDS 2 1 x", "*2 :-1 :-1"),
            ("XACKDEL none g IDS 2 1 x", "*2 :-1 :-1"),
            ("EXISTS none", ":0"),
        ]);
    }
}
