//! Changes as events: what the effects of one change say. Pure.
//!
//! Effects are absolute facts, so an event has what a change has set and removed; the value of a string or document is whole.
//!
//! | Value | `type` | `put` has | `change` has |
//! |---|---|---|---|
//! | document; state of a limit or step | `json`; `state` | itself | |
//! | string | `string` | the document that it is the text of, else a string | |
//! | hash; sorted set | `hash`; `zset` | an object | `set`: an object, `removed`: names |
//! | set | `set` | an array in ascending order | `set` and `removed`: members |
//! | list | `list` | an object of elements by position | `set`: the same, `removed`: positions |

use std::collections::{BTreeMap, BTreeSet};

use keystead_core::{Millis, Revision, ShardId, Version};
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact};
use keystead_model::value::Kind as ValueKind;
use keystead_rows::value::{score_json, string_json, text};
use keystead_sinks::log::{Event, Kind, Seq};
use serde_json::{Map, Value, json};

/// Splits effects into changes: the effects of one key with one version that follow each other.
pub(super) fn changes(effects: &[Effect]) -> impl Iterator<Item = &[Effect]> {
    effects.chunk_by(|one, next| {
        one.key == next.key && one.version == next.version && !ends_a_key(one) && !ends_a_key(next)
    })
}

fn ends_a_key(effect: &Effect) -> bool {
    matches!(effect.fact, Fact::Deleted | Fact::Flushed)
}

/// The event of one change. Its number is given when it is appended.
pub(super) fn event(change: &[Effect], shard: ShardId, time: Millis) -> Event {
    let is_new = change.first().is_none_or(|effect| effect.version == Version::FIRST);
    let revision = change.last().map_or(Revision::ZERO, |effect| effect.revision);
    build(change, is_new, shard, revision, time)
}

/// The event of a key as it is, at a revision of its shard.
pub(super) fn whole(effects: &[Effect], shard: ShardId, revision: Revision, time: Millis) -> Event {
    build(effects, true, shard, revision, time)
}

/// A mark about the log itself.
pub(super) fn mark(kind: Kind, reason: Option<&str>, time: Millis) -> Event {
    Event {
        seq: Seq(0),
        shard: ShardId(0),
        revision: Revision::ZERO,
        key: String::new(),
        version: Version::ZERO,
        kind,
        of: None,
        value: reason.map(|reason| json!({ "reason": reason })),
        expires_at: None,
        time,
    }
}

/// The row that stands for an event that cannot be written.
pub(super) fn rejected(event: &Event, reason: &str) -> Event {
    // What no target takes in a key or a value.
    let plain = |text: &str| text.replace('\0', "\u{fffd}");
    let value = Some(json!({ "reason": plain(reason) }));
    Event { key: plain(&event.key), kind: Kind::Rejected, value, ..event.clone() }
}

fn build(effects: &[Effect], is_new: bool, shard: ShardId, revision: Revision, time: Millis) -> Event {
    let (key, version) = effects.first().map(|effect| (&effect.key, effect.version)).unzip();
    let key = key.cloned().unwrap_or_default();
    let expires_at = effects.iter().rev().find_map(|effect| match effect.fact {
        Fact::Expiry(at) => Some(at),
        _ => None,
    });
    let event = Event {
        revision,
        shard,
        version: version.unwrap_or(Version::ZERO),
        expires_at,
        key: String::from_utf8_lossy(&key).into_owned(),
        ..mark(Kind::Expire, None, time)
    };
    if std::str::from_utf8(&key).is_err() {
        return rejected(&event, "the key is not UTF-8");
    }
    let mut content = Content::new(is_new);
    for effect in effects {
        if let Err(reason) = content.add(&effect.fact) {
            let of = content.of.map(str::to_owned);
            return rejected(&Event { of, ..event }, &reason);
        }
    }
    let kind = content.kind();
    Event { kind, of: content.of.map(str::to_owned), value: content.value(kind), ..event }
}

/// What the facts of one change say together.
struct Content {
    /// Whether it is all of the key.
    is_whole: bool,
    is_deleted: bool,
    is_flushed: bool,
    of: Option<&'static str>,
    value: Option<Value>,
    set: BTreeMap<String, Value>,
    removed: BTreeSet<String>,
}

