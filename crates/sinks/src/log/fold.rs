//! The state of a key after some of its events. Pure.
//!
//! Invariant: applied to the events of a key in order, from its last whole one on, it is what the key was at the last of them.

use std::collections::BTreeSet;

use keystead_core::Version;
use serde_json::{Map, Value};

use super::event::{Event, Kind, Seq};

/// The type of a list: its elements are stored with their positions.
pub const LIST: &str = "list";
/// The type of a set.
pub const SET: &str = "set";

/// A key that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The type of its value.
    pub of: String,
    /// The value as in the log: a list is an object of its elements by position.
    pub value: Value,
    /// Its version.
    pub version: Version,
    /// The event that has changed it last.
    pub seq: Seq,
}

/// What is known of a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KeyState {
    /// There is no such key.
    #[default]
    Absent,
    /// It exists.
    Is(State),
    /// A change of it is not in the log.
    Unknown(Seq),
}

impl State {
    /// The value as JSON, as sinks of other modes write it.
    #[must_use]
    pub fn json(&self) -> Value {
        match (&self.value, self.of.as_str()) {
            (Value::Object(items), LIST) => {
                let mut items: Vec<(i64, &Value)> =
                    items.iter().filter_map(|(at, item)| Some((at.parse().ok()?, item))).collect();
                items.sort_by_key(|(at, _)| *at);
                Value::from(items.into_iter().map(|(_, item)| item.clone()).collect::<Vec<_>>())
            }
            (value, _) => value.clone(),
        }
    }
}

impl KeyState {
    /// The state after another event of the key.
    #[must_use]
    pub fn after(self, event: &Event) -> KeyState {
        let (version, seq) = (event.version, event.seq);
        match (event.kind, self) {
            (Kind::Put, _) => match (&event.of, &event.value) {
                (Some(of), Some(value)) => {
                    KeyState::Is(State { of: of.clone(), value: value.clone(), version, seq })
                }
                _ => KeyState::Unknown(seq),
            },
            (Kind::Delete, _) => KeyState::Absent,
            (Kind::Change, KeyState::Is(state)) if event.of.as_ref() == Some(&state.of) => {
                match changed(&state.of, state.value, event.value.as_ref()) {
                    Some(value) => KeyState::Is(State { of: state.of, value, version, seq }),
                    None => KeyState::Unknown(seq),
                }
            }
            // A collection whose creation is not in the log.
            (Kind::Change, _) | (Kind::Rejected, _) => KeyState::Unknown(seq),
            (Kind::Expire, KeyState::Is(state)) => KeyState::Is(State { version, seq, ..state }),
            (Kind::Expire, other) => other,
            // Marks are about no key.
            (Kind::Flush | Kind::Begin | Kind::Gap | Kind::Complete, other) => other,
        }
    }

    /// The state after these events, in order.
    #[must_use]
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> KeyState {
        events.into_iter().fold(KeyState::Absent, KeyState::after)
    }
}

/// A collection after a change. None: they do not fit.
fn changed(of: &str, value: Value, change: Option<&Value>) -> Option<Value> {
    let change = change?;
    let removed: Vec<&str> = match change.get("removed") {
        Some(removed) => removed.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?,
        None => Vec::new(),
    };
    match (of, value) {
        (SET, Value::Array(members)) => {
            let mut members: BTreeSet<String> =
                members.into_iter().map(|member| Some(member.as_str()?.to_owned())).collect::<Option<_>>()?;
            for name in removed {
                members.remove(name);
            }
            if let Some(set) = change.get("set") {
                for member in set.as_array()? {
                    members.insert(member.as_str()?.to_owned());
                }
            }
            Some(members.into_iter().collect())
        }
        (_, Value::Object(mut items)) => {
            for name in removed {
                items.remove(name);
            }
            if let Some(set) = change.get("set") {
                items.extend(set.as_object()?.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            Some(Value::Object(items.into_iter().collect::<Map<_, _>>()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Millis, Revision, ShardId};
    use serde_json::json;

    use super::*;

    fn event(seq: u64, kind: Kind, of: &str, value: Value) -> Event {
        Event {
            seq: Seq(seq),
            shard: ShardId(0),
            revision: Revision(seq),
            key: "k".to_owned(),
            version: Version(seq),
            kind,
            of: (!of.is_empty()).then(|| of.to_owned()),
            value: (!value.is_null()).then_some(value),
            expires_at: None,
            time: Millis(0),
        }
    }

    fn json_of(events: &[Event]) -> Option<Value> {
        match KeyState::of(events) {
            KeyState::Is(state) => {
                assert_eq!(state.seq, events.last().unwrap().seq);
                Some(state.json())
            }
            KeyState::Absent => None,
            KeyState::Unknown(seq) => Some(json!({ "unknown": seq.0 })),
        }
    }

    #[test]
    fn collections_are_what_their_changes_make_of_them() {
        let change = |of: &str, put: Value, change: Value| {
            json_of(&[event(1, Kind::Put, of, put), event(2, Kind::Change, of, change)])
        };
        let hash = change("hash", json!({"a": "1", "b": "2"}), json!({"set": {"a": "3"}, "removed": ["b"]}));
        assert_eq!(hash, Some(json!({"a": "3"})));
        let set = change("set", json!(["a", "b"]), json!({"set": ["c"], "removed": ["a"]}));
        assert_eq!(set, Some(json!(["b", "c"])));
        let list = change(
            "list",
            json!({"0": "a", "10": "c"}),
            json!({"set": {"-1": "z", "9": "b"}, "removed": ["0"]}),
        );
        assert_eq!(list, Some(json!(["z", "b", "c"])));
        let zset = change("zset", json!({"m": 1.5}), json!({"set": {"m": 2}}));
        assert_eq!(zset, Some(json!({"m": 2})));
    }

    #[test]
    fn what_is_not_in_the_log_is_unknown_until_the_next_whole_value() {
        let put = event(1, Kind::Put, "json", json!(1));
        let rejected = event(2, Kind::Rejected, "", json!({"reason": "why"}));
        let again = event(3, Kind::Put, "json", json!(3));
        assert_eq!(json_of(&[put.clone(), rejected.clone()]), Some(json!({"unknown": 2})));
        assert_eq!(json_of(&[put.clone(), rejected, again]), Some(json!(3)));
        let orphan = event(1, Kind::Change, "hash", json!({"set": {"a": "1"}}));
        assert_eq!(json_of(std::slice::from_ref(&orphan)), Some(json!({"unknown": 1})));
        assert_eq!(json_of(&[put.clone(), orphan]), Some(json!({"unknown": 1})), "of another type");
        assert_eq!(json_of(&[put.clone(), event(2, Kind::Delete, "", Value::Null)]), None);
        assert_eq!(json_of(&[put, event(2, Kind::Expire, "", Value::Null)]), Some(json!(1)));
    }
}
