//! A document as the state of a step, so that any store can hold it. Pure.
//!
//! The version and the expiry are part of the state: a store has neither versions that count from 1, nor shows the expiry to a step.
//! Invariant: what a change means is decided by the same function as in the keyspace.

use keystead_core::{Change, Millis, Ttl};
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Changed, Condition, Decided, Document, DocumentChange, Flaw, decide};

/// What a store holds of a document: `{"version":3,"expiresAt":1794806605809,"value":{"name":"Ada"}}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DocumentState {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// As it was written, so that numbers keep their digits.
    value: Box<RawValue>,
}

impl DocumentState {
    /// The document.
    #[must_use]
    pub fn document(&self) -> Document {
        Document {
            text: Bytes::from(self.value.get().as_bytes()),
            version: self.version,
            expires_at: self.expires_at.map_or(Millis::NEVER, Millis),
        }
    }
}

/// Changes a document, if the condition holds. What is returned is the decision of a step.
#[must_use]
pub fn change(
    before: Option<&DocumentState>,
    change: &DocumentChange,
    condition: &Condition,
    expire: Expire,
    now: Millis,
) -> Change<DocumentState, Changed> {
    let current = before.map(|state| state.version);
    let text = match decide(change, condition, current, before.map(|state| state.value.get().as_bytes())) {
        Decided::Put(text) => text,
        Decided::Delete => return Change::Delete(Changed::Deleted),
        Decided::Nothing(why) => return Change::Keep(why),
    };
    // The text of a document is JSON by construction.
    let value = match RawValue::from_string(String::from_utf8_lossy(&text).into_owned()) {
        Ok(value) => value,
        Err(error) => return Change::Keep(Changed::Flawed(Flaw::NotJson(error.to_string()))),
    };
    let (expires_at, ttl) = match expire {
        Expire::Keep => (before.and_then(|state| state.expires_at), Ttl::Same),
        Expire::At(Millis::NEVER) => (None, Ttl::Never),
        Expire::At(at) => (Some(at.0), Ttl::Ms(at.since_ms(now))),
    };
    let state = DocumentState { version: current.unwrap_or(0).saturating_add(1), expires_at, value };
    let done = Changed::Done { document: state.document(), created: current.is_none() };
    Change::Put(state, ttl, done)
}

#[cfg(test)]
mod tests {
    use keystead_core::{Clock, Key, ManualClock, MemoryOptions, MemoryStore, StoreExt, step_fn};
    use proptest::prelude::*;

    use super::super::patch::{Form, Patch};
    use super::*;
    use crate::testing;

    fn changes() -> impl Strategy<Value = DocumentChange> {
        let texts = ["1", "1.10", r#"{"a":1,"b":{"c":[9007199254740993]}}"#, r#"{"b":{"d":null}}"#, "[1,2]"];
        let patches = [
            (Form::Shallow, r#"{"a":{"x":1e+400}}"#),
            (Form::Merge, r#"{"b":{"c":null}}"#),
            (Form::Operations, r#"[{"op":"add","path":"/b/e","value":-0.0}]"#),
            (Form::Operations, r#"[{"op":"test","path":"/a","value":1}]"#),
        ];
        prop_oneof![
            prop::sample::select(texts.to_vec())
                .prop_map(|text| DocumentChange::Put(Bytes::from(text.as_bytes()))),
            prop::sample::select(patches.to_vec())
                .prop_map(|(form, text)| DocumentChange::Patch(Patch::read(form, text.as_bytes()).unwrap())),
            Just(DocumentChange::Delete),
        ]
    }

    fn conditions() -> impl Strategy<Value = Condition> {
        prop_oneof![
            3 => Just(Condition::Any),
            1 => Just(Condition::There),
            1 => Just(Condition::Absent),
            2 => (0..4u64).prop_map(|version| Condition::Version(vec![version])),
        ]
    }

    fn expiries() -> impl Strategy<Value = Option<Option<u64>>> {
        prop_oneof![Just(None), Just(Some(None)), (1..50u64).prop_map(|ms| Some(Some(ms)))]
    }

    proptest! {
        #[test]
        fn a_store_gives_the_same_results_as_the_keyspace(
            steps in prop::collection::vec((changes(), conditions(), expiries(), 0..30u64), 1..40),
        ) {
            let clock = ManualClock::at(Millis(1_000_000));
            let store = MemoryStore::open(MemoryOptions::default().clock(clock.clone())).unwrap();
            let mut keys = testing::keyspace();
            let key = Key::new("k").unwrap();
            for (one, condition, expiry, later_ms) in steps {
                clock.advance_ms(later_ms);
                let now = clock.now();
                let expire = match expiry {
                    None => Expire::Keep,
                    Some(None) => Expire::At(Millis::NEVER),
                    Some(Some(ms)) => Expire::At(now.plus_ms(ms)),
                };
                let expected = super::super::change(&mut keys, b"k", &one, &condition, expire, now).unwrap();
                let step = step_fn(move |before: Option<&DocumentState>, now| {
                    change(before, &one, &condition, expire, now)
                });
                prop_assert_eq!(store.apply_sync(&key, &step).unwrap(), expected);
                let text = step_fn(|state: Option<&DocumentState>, _| {
                    Change::Keep(state.map(|state| serde_json::to_string(state).unwrap()))
                });
                let text: Option<String> = store.apply_sync(&key, &text).unwrap();
                let read: Option<DocumentState> = text.map(|text| serde_json::from_str(&text).unwrap());
                let there = super::super::get(&mut keys, b"k", now).unwrap();
                prop_assert_eq!(read.map(|state| state.document()), there, "it survives its text form");
            }
        }
    }

    #[test]
    fn a_state_of_something_else_is_not_a_document() {
        for text in ["1", "[1,2]", r#"{"version":1}"#, r#"{"version":1,"value":1,"more":2}"#] {
            assert!(serde_json::from_str::<DocumentState>(text).is_err(), "{text}");
        }
        let text = r#"{"version":7,"value":{"$serde_json::private::RawValue":"1"}}"#;
        let state: DocumentState = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&state).unwrap(), text);
    }
}