impl Content {
    fn new(is_whole: bool) -> Content {
        Content {
            is_whole,
            is_deleted: false,
            is_flushed: false,
            of: None,
            value: None,
            set: BTreeMap::new(),
            removed: BTreeSet::new(),
        }
    }

    fn add(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Deleted => self.is_deleted = true,
            Fact::Flushed => self.is_flushed = true,
            Fact::Expiry(_) => {}
            Fact::Fresh(kind) => {
                self.set.clear();
                self.removed.clear();
                (self.is_whole, self.of) = (true, Some(name_of(*kind)));
            }
            Fact::Str(bytes) => self.scalar("string", string_json(bytes)?),
            Fact::Json(bytes) => self.scalar("json", document(bytes)?),
            Fact::State(bytes) => self.scalar("state", document(bytes)?),
            Fact::HashField { field, value, .. } => {
                self.put("hash", text(field)?.to_owned(), Value::from(text(value)?));
            }
            Fact::HashFieldDeleted(field) => self.remove("hash", text(field)?.to_owned()),
            Fact::ListAt { pos, value } => self.put("list", pos.to_string(), Value::from(text(value)?)),
            Fact::ListDeleted(pos) => self.remove("list", pos.to_string()),
            Fact::SetMember(member) => self.put("set", text(member)?.to_owned(), Value::Null),
            Fact::SetMemberDeleted(member) => self.remove("set", text(member)?.to_owned()),
            Fact::ZMember { member, score } => self.put("zset", text(member)?.to_owned(), score_json(*score)),
            Fact::ZMemberDeleted(member) => self.remove("zset", text(member)?.to_owned()),
            Fact::Stream(_) => {
                self.of = Some("stream");
                return Err("a stream has no form as JSON".to_owned());
            }
        }
        Ok(())
    }

    fn scalar(&mut self, of: &'static str, value: Value) {
        (self.is_whole, self.of, self.value) = (true, Some(of), Some(value));
    }

    fn put(&mut self, of: &'static str, name: String, value: Value) {
        self.of = Some(of);
        self.removed.remove(&name);
        self.set.insert(name, value);
    }

    fn remove(&mut self, of: &'static str, name: String) {
        self.of = Some(of);
        self.set.remove(&name);
        self.removed.insert(name);
    }

    fn kind(&self) -> Kind {
        match (self.of, self.is_whole) {
            _ if self.is_flushed => Kind::Flush,
            _ if self.is_deleted => Kind::Delete,
            (None, _) => Kind::Expire,
            (Some(_), true) => Kind::Put,
            (Some(_), false) => Kind::Change,
        }
    }

    fn value(self, kind: Kind) -> Option<Value> {
        let is_set = self.of == Some("set");
        let set = match is_set {
            true => Value::from(self.set.into_keys().collect::<Vec<_>>()),
            false => Value::Object(self.set.into_iter().collect::<Map<_, _>>()),
        };
        match kind {
            Kind::Put => Some(self.value.unwrap_or(set)),
            Kind::Change => Some(json!({ "set": set, "removed": self.removed })),
            _ => None,
        }
    }
}

const fn name_of(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Str => "string",
        ValueKind::Json => "json",
        ValueKind::State => "state",
        ValueKind::Hash => "hash",
        ValueKind::List => "list",
        ValueKind::Set => "set",
        ValueKind::ZSet => "zset",
        ValueKind::Stream => "stream",
    }
}

