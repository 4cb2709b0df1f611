//! The body of `POST /sync`: a client and its mutations. Pure.
//!
//! What is wrong with one mutation is the result of that mutation, and the others are applied. Where nothing of a request can be
//! trusted (no client, no ids, too many), all of it is an error.

use keystead_commands::bounds::{
    SYNC_CLIENT_BYTES_MAX, SYNC_FIELD_BYTES_MAX, SYNC_ITEMS_MAX, SYNC_VALUE_BYTES_MAX,
};
use keystead_commands::documents::is_internal;
use keystead_commands::json::document;
use keystead_commands::sync::apply::Item;
use keystead_commands::sync::names::SYNC_KEY_BYTES_MAX;
use keystead_commands::sync::{Edit, Mutation, Settled, code};
use keystead_core::Code;
use keystead_model::Bytes;
use serde_json::{Map, Value};

use super::super::error::ApiError;
use super::super::kv::batch;
use crate::sync_token::{Scope, is_client};

/// The members of an item.
pub(super) mod name {
    pub(in super::super) const ID: &str = "id";
    pub(in super::super) const KEY: &str = "key";
    pub(in super::super) const FIELD: &str = "field";
    pub(in super::super) const VALUE: &str = "value";
    pub(in super::super) const DELETE: &str = "delete";
    pub(in super::super) const TS: &str = "ts";
    pub(in super::super) const IF_VERSION: &str = "ifVersion";
    pub(in super::super) const SEEN: &str = "seen";
}

/// The greatest whole number that is exact in JavaScript.
pub(super) const ID_MAX: u64 = (1 << 53) - 1;

const FORM: &str = "send {\"client\":\"c1\",\"items\":[{\"id\":1,\"key\":\"k\",\"field\":\"f\",\"value\":1,\"ts\":1700000000000}]}";

/// A request.
pub(super) struct Batch {
    pub(super) client: String,
    /// The client's time when it sent the request.
    pub(super) client_ts: Option<u64>,
    pub(super) entries: Vec<Entry>,
}

/// One item of it.
pub(super) enum Entry {
    /// For the shard of its key. It may be one that can never be applied.
    Item(Item),
    /// Its id, and why it has no key under which anything could be stored.
    Rejected(u64, Settled),
}

impl Entry {
    pub(super) fn id(&self) -> u64 {
        match self {
            Entry::Item(item) => item.mutation.id,
            Entry::Rejected(id, _) => *id,
        }
    }
}

