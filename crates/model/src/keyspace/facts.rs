//! Values as facts and facts as values, for copies, before-images and replay.
//!
//! It touches nothing. Invariant: the facts of a value, applied to nothing, result in the value; applying one again changes nothing.

use keystead_core::{Code, Error, Result};

use super::replay::empty_value;
use crate::Bytes;
use crate::effect::{ConsumerFact, Fact, PendingFact, StreamFact};
use crate::value::stream::{Group, Pending};
use crate::value::{Hash, Kind, StateCell, Stream, Value};

/// The kind of value that a fact is about, if it is about one.
pub(super) const fn kind_of(fact: &Fact) -> Option<Kind> {
    Some(match fact {
        Fact::Deleted | Fact::Flushed | Fact::Expiry(_) => return None,
        Fact::Fresh(kind) => *kind,
        Fact::Str(_) => Kind::Str,
        Fact::Json(_) => Kind::Json,
        Fact::State(_) => Kind::State,
        Fact::HashField { .. } | Fact::HashFieldDeleted(_) => Kind::Hash,
        Fact::ListAt { .. } | Fact::ListDeleted(_) => Kind::List,
        Fact::SetMember(_) | Fact::SetMemberDeleted(_) => Kind::Set,
        Fact::ZMember { .. } | Fact::ZMemberDeleted(_) => Kind::ZSet,
        Fact::Stream(_) => Kind::Stream,
    })
}

/// Applies a fact to a value. A value of another kind, or an evicted one, is replaced.
pub(super) fn apply_fact(value: &mut Value, fact: &Fact) {
    let Some(kind) = kind_of(fact) else { return };
    if value.kind() != kind || matches!(value, Value::Evicted(_)) {
        *value = empty_value(kind);
    }
    match (value, fact) {
        (value, Fact::Fresh(kind)) => *value = empty_value(*kind),
        (Value::Str(value), Fact::Str(new)) => *value = new.into(),
        (Value::Json(value), Fact::Json(new)) => *value = new.clone(),
        (Value::State(cell), Fact::State(text)) => {
            *cell = StateCell::Text(String::from_utf8_lossy(text).into());
        }
        (Value::Hash(hash), Fact::HashField { field, value, expires_at }) => {
            hash.insert(field, value);
            hash.set_expires_at(field, *expires_at);
        }
        (Value::Hash(hash), Fact::HashFieldDeleted(field)) => drop(hash.remove(field)),
        (Value::List(list), Fact::ListAt { pos, value }) => drop(list.put_at(*pos, value)),
        (Value::List(list), Fact::ListDeleted(pos)) => drop(list.remove_at(*pos)),
        (Value::Set(set), Fact::SetMember(member)) => drop(set.insert(member)),
        (Value::Set(set), Fact::SetMemberDeleted(member)) => drop(set.remove(member)),
        (Value::ZSet(zset), Fact::ZMember { member, score }) => drop(zset.insert(member, *score)),
        (Value::ZSet(zset), Fact::ZMemberDeleted(member)) => drop(zset.remove(member)),
        (Value::Stream(stream), Fact::Stream(fact)) => apply_stream_fact(stream, fact),
        _ => debug_assert!(false, "a fact is not of its own kind"),
    }
}

fn apply_stream_fact(stream: &mut Stream, fact: &StreamFact) {
    match fact {
        StreamFact::Entry { id, fields } => drop(stream.put(*id, fields)),
        StreamFact::EntryDeleted(id) => drop(stream.remove(*id)),
        StreamFact::Meta(meta) => stream.set_meta(*meta),
        StreamFact::Group { group, last_id, entries_read } => {
            if stream.update_group(group, |group| group.set_read(*last_id, *entries_read)).is_none() {
                stream.put_group(group, Group::new(*last_id, *entries_read));
            }
        }
        StreamFact::GroupDeleted(group) => drop(stream.remove_group(group)),
        StreamFact::Consumer(fact) => {
            stream.update_group(&fact.group, |group| {
                group.put_consumer(&fact.consumer, fact.seen_at, fact.active_at)
            });
        }
        StreamFact::ConsumerDeleted { group, consumer } => {
            stream.update_group(group, |group| drop(group.remove_consumer(consumer)));
        }
        StreamFact::Pending(fact) => {
            let pending = Pending {
                consumer: fact.consumer.clone(),
                delivered_at: fact.delivered_at,
                deliveries: fact.deliveries,
            };
            stream.update_group(&fact.group, |group| group.put_pending(fact.id, pending));
        }
        StreamFact::PendingDeleted { group, id } => {
            stream.update_group(group, |group| drop(group.remove_pending(*id)));
        }
    }
}

/// Emits the facts that make up a value.
///
/// # Errors
/// `internal` when it is evicted, or is a state without a text form.
pub(super) fn each_fact(value: &Value, emit: &mut dyn FnMut(Fact)) -> Result<()> {
    match value {
        Value::Str(string) => emit(Fact::Str(string.to_bytes())),
        Value::Json(text) => emit(Fact::Json(text.clone())),
        Value::State(cell) => emit(Fact::State(Bytes::from(cell.text()?.as_bytes()))),
        Value::Hash(hash) => each_field(hash, emit),
        Value::List(list) => {
            for (pos, value) in list {
                emit(Fact::ListAt { pos, value: Bytes::from(value) });
            }
        }
        Value::Set(set) => set.iter().for_each(|member| emit(Fact::SetMember(Bytes::from(member)))),
        Value::ZSet(zset) => {
            for (member, score) in zset {
                emit(Fact::ZMember { member: Bytes::from(member), score });
            }
        }
        Value::Stream(stream) => {
            emit(Fact::Stream(StreamFact::Meta(stream.meta())));
            for (id, fields) in stream.range(..) {
                emit(Fact::Stream(StreamFact::Entry { id, fields: fields.clone() }));
            }
            for (name, group) in stream.groups() {
                each_group_fact(name, group, &mut |fact| emit(Fact::Stream(fact)));
            }
        }
        Value::Evicted(_) => {
            return Err(Error::new(Code::Internal, "the facts of an evicted value were requested"));
        }
    }
    Ok(())
}

fn each_field(hash: &Hash, emit: &mut dyn FnMut(Fact)) {
    for (field, value) in hash {
        let expires_at = hash.expires_at(field);
        emit(Fact::HashField { field: Bytes::from(field), value: Bytes::from(value), expires_at });
    }
}

/// Emits the facts that make up a group: itself, then its consumers, then its pending entries.
pub(super) fn each_group_fact(name: &Bytes, group: &Group, emit: &mut dyn FnMut(StreamFact)) {
    emit(StreamFact::Group {
        group: name.clone(),
        last_id: group.last_delivered_id(),
        entries_read: group.entries_read(),
    });
    for (consumer, state) in group.consumers() {
        emit(StreamFact::Consumer(Box::new(ConsumerFact {
            group: name.clone(),
            consumer: consumer.clone(),
            seen_at: state.seen_at(),
            active_at: state.active_at(),
        })));
    }
    for (id, pending) in group.pending(..) {
        emit(pending_fact(name, *id, pending));
    }
}

pub(super) fn pending_fact(group: &Bytes, id: crate::value::StreamId, pending: &Pending) -> StreamFact {
    StreamFact::Pending(Box::new(PendingFact {
        group: group.clone(),
        id,
        consumer: pending.consumer.clone(),
        delivered_at: pending.delivered_at,
        deliveries: pending.deliveries,
    }))
}