fn document(bytes: &Bytes) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the document cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use keystead_model::keyspace::{Expire, Keyspace};
    use keystead_sinks::log::KeyState;

    use super::*;

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    /// The events of everything that has happened, and the state of a key that they make up.
    fn events(keys: &Keyspace) -> Vec<Event> {
        changes(keys.effects()).map(|change| event(change, ShardId(0), NOW)).collect()
    }

    fn state(keys: &Keyspace, key: &str) -> Option<Value> {
        match KeyState::of(&events(keys).into_iter().filter(|event| event.key == key).collect::<Vec<_>>()) {
            KeyState::Is(state) => Some(state.json()),
            KeyState::Absent => None,
            KeyState::Unknown(_) => Some(json!("unknown")),
        }
    }

    #[test]
    fn values_are_whole_and_collections_have_what_was_set_and_removed() {
        let mut keys = Keyspace::in_memory();
        keys.set_json(b"d", bytes("{\"a\":1}"), Expire::At(Millis(5000)), NOW).unwrap();
        keys.set_str(b"s", bytes("7"), Expire::Keep, NOW).unwrap();
        for n in ["1", "2"] {
            keys.hash_mut(b"h", NOW).unwrap().set(&bytes("f"), &bytes(n));
        }
        keys.hash_mut(b"h", NOW).unwrap().set(&bytes("g"), &bytes("3"));
        keys.hash_mut(b"h", NOW).unwrap().remove(&bytes("f"));
        keys.set_expiry(b"s", Millis(9000), NOW).unwrap();
        keys.delete(b"d", NOW).unwrap();
        let all = events(&keys);
        let shown: Vec<_> = all
            .iter()
            .map(|event| (event.key.as_str(), event.version.0, event.kind, event.value.clone()))
            .collect();
        assert_eq!(
            shown,
            [
                ("d", 1, Kind::Put, Some(json!({"a": 1}))),
                ("s", 1, Kind::Put, Some(json!("7"))),
                ("h", 1, Kind::Put, Some(json!({"f": "1"}))),
                ("h", 2, Kind::Change, Some(json!({"set": {"f": "2"}, "removed": []}))),
                ("h", 3, Kind::Change, Some(json!({"set": {"g": "3"}, "removed": []}))),
                ("h", 4, Kind::Change, Some(json!({"set": {}, "removed": ["f"]}))),
                ("s", 2, Kind::Expire, None),
                ("d", 2, Kind::Delete, None),
            ]
        );
        assert_eq!(all[0].expires_at, Some(Millis(5000)));
        assert!(all.iter().map(|event| event.revision).is_sorted());
    }

    #[test]
    fn the_events_of_a_key_make_up_its_value() {
        let mut keys = Keyspace::in_memory();
        for member in ["b", "c", "a"] {
            keys.set_mut(b"m", NOW).unwrap().insert(&bytes(member));
            keys.list_mut(b"l", NOW).unwrap().push_front(&bytes(member));
        }
        keys.set_mut(b"m", NOW).unwrap().remove(&bytes("c"));
        keys.list_mut(b"l", NOW).unwrap().push_back(&bytes("z"));
        keys.zset_mut(b"z", NOW).unwrap().insert(&bytes("x"), 1.5);
        keys.zset_mut(b"z", NOW).unwrap().insert(&bytes("y"), f64::INFINITY);
        keys.rename(b"l", b"r", true, NOW).unwrap();
        assert_eq!(state(&keys, "m"), Some(json!(["a", "b"])));
        assert_eq!(state(&keys, "l"), None);
        assert_eq!(state(&keys, "r"), Some(json!(["a", "c", "b", "z"])));
        assert_eq!(state(&keys, "z"), Some(json!({"x": 1.5, "y": "inf"})));
        // As a key of a snapshot.
        let key = bytes("r");
        let exported = keys.export(&key).unwrap();
        let snapshot = whole(&exported, ShardId(3), Revision(99), NOW);
        assert_eq!((snapshot.kind, snapshot.shard, snapshot.revision), (Kind::Put, ShardId(3), Revision(99)));
        assert_eq!(
            KeyState::of([&snapshot]),
            KeyState::Is(keystead_sinks::log::State {
                of: "list".to_owned(),
                value: snapshot.value.clone().unwrap(),
                version: snapshot.version,
                seq: Seq(0),
            })
        );
    }

    #[test]
    fn what_has_no_json_is_rejected_with_a_reason() {
        let mut keys = Keyspace::in_memory();
        keys.set_str(b"binary", Bytes::from(&[0xff][..]), Expire::Keep, NOW).unwrap();
        keys.set_str(&[0xff, b'k'], bytes("v"), Expire::Keep, NOW).unwrap();
        let reasons: Vec<_> = events(&keys)
            .into_iter()
            .map(|event| (event.key, event.kind, event.value.unwrap()["reason"].as_str().unwrap().to_owned()))
            .collect();
        assert_eq!(
            reasons,
            [
                ("binary".to_owned(), Kind::Rejected, "the value is not UTF-8".to_owned()),
                ("\u{fffd}k".to_owned(), Kind::Rejected, "the key is not UTF-8".to_owned()),
            ]
        );
        let nul = Event { key: "a\0b".to_owned(), ..mark(Kind::Put, None, NOW) };
        assert_eq!(rejected(&nul, "no\0").key, "a\u{fffd}b");
    }
}
