//! A key as a row: its value as JSON. Pure.
//!
//! | Value | JSON |
//! |---|---|
//! | document, state | itself |
//! | string | the document that it is the text of, if that is an object or array; else a string |
//! | hash | an object of strings |
//! | list; set | an array of strings, a set in ascending order |
//! | sorted set | an object with the score of each member |
//! | stream | none: the row is rejected |

use keystead_core::{Error, Millis, Revision, ShardId, Version};
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact};
use keystead_model::keyspace::Keyspace;
use serde_json::{Map, Value};

use crate::batch::{Change, Row};

/// A key as it was read from its shard.
pub struct Found {
    /// Its name.
    pub key: Bytes,
    /// Its version; that of an absent key is 0.
    pub version: Version,
    /// A revision of the shard at which this was so.
    pub revision: Revision,
    /// The effects that make it up; nothing: there is no such key.
    pub effects: Option<Vec<Effect>>,
}

impl Found {
    /// Reads a key.
    ///
    /// # Errors
    /// The error of the keyspace.
    pub fn read(keyspace: &mut Keyspace, key: Bytes, now: Millis) -> Result<Found, Error> {
        Ok(match keyspace.meta(&key, now)? {
            None => Found { key, version: Version::ZERO, revision: keyspace.revision(), effects: None },
            Some(meta) => {
                let effects = Some(keyspace.export(&key)?);
                Found { key, version: meta.version, revision: meta.revision, effects }
            }
        })
    }

    /// The row. `changed`: the names of its fields that have changed.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn row(&self, shard: ShardId, changed: Option<Vec<String>>) -> Result<Row, String> {
        let key = text(&self.key).map_err(|_| "the key is not UTF-8".to_owned())?.to_owned();
        let change = match &self.effects {
            None => Change::Delete,
            Some(effects) => Change::Put { value: value(effects)?, changed },
        };
        Ok(Row { key, version: self.version, shard, revision: self.revision, change })
    }
}

/// The value that these effects make up.
fn value(effects: &[Effect]) -> Result<Value, String> {
    let Some(first) = effects.iter().map(|effect| &effect.fact).find(|fact| !matches!(fact, Fact::Expiry(_)))
    else {
        return Err("the key has no value".to_owned());
    };
    let facts = effects.iter().map(|effect| &effect.fact);
    match first {
        Fact::Str(bytes) => string_json(bytes),
        Fact::Json(bytes) | Fact::State(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| format!("the document cannot be read: {error}"))
        }
        Fact::HashField { .. } => {
            let mut object = Map::new();
            for fact in facts {
                if let Fact::HashField { field, value, .. } = fact {
                    object.insert(text(field)?.to_owned(), Value::from(text(value)?));
                }
            }
            Ok(Value::Object(object))
        }
        Fact::ListAt { .. } => facts
            .filter_map(|fact| match fact {
                Fact::ListAt { value, .. } => Some(text(value).map(Value::from)),
                _ => None,
            })
            .collect(),
        Fact::SetMember(_) => {
            let members = facts.filter_map(|fact| match fact {
                Fact::SetMember(member) => Some(text(member)),
                _ => None,
            });
            let mut members = members.collect::<Result<Vec<_>, _>>()?;
            members.sort_unstable();
            Ok(Value::from(members))
        }
        Fact::ZMember { .. } => {
            let mut object = Map::new();
            for fact in facts {
                if let Fact::ZMember { member, score } = fact {
                    object.insert(text(member)?.to_owned(), score_json(*score));
                }
            }
            Ok(Value::Object(object))
        }
        _ => Err("a stream has no form as JSON: give it a key outside of the sink's prefix".to_owned()),
    }
}

/// A string: the document that it is the text of, if that is an object or array.
///
/// # Errors
/// When it is not UTF-8.
pub fn string_json(bytes: &Bytes) -> Result<Value, String> {
    let text = text(bytes)?;
    let is_document = text.trim_start().starts_with(['{', '[']);
    let document = is_document.then(|| serde_json::from_str(text).ok()).flatten();
    Ok(document.unwrap_or_else(|| Value::from(text)))
}

/// A score: a number, or the text of an infinite one.
#[must_use]
pub fn score_json(score: f64) -> Value {
    match score.is_finite() {
        true => Value::from(score),
        false => Value::from(score.to_string()),
    }
}

/// Bytes as text.
///
/// # Errors
/// When they are not UTF-8.
pub fn text(bytes: &Bytes) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "the value is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use keystead_model::keyspace::Expire;
    use serde_json::json;

    use super::*;

    const NOW: Millis = Millis(1000);

    fn bytes(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    fn row(keys: &mut Keyspace, key: &str) -> Result<Row, String> {
        let meta = keys.meta(key.as_bytes(), NOW).unwrap();
        let key = bytes(key);
        let effects = meta.map(|_| keys.export(&key).unwrap());
        let version = meta.map_or(Version::ZERO, |meta| meta.version);
        Found { key, version, revision: keys.revision(), effects }.row(ShardId(0), None)
    }

    #[test]
    fn values_have_their_json() {
        let mut keys = Keyspace::in_memory();
        for (key, value) in [("s", "7"), ("o", " {\"a\":1}"), ("broken", "{a"), ("n", "\u{0}")] {
            keys.set_str(key.as_bytes(), bytes(value), Expire::At(Millis(5000)), NOW).unwrap();
        }
        keys.set_json(b"d", bytes("{\"a\":[0.1,null]}"), Expire::Keep, NOW).unwrap();
        keys.hash_mut(b"h", NOW).unwrap().set(&bytes("f"), &bytes("1"));
        keys.list_mut(b"l", NOW).unwrap().push_back(&bytes("b"));
        keys.list_mut(b"l", NOW).unwrap().push_front(&bytes("a"));
        for member in ["b", "a"] {
            keys.set_mut(b"m", NOW).unwrap().insert(&bytes(member));
        }
        keys.zset_mut(b"z", NOW).unwrap().insert(&bytes("x"), 1.5);
        for (key, expected) in [
            ("s", json!("7")),
            ("o", json!({"a": 1})),
            ("broken", json!("{a")),
            ("n", json!("\u{0}")),
            ("d", json!({"a": [0.1, null]})),
            ("h", json!({"f": "1"})),
            ("l", json!(["a", "b"])),
            ("m", json!(["a", "b"])),
            ("z", json!({"x": 1.5})),
        ] {
            let Change::Put { value, .. } = row(&mut keys, key).unwrap().change else { panic!("{key}") };
            assert_eq!(value, expected, "{key}");
        }
        assert_eq!(row(&mut keys, "absent").unwrap().change, Change::Delete);
    }

    #[test]
    fn what_has_no_json_says_why() {
        let mut keys = Keyspace::in_memory();
        keys.set_str(b"binary", Bytes::from(&[0xff][..]), Expire::Keep, NOW).unwrap();
        assert_eq!(row(&mut keys, "binary").unwrap_err(), "the value is not UTF-8");
        let key = Bytes::from(&[0xff][..]);
        let found = Found { key, version: Version(1), revision: Revision(1), effects: None };
        assert_eq!(found.row(ShardId(0), None).unwrap_err(), "the key is not UTF-8");
    }
}
