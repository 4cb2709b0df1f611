//! Entries in an answer. It touches nothing.

use keystead_model::value::stream::{Fields, Stream, StreamId};

use super::id;
use crate::Reply;

/// An entry: its id, and its fields and values one after the other.
pub(super) fn reply((id, fields): (StreamId, &Fields)) -> Reply {
    let pairs = fields.iter().flat_map(|(field, value)| [Reply::bulk(field), Reply::bulk(value)]);
    Reply::Array(vec![id::reply(id), Reply::Array(pairs.collect())])
}

/// The entries from one id to another, both included.
pub(super) fn between(
    stream: &Stream,
    start: StreamId,
    end: StreamId,
) -> impl DoubleEndedIterator<Item = (StreamId, &Fields)> {
    // A range that ends before it begins is empty here, and a panic further down.
    let ids = (start <= end).then_some(start..=end);
    ids.into_iter().flat_map(|ids| stream.range(ids))
}
