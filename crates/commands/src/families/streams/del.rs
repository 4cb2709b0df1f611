//! `XDEL key id [id ...]`

use super::id;
use super::references::note_deleted;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn xdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    if !stream.is_there() {
        return Ok(Reply::Int(0));
    }
    let ids = id::all(args.from(2))?;
    let (mut deleted, mut highest) = (0, None);
    for id in ids {
        if stream.remove(id) {
            deleted += 1;
            highest = highest.max(Some(id));
        }
    }
    note_deleted(&mut stream, highest);
    Ok(Reply::Int(deleted))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn entries_are_deleted_and_the_stream_stays() {
        Desk::new().expect(&[
            ("XDEL s x", ":0"),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XADD s 2 a 1", "$3 2-0"),
            ("XDEL s 1 x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XLEN s", ":2"),
            ("XDEL s 2 2 1-0 7", ":2"),
            ("XLEN s", ":0"),
            (
                "XADD s 2 a 1",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("SADD t m", ":1"),
            ("XDEL t x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
