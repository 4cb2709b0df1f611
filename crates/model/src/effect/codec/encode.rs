//! From effects to bytes, appended to a buffer that is reused: no allocation of its own. It touches nothing.

use keystead_core::Millis;

use super::*;
use crate::effect::{Effect, Fact, StreamFact};
use crate::value::StreamId;

/// Appends a group of effects to `out`.
pub fn encode(effects: &[Effect], out: &mut Vec<u8>) {
    let mut before: Option<&Effect> = None;
    for effect in effects {
        let follows = before.is_some_and(|b| effect.revision.0 == b.revision.0.wrapping_add(1));
        let same_key =
            before.is_some_and(|b| effect.id == b.id && effect.version == b.version && effect.key == b.key);
        let flags = if follows { FOLLOWS } else { 0 } | if same_key { SAME_KEY } else { 0 };
        out.push(tag(&effect.fact) | flags);
        if !follows {
            put_u64(out, effect.revision.0);
        }
        if !same_key {
            put_u64(out, u64::from(effect.id));
            put_u64(out, effect.version.0);
            put_bytes(out, &effect.key);
        }
        put_fact(out, &effect.fact);
        before = Some(effect);
    }
}

const fn tag(fact: &Fact) -> u8 {
    match fact {
        Fact::Deleted => DELETED,
        Fact::Flushed => FLUSHED,
        Fact::Expiry(_) => EXPIRY,
        Fact::Fresh(_) => FRESH,
        Fact::Str(_) => STR,
        Fact::Json(_) => JSON,
        Fact::State(_) => STATE,
        Fact::HashField { expires_at: Millis::NEVER, .. } => HASH_FIELD,
        Fact::HashField { .. } => HASH_FIELD_UNTIL,
        Fact::HashFieldDeleted(_) => HASH_FIELD_DELETED,
        Fact::ListAt { .. } => LIST_AT,
        Fact::ListDeleted(_) => LIST_DELETED,
        Fact::SetMember(_) => SET_MEMBER,
        Fact::SetMemberDeleted(_) => SET_MEMBER_DELETED,
        Fact::ZMember { .. } => Z_MEMBER,
        Fact::ZMemberDeleted(_) => Z_MEMBER_DELETED,
        Fact::Stream(StreamFact::Entry { .. }) => STREAM_ENTRY,
        Fact::Stream(StreamFact::EntryDeleted(_)) => STREAM_ENTRY_DELETED,
        Fact::Stream(StreamFact::Meta(_)) => STREAM_META,
        Fact::Stream(StreamFact::Group { .. }) => STREAM_GROUP,
        Fact::Stream(StreamFact::GroupDeleted(_)) => STREAM_GROUP_DELETED,
        Fact::Stream(StreamFact::Consumer(_)) => STREAM_CONSUMER,
        Fact::Stream(StreamFact::ConsumerDeleted { .. }) => STREAM_CONSUMER_DELETED,
        Fact::Stream(StreamFact::Pending(_)) => STREAM_PENDING,
        Fact::Stream(StreamFact::PendingDeleted { .. }) => STREAM_PENDING_DELETED,
    }
}

fn put_fact(out: &mut Vec<u8>, fact: &Fact) {
    match fact {
        Fact::Deleted | Fact::Flushed => {}
        // Wrapping makes the most common value, "never", a single byte.
        Fact::Expiry(at) => put_u64(out, at.0.wrapping_add(1)),
        Fact::Fresh(kind) => out.push(kind.code()),
        Fact::Str(bytes)
        | Fact::Json(bytes)
        | Fact::State(bytes)
        | Fact::HashFieldDeleted(bytes)
        | Fact::SetMember(bytes)
        | Fact::SetMemberDeleted(bytes)
        | Fact::ZMemberDeleted(bytes) => put_bytes(out, bytes),
        Fact::HashField { field, value, expires_at } => {
            put_bytes(out, field);
            put_bytes(out, value);
            if *expires_at != Millis::NEVER {
                put_u64(out, expires_at.0);
            }
        }
        Fact::ListAt { pos, value } => {
            put_i64(out, *pos);
            put_bytes(out, value);
        }
        Fact::ListDeleted(pos) => put_i64(out, *pos),
        Fact::ZMember { member, score } => {
            put_bytes(out, member);
            out.extend_from_slice(&score.to_le_bytes());
        }
        Fact::Stream(fact) => put_stream_fact(out, fact),
    }
}

fn put_stream_fact(out: &mut Vec<u8>, fact: &StreamFact) {
    match fact {
        StreamFact::Entry { id, fields } => {
            put_stream_id(out, *id);
            put_bytes(out, fields.as_bytes());
        }
        StreamFact::EntryDeleted(id) => put_stream_id(out, *id),
        StreamFact::Meta(meta) => {
            put_stream_id(out, meta.last_id);
            put_stream_id(out, meta.max_deleted_id);
            put_u64(out, meta.entries_added);
        }
        StreamFact::Group { group, last_id, entries_read } => {
            put_bytes(out, group);
            put_stream_id(out, *last_id);
            put_option(out, *entries_read);
        }
        StreamFact::GroupDeleted(group) => put_bytes(out, group),
        StreamFact::Consumer(fact) => {
            put_bytes(out, &fact.group);
            put_bytes(out, &fact.consumer);
            put_u64(out, fact.seen_at.0);
            put_option(out, fact.active_at.map(|at| at.0));
        }
        StreamFact::ConsumerDeleted { group, consumer } => {
            put_bytes(out, group);
            put_bytes(out, consumer);
        }
        StreamFact::Pending(fact) => {
            put_bytes(out, &fact.group);
            put_stream_id(out, fact.id);
            put_bytes(out, &fact.consumer);
            put_u64(out, fact.delivered_at.0);
            put_u64(out, fact.deliveries);
        }
        StreamFact::PendingDeleted { group, id } => {
            put_bytes(out, group);
            put_stream_id(out, *id);
        }
    }
}

#[inline]
fn put_u64(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

#[inline]
fn put_i64(out: &mut Vec<u8>, n: i64) {
    put_u64(out, ((n << 1) ^ (n >> 63)) as u64);
}

#[inline]
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_option(out: &mut Vec<u8>, n: Option<u64>) {
    out.push(u8::from(n.is_some()));
    if let Some(n) = n {
        put_u64(out, n);
    }
}

fn put_stream_id(out: &mut Vec<u8>, id: StreamId) {
    put_u64(out, id.ms);
    put_u64(out, id.seq);
}
