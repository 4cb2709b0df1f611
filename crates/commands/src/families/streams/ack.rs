//! `XACK key group id [id ...]`

use keystead_model::Bytes;

use super::id;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xack(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    if stream.group(args.at(2)).is_none() {
        return Ok(Reply::Int(0));
    }
    let (group, ids) = (Bytes::from(args.at(2)), id::all(args.from(3))?);
    let acknowledged = ids.into_iter().filter(|id| stream.remove_pending(&group, *id).is_some()).count();
    Ok(Reply::count(acknowledged))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_acknowledged_entry_is_no_longer_pending() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("XACK s g x", ":0"),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XADD s 2 a 1", "$3 2-0"),
            ("XACK s g x", ":0"),
            ("XGROUP CREATE s g 0", "+OK"),
        ]);
        desk.run("XREADGROUP GROUP g c STREAMS s >");
        desk.expect(&[
            ("XACK s g 1 x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XACK s g 1 1-0 7", ":1"),
            ("XPENDING s g", "*4 :1 $3 2-0 $3 2-0 *1 *2 $1 c $1 1"),
            ("SADD t m", ":1"),
            ("XACK t g x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
