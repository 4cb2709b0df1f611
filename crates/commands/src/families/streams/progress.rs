//! How far a group has read: its entries-read counter, and its lag. It touches nothing.
//!
//! The counter is exact as long as no entry was deleted (XDEL) that the group still has to read; otherwise it is unknown, until
//! the group reaches a position whose number in the stream's history is known.

use keystead_model::value::stream::{Group, Stream, StreamId};

/// Whether an entry was deleted at `start` or after it.
fn has_gaps_from(stream: &Stream, start: StreamId) -> bool {
    let deleted = stream.meta().max_deleted_id;
    !stream.is_empty() && deleted != StreamId::MIN && start <= deleted
}

/// The number of the entry with this id among all that were ever added; `None` if unknown.
pub(super) fn number_of(stream: &Stream, id: StreamId) -> Option<u64> {
    let meta = stream.meta();
    if meta.entries_added == 0 {
        return Some(0);
    }
    let Some((first, _)) = stream.first() else {
        return (id <= meta.last_id).then_some(meta.entries_added);
    };
    if id != StreamId::MIN && id < meta.max_deleted_id {
        return None;
    }
    if id >= meta.last_id {
        return (id == meta.last_id).then_some(meta.entries_added);
    }
    if meta.max_deleted_id != StreamId::MIN && meta.max_deleted_id >= first {
        return None;
    }
    let before_first = meta.entries_added.wrapping_sub(stream.len() as u64);
    match id.cmp(&first) {
        std::cmp::Ordering::Less => Some(before_first),
        std::cmp::Ordering::Equal => Some(before_first.wrapping_add(1)),
        std::cmp::Ordering::Greater => None,
    }
}

/// The counter of a group after it read the entry `id`, which is the next one after `last_id`.
pub(super) fn after_reading(
    stream: &Stream,
    entries_read: Option<u64>,
    last_id: StreamId,
    id: StreamId,
) -> Option<u64> {
    let reached_first = stream.first().is_none_or(|(first, _)| last_id >= first);
    match entries_read {
        Some(count) if reached_first && !has_gaps_from(stream, last_id) => Some(count.wrapping_add(1)),
        _ if stream.meta().entries_added > 0 => number_of(stream, id),
        _ => entries_read,
    }
}

/// How many entries the group has still to read; `None` if unknown.
pub(super) fn lag(stream: &Stream, group: &Group) -> Option<i64> {
    let added = stream.meta().entries_added;
    if added == 0 {
        return Some(0);
    }
    let last_id = group.last_delivered_id();
    let read = match group.entries_read() {
        Some(read) if !has_gaps_from(stream, last_id) => read,
        _ => number_of(stream, last_id)?,
    };
    Some(added.wrapping_sub(read) as i64)
}
