//! What happens to references of consumer groups when entries are deleted: `KEEPREF | DELREF | ACKED`. It touches the keyspace.

use keystead_model::Bytes;
use keystead_model::keyspace::StreamMut;
use keystead_model::value::stream::{Meta, Stream, StreamId};

use super::id;
use crate::args::{Args, Cursor};
use crate::errors::{self, Fail};
use crate::number;

const NO_IDS: Fail = Fail::fixed("ERR IDS option is required");
const NO_COUNT: Fail = Fail::fixed("ERR Number of IDs must be a positive integer");
const COUNT_TOO_LARGE: Fail = Fail::fixed("ERR The `numids` parameter must match the number of arguments");

/// How references of consumer groups are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum References {
    /// KEEPREF: they stay as they are.
    #[default]
    Keep,
    /// DELREF: deleted entries are removed from all pending lists.
    Delete,
    /// ACKED: only entries that all groups have read and acknowledged are deleted.
    Acked,
}

const WORDS: &[(&str, References)] =
    &[("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Acked)];

/// The result for one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// It was deleted.
    Deleted,
    /// There is no entry with this id.
    Absent,
    /// A group has not read or not acknowledged it, so it stays.
    Held,
}

impl References {
    /// Consumes the next argument if it is one of these words and none was given before.
    pub(super) fn accept(before: &mut Option<Self>, args: &mut Cursor<'_>) -> bool {
        let word = WORDS.iter().find(|(word, _)| before.is_none() && args.accept(word));
        if let Some((_, references)) = word {
            *before = Some(*references);
        }
        word.is_some()
    }

    /// Deletes an entry, if it may be deleted.
    pub(super) fn remove(self, stream: &mut StreamMut<'_>, id: StreamId) -> Removal {
        match self {
            References::Keep => {}
            References::Delete => forget(stream, id),
            References::Acked if is_awaited(stream, id) => return Removal::Held,
            References::Acked => {}
        }
        if stream.remove(id) { Removal::Deleted } else { Removal::Absent }
    }
}

/// Whether a group has not read an entry, or not acknowledged it.
fn is_awaited(stream: &Stream, id: StreamId) -> bool {
    stream.groups().any(|(_, group)| id > group.last_delivered_id() || group.pending_entry(id).is_some())
}

fn forget(stream: &mut StreamMut<'_>, id: StreamId) {
    let pending = stream.groups().filter(|(_, group)| group.pending_entry(id).is_some());
    let names: Vec<Bytes> = pending.map(|(name, _)| name.clone()).collect();
    for name in names {
        stream.remove_pending(&name, id);
    }
}

/// Records the highest deleted id, from which the lag of groups is computed.
pub(super) fn note_deleted(stream: &mut StreamMut<'_>, highest: Option<StreamId>) {
    let meta = stream.meta();
    if let Some(highest) = highest.filter(|highest| *highest > meta.max_deleted_id) {
        stream.set_meta(Meta { max_deleted_id: highest, ..meta });
    }
}

/// The arguments of XDELEX and XACKDEL after the key or the group: `[KEEPREF | DELREF | ACKED] IDS numids id [id ...]`.
pub(super) struct DeleteArgs<'a> {
    pub(super) references: References,
    args: Args<'a>,
    first: usize,
    /// The number of ids.
    pub(super) count: usize,
}

impl<'a> DeleteArgs<'a> {
    /// Parses the arguments from `first` on; the ids may precede the word.
    ///
    /// # Errors
    /// Redis's errors.
    pub(super) fn parse(args: Args<'a>, first: usize) -> Result<Self, Fail> {
        let (mut rest, mut references, mut ids) = (args.cursor(first), None, None);
        while !rest.is_done() {
            if References::accept(&mut references, &mut rest) {
                continue;
            }
            if !rest.accept_with("IDS", 1) {
                return Err(errors::SYNTAX);
            }
            let count = number::parse_int(rest.bytes()?).filter(|count| *count > 0).ok_or(NO_COUNT)?;
            let count = usize::try_from(count).ok().filter(|count| *count <= rest.left());
            let count = count.ok_or(COUNT_TOO_LARGE)?;
            ids = Some((rest.index(), count));
            rest = args.cursor(rest.index() + count);
        }
        let (first, count) = ids.ok_or(NO_IDS)?;
        Ok(DeleteArgs { references: references.unwrap_or_default(), args, first, count })
    }

    /// The ids, all parsed before any is used.
    ///
    /// # Errors
    /// Redis's error for the first invalid one.
    pub(super) fn ids(&self) -> Result<Vec<StreamId>, Fail> {
        id::all(self.args.from(self.first).take(self.count))
    }
}
