//! Entries in a reply. It touches nothing.

use keystead_model::value::stream::{Fields, Stream, StreamId};

use super::id;
use crate::Reply;

/// An entry: its id, and a flat list of its fields and values.
pub(super) fn reply((id, fields): (StreamId, &Fields)) -> Reply {
    let pairs = fields.iter().flat_map(|(field, value)| [Reply::bulk(field), Reply::bulk(value)]);
    Reply::Array(vec![id::reply(id), Reply::Array(pairs.collect())])
}

/// The entries from one id to another, both inclusive.
pub(super) fn between(
    stream: &Stream,
    start: StreamId,
    end: StreamId,
) -> impl DoubleEndedIterator<Item = (StreamId, &Fields)> {
    // A range that ends before it begins is empty here, and would panic in the model.
    let ids = (start <= end).then_some(start..=end);
    ids.into_iter().flat_map(|ids| stream.range(ids))
}