/// Reads a request.
pub(super) fn read(body: &[u8], scope: Option<&Scope>) -> Result<Batch, ApiError> {
    let body = document::parse(body).map_err(|flaw| ApiError::flaw("the body", &flaw))?;
    let Value::Object(mut body) = body else { return Err(ApiError::bad(FORM)) };
    let Some(Value::String(client)) = body.remove("client") else { return Err(ApiError::bad(FORM)) };
    let Some(Value::Array(items)) = body.remove("items") else { return Err(ApiError::bad(FORM)) };
    if body.get("client_ts").is_some_and(Value::is_null) {
        return Err(ApiError::bad("\"client_ts\" is a time in milliseconds, not null"));
    }
    let client_ts = number(&mut body, "client_ts").map_err(ApiError::Bad)?;
    if let Some(other) = body.keys().next() {
        return Err(ApiError::bad(format!("the member '{other}' is unknown: {FORM}")));
    }
    if !is_client(&client) {
        return Err(ApiError::bad(format!(
            "\"client\" is a name of 1 to {SYNC_CLIENT_BYTES_MAX} letters, digits, and . _ : -"
        )));
    }
    if items.len() > SYNC_ITEMS_MAX {
        let why =
            format!("a request has at most {SYNC_ITEMS_MAX} items: send the first ones, then the others");
        return Err(ApiError::TooMany(why));
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
    for (n, item) in items.into_iter().enumerate() {
        let Value::Object(mut item) = item else {
            return Err(ApiError::bad(format!("item {n} is not an object")));
        };
        let id = number(&mut item, name::ID).ok().flatten().filter(|id| (1..=ID_MAX).contains(id));
        let id = id.ok_or_else(|| ApiError::bad(format!("item {n} has no \"id\" from 1 to {ID_MAX}")))?;
        let entry = match entries.last().map_or(0, Entry::id) {
            last if id <= last => {
                let words = format!("the id {id} goes back: {last} is before it in the request");
                Entry::Rejected(id, Settled::rejected(code::ID_GOES_BACK, words))
            }
            _ => entry(id, item, &client, scope),
        };
        entries.push(entry);
    }
    Ok(Batch { client, client_ts, entries })
}

fn entry(id: u64, mut item: Map<String, Value>, client: &str, scope: Option<&Scope>) -> Entry {
    if scope.is_some_and(|scope| scope.client != client) {
        let words = "the token is for another client";
        return Entry::Rejected(id, Settled::rejected(code::UNKNOWN_CLIENT, words));
    }
    let key = match batch::key(&mut item) {
        Ok(key) => key,
        Err(_) => return bad(id, "it has no \"key\""),
    };
    if key.is_empty() {
        return bad(id, "its key is empty");
    }
    if key.len() > SYNC_KEY_BYTES_MAX {
        let words = format!("its key is over {SYNC_KEY_BYTES_MAX} bytes");
        return Entry::Rejected(id, Settled::rejected(Code::TooLarge.as_str(), words));
    }
    if scope.is_some_and(|scope| !key.starts_with(scope.prefix.as_bytes())) {
        let words = "its key does not begin with the prefix of the token";
        return Entry::Rejected(id, Settled::rejected(code::FORBIDDEN, words));
    }
    if is_internal(&key) {
        return Entry::Rejected(id, Settled::rejected(code::FORBIDDEN, "its key is one of the server's own"));
    }
    // From here on the id is settled, whatever is wrong with the rest.
    let text = Value::Object(item.clone()).to_string();
    let mut mutation =
        Mutation { id, key: Bytes::from(&key[..]), edit: Edit::Delete, ts: 0, if_version: None, seen: None };
    let rejected = complete(&mut mutation, item).err();
    if rejected.is_some() {
        // What distinguishes it from another mutation with the same id.
        mutation.edit = Edit::Put(Value::String(text));
    }
    Entry::Item(Item { mutation, rejected })
}

fn bad(id: u64, words: &str) -> Entry {
    Entry::Rejected(id, Settled::rejected(Code::BadRequest.as_str(), words))
}

/// Reads the rest of an item, or why it can never be applied.
fn complete(mutation: &mut Mutation, mut item: Map<String, Value>) -> Result<(), Settled> {
    let bad = |words: String| Settled::rejected(Code::BadRequest.as_str(), words);
    let too_large = |words: String| Settled::rejected(Code::TooLarge.as_str(), words);
    let mut read = |name: &str| number(&mut item, name).map_err(bad);
    mutation.ts =
        read(name::TS)?.ok_or_else(|| bad("it has no \"ts\", the time in milliseconds".to_owned()))?;
    mutation.if_version = read(name::IF_VERSION)?;
    mutation.seen = read(name::SEEN)?;
    let field = match item.remove(name::FIELD) {
        None => None,
        Some(Value::String(field)) => Some(field),
        Some(_) => return Err(bad("its \"field\" is not a string".to_owned())),
    };
    if field.as_ref().is_some_and(|field| field.len() > SYNC_FIELD_BYTES_MAX) {
        return Err(too_large(format!("its \"field\" is over {SYNC_FIELD_BYTES_MAX} bytes")));
    }
    let delete = match item.remove(name::DELETE) {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(bad("its \"delete\" is not true or false".to_owned())),
    };
    let value = item.remove(name::VALUE);
    if let Some(other) = item.keys().next() {
        return Err(bad(format!("its member '{other}' is unknown")));
    }
    mutation.edit = match (field, value, delete) {
        (_, Some(_), true) => return Err(bad("it has both a \"value\" and \"delete\"".to_owned())),
        (_, None, false) => return Err(bad("it has neither a \"value\" nor \"delete\"".to_owned())),
        (None, None, true) => Edit::Delete,
        (Some(field), None, true) => Edit::DeleteField(field),
        (field, Some(value), false) => {
            if value.to_string().len() > SYNC_VALUE_BYTES_MAX {
                return Err(too_large(format!("its value is over {SYNC_VALUE_BYTES_MAX} bytes")));
            }
            field.map_or_else(|| Edit::Put(value.clone()), |field| Edit::SetField(field, value.clone()))
        }
    };
    Ok(())
}

fn is_whole(number: &f64) -> bool {
    number.fract() == 0.0 && (0.0..=ID_MAX as f64).contains(number)
}

/// A whole number, or nothing; an error for anything else.
fn number(object: &mut Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            // However it is written: 1, 1.0, 1e0.
            let number =
                value.as_u64().or_else(|| value.as_f64().filter(is_whole).map(|number| number as u64));
            let words = || format!("\"{name}\" is not a whole number from 0 to {ID_MAX}");
            number.filter(|number| *number <= ID_MAX).map(Some).ok_or_else(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reasons(items: &Value) -> Vec<String> {
        let scope = Scope { client: "c".into(), prefix: "p:".into(), expires_at: 0 };
        let body = json!({ "client": "c", "items": items }).to_string();
        let entries = read(body.as_bytes(), Some(&scope)).ok().unwrap().entries;
        entries
            .into_iter()
            .map(|entry| match entry {
                Entry::Rejected(_, settled) => format!("! {}", settled.error.unwrap().code),
                Entry::Item(Item { rejected: Some(settled), .. }) => settled.error.unwrap().code,
                Entry::Item(_) => "ok".to_owned(),
            })
            .collect()
    }

    #[test]
    fn what_is_wrong_with_one_item_is_its_own_result() {
        let item = |id: u64, more: Value| {
            let mut item = json!({ "id": id, "key": "p:k", "value": 1, "ts": 1 });
            item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            item
        };
        let items = json!([
            item(1, json!({})),
            item(1, json!({})),
            item(3, json!({ "key": "q" })),
            item(4, json!({ "key": "" })),
            item(5, json!({ "key": "p:".to_owned() + &"k".repeat(SYNC_KEY_BYTES_MAX) })),
            item(6, json!({ "value": "x".repeat(SYNC_VALUE_BYTES_MAX) })),
            item(7, json!({ "field": "x".repeat(SYNC_FIELD_BYTES_MAX + 1) })),
            item(8, json!({ "ts": -1 })),
            item(9, json!({ "delete": true })),
            item(10, json!({ "other": 1 })),
            item(11, json!({ "field": "f", "ifVersion": 0, "seen": 3 })),
        ]);
        let found = reasons(&items);
        let expected = [
            "ok",
            "! id_goes_back",
            "! forbidden",
            "! bad_request",
            "! too_large",
            "too_large",
            "too_large",
            "bad_request",
            "bad_request",
            "bad_request",
            "ok",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_request_that_cannot_be_trusted_is_an_error() {
        let many =
            json!({ "client": "c", "items": vec![json!({ "id": 1 }); SYNC_ITEMS_MAX + 1] }).to_string();
        for body in [
            "",
            "[]",
            "{}",
            r#"{"client":"c","items":[1]}"#,
            r#"{"client":"c","items":[{}]}"#,
            r#"{"client":"c","items":[{"id":0}]}"#,
            r#"{"client":"c","items":[{"id":9007199254740992}]}"#,
            r#"{"client":"a b","items":[]}"#,
            r#"{"client":"c","items":[],"more":1}"#,
            r#"{"client":"c","items":[],"client_ts":"now"}"#,
            r#"{"client":"c","items":[],"client_ts":null}"#,
        ] {
            assert!(matches!(read(body.as_bytes(), None), Err(ApiError::Bad(_))), "{body}");
        }
        assert!(matches!(read(many.as_bytes(), None), Err(ApiError::TooMany(_))));
        assert!(read(br#"{"client":"c","items":[]}"#, None).is_ok());
    }
}
