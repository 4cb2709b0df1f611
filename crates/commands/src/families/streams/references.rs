//! What becomes of entries that leave while groups remember them: `KEEPREF | DELREF | ACKED`. It touches the keyspace.

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

/// What is asked of what groups remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum References {
    /// KEEPREF: it stays as it is.
    #[default]
    Keep,
    /// DELREF: no entry is pending any more that is gone.
    Delete,
    /// ACKED: only entries leave that all groups have read and acknowledged.
    Acked,
}

const WORDS: [(&str, References); 3] =
    [("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Acked)];

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It is gone now.
    Gone,
    /// There is none of this id.
    Absent,
    /// A group has not read or not acknowledged it, so it stays.
    Held,
}

impl References {
    /// Takes the next argument if it is one of these words and none was before.
    pub(super) fn accept(before: &mut Option<Self>, args: &mut Cursor<'_>) -> bool {
        let word = WORDS.iter().find(|(word, _)| before.is_none() && args.accept(word));
        if let Some((_, references)) = word {
            *before = Some(*references);
        }
        word.is_some()
    }

    /// Removes an entry, if it may leave.
    pub(super) fn remove(self, stream: &mut StreamMut<'_>, id: StreamId) -> Left {
        match self {
            References::Keep => {}
            References::Delete => forget(stream, id),
            References::Acked if is_awaited(stream, id) => return Left::Held,
            References::Acked => {}
        }
        if stream.remove(id) { Left::Gone } else { Left::Absent }
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

/// Notes the highest id that was deleted, by which the lag of groups is known.
pub(super) fn note_deleted(stream: &mut StreamMut<'_>, highest: Option<StreamId>) {
    let meta = stream.meta();
    if let Some(highest) = highest.filter(|highest| *highest > meta.max_deleted_id) {
        stream.set_meta(Meta { max_deleted_id: highest, ..meta });
    }
}

/// The arguments of XDELEX and XACKDEL behind the key or the group: `[KEEPREF | DELREF | ACKED] IDS numids id [id ...]`.
pub(super) struct Asked<'a> {
    pub(super) references: References,
    args: Args<'a>,
    first: usize,
    /// How many ids there are.
    pub(super) count: usize,
}

impl<'a> Asked<'a> {
    /// Reads the arguments from `first` on; the ids may stand before the word.
    ///
    /// # Errors
    /// Redis's texts.
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
        Ok(Asked { references: references.unwrap_or_default(), args, first, count })
    }

    /// The ids, all read before any is used.
    ///
    /// # Errors
    /// Redis's text for the first that is none.
    pub(super) fn ids(&self) -> Result<Vec<StreamId>, Fail> {
        id::all(self.args.from(self.first).take(self.count))
    }
}
