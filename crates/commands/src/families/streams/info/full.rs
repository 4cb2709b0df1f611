//! `XINFO STREAM key FULL`: entries, groups, consumers and pending entries. It touches nothing.

use keystead_model::value::stream::{Consumer, Group, Pending, Stream, StreamId};

use super::{entries_read, lag, pair};
use crate::Reply;
use crate::families::streams::{entry, id};

/// The additional fields of FULL; at most `count` elements of each list.
pub(super) fn pairs(stream: &Stream, count: usize) -> [(Reply, Reply); 2] {
    let entries = stream.range(..).take(count).map(entry::reply).collect();
    let groups = stream.groups().map(|(name, group)| {
        let replies = group.pending(..).take(count).map(|(id, pending)| {
            let consumer = Reply::shared(pending.consumer.clone());
            let [at, deliveries] = delivery(pending);
            Reply::Array(vec![id::reply(*id), consumer, at, deliveries])
        });
        Reply::Map(vec![
            pair("name", Reply::shared(name.clone())),
            pair("last-delivered-id", id::reply(group.last_delivered_id())),
            pair("entries-read", entries_read(group)),
            pair("lag", lag(stream, group)),
            pair("pel-count", Reply::count(group.pending_len())),
            pair("pending", Reply::Array(replies.collect())),
            pair("consumers", consumers(group, count)),
        ])
    });
    [pair("entries", Reply::Array(entries)), pair("groups", Reply::Array(groups.collect()))]
}

fn consumers(group: &Group, count: usize) -> Reply {
    let replies = group.consumers().map(|(name, consumer)| {
        let active_at = consumer.active_at().map_or(-1, |at| at.0 as i64);
        Reply::Map(vec![
            pair("name", Reply::shared(name.clone())),
            pair("seen-time", Reply::Int(consumer.seen_at().0 as i64)),
            pair("active-time", Reply::Int(active_at)),
            pair("pel-count", Reply::count(consumer.pending_len())),
            pair("pending", own(group, consumer, count)),
        ])
    });
    Reply::Array(replies.collect())
}

fn own(group: &Group, consumer: &Consumer, count: usize) -> Reply {
    let replies = consumer.pending(..).take(count).filter_map(|id: &StreamId| {
        let [at, deliveries] = delivery(group.pending_entry(*id)?);
        Some(Reply::Array(vec![id::reply(*id), at, deliveries]))
    });
    Reply::Array(replies.collect())
}

fn delivery(pending: &Pending) -> [Reply; 2] {
    [Reply::Int(pending.delivered_at.0 as i64), Reply::Int(pending.deliveries as i64)]
}
