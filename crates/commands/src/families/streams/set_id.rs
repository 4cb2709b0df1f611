//! `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`

use keystead_model::value::stream::{Meta, StreamId};

use super::id;
use crate::errors::{self, Fail};
use crate::{Args, CommandResult, Ctx, Reply};

const ADDED_NEGATIVE: &str = "ERR entries_added must be positive";
const BELOW_GIVEN: &str = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
const BELOW_DELETED: &str = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
const BELOW_TOP: &str = "ERR The ID specified in XSETID is smaller than the target stream top item";
const ADDED_TOO_FEW: &str =
    "ERR The entries_added specified in XSETID is smaller than the target stream length";

pub(super) fn xsetid(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let last_id = id::strict(args.at(2), 0)?;
    let (mut added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut rest = args.cursor(3);
    while !rest.is_done() {
        if rest.accept_with("ENTRIESADDED", 1) {
            added = Some(u64::try_from(rest.int()?).map_err(|_| Fail::Text(ADDED_NEGATIVE.into()))?);
        } else if rest.accept_with("MAXDELETEDID", 1) {
            max_deleted_id = id::strict(rest.bytes()?, 0)?;
            if last_id < max_deleted_id {
                return Err(Fail::Text(BELOW_GIVEN.into()));
            }
        } else {
            return Err(errors::SYNTAX);
        }
    }
    let mut stream = ctx.keys.stream_mut(args.at(1), ctx.now)?;
    if !stream.is_there() {
        return Err(errors::NO_KEY);
    }
    let meta = stream.meta();
    if last_id < meta.max_deleted_id {
        return Err(Fail::Text(BELOW_DELETED.into()));
    }
    if stream.last().is_some_and(|(top, _)| last_id < top) {
        return Err(Fail::Text(BELOW_TOP.into()));
    }
    if !stream.is_empty() && added.is_some_and(|added| added < stream.len() as u64) {
        return Err(Fail::Text(ADDED_TOO_FEW.into()));
    }
    stream.set_meta(Meta {
        last_id,
        max_deleted_id: if max_deleted_id == StreamId::MIN { meta.max_deleted_id } else { max_deleted_id },
        entries_added: added.unwrap_or(meta.entries_added),
    });
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_metadata_of_a_stream_is_set() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("XSETID s 5", "-ERR no such key"),
            ("XADD s 1 a 1", "$3 1-0"),
            ("XADD s 2 a 1", "$3 2-0"),
            ("XDEL s 2", ":1"),
            ("XSETID s x", "-ERR Invalid stream ID specified as stream command argument"),
            ("XSETID s 5 ENTRIESADDED -1", "-ERR entries_added must be positive"),
            ("XSETID s 5 ENTRIESADDED", "-ERR syntax error"),
            (
                "XSETID s 5 MAXDELETEDID 6",
                "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
            ),
            ("XSETID s 1", "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"),
            (
                "XSETID s 5 ENTRIESADDED 0",
                "-ERR The entries_added specified in XSETID is smaller than the target stream length",
            ),
            ("XSETID s 9 ENTRIESADDED 100 MAXDELETEDID 8", "+OK"),
            ("XADD s 9-* a 1", "$3 9-1"),
            ("XSETID s 9-0", "-ERR The ID specified in XSETID is smaller than the target stream top item"),
            ("XSETID s 9-1 MAXDELETEDID 0-0", "+OK"),
            ("SADD t m", ":1"),
            ("XSETID t 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
        let info = desk.resp("XINFO STREAM s");
        assert!(info.contains("$20 max-deleted-entry-id $3 8-0 $13 entries-added :101"), "{info}");
    }
}
