//! `POST /kv:batch` with `{"operations":[{"op":"put","key":"a","value":1,"ifVersion":3}, ...]}`: up to
//! [`BATCH_OPERATIONS_MAX`] of them as one, all or nothing. Touches the one shard of their keys.
//!
//! The answer is `{"results":[...]}` with an object for each operation; a refusal names the operation that caused it.

use hyper::StatusCode;
use keystead_commands::documents::patch::Patch;
use keystead_commands::documents::{self, Change, Changed, Condition};
use keystead_commands::json::document;
use keystead_commands::once::Kept;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use serde_json::{Map, Value};

use super::super::here::Here;
use super::super::once;
use super::super::parameters::Parameters;
use super::super::refused::Refused;
use super::super::reply;
use super::super::request::Asked;
use super::Done;
use super::answer;
use super::asked::{self, Expiry, name};
use crate::limits::{BATCH_OPERATIONS_MAX, REST_ANSWER_BYTES_MAX};

/// One operation.
pub(in crate::http) struct Operation {
    pub(in crate::http) key: Bytes,
    /// Nothing: it only reads.
    change: Option<Change>,
    condition: Condition,
    expiry: Expiry,
}

pub(super) async fn batch(here: &Here, asked: &Asked) -> Done {
    Parameters::of(&asked.head, &[])?;
    let operations = read(&asked.body)?;
    let once = asked::once(asked)?;
    let engine = &here.app.engine;
    let Some(shard) = operations.first().map(|first| engine.shard_of(&first.key)) else {
        return Err(Refused::bad("there is no operation"));
    };
    if operations.iter().any(|operation| engine.shard_of(&operation.key) != shard) {
        return Err(Refused::bad("the keys of a batch must live together: give them the same {tag}"));
    }
    let ran = once::run_at(here, shard, once, move |keys, now| {
        let ran = run(&operations, keys, now);
        if ran.is_err() {
            // What was done before the one that is refused does not stay; what is noted of the answer does.
            keys.rollback();
            keys.savepoint();
        }
        ran.or_else(Refused::unless_broken).map(|kept| (kept, ()))
    });
    let (kept, ()) = ran.await?;
    Ok(reply::kept(kept))
}

fn run(operations: &[Operation], keys: &mut Keyspace, now: Millis) -> Result<Kept, Refused> {
    let mut results = Vec::with_capacity(operations.len());
    let mut bytes = 0;
    for (n, operation) in operations.iter().enumerate() {
        let result = one(operation, keys, now).map_err(|refused| at(n, refused))?;
        bytes += result.len();
        if bytes > REST_ANSWER_BYTES_MAX {
            let why = format!("the answer is over {REST_ANSWER_BYTES_MAX} bytes");
            return Err(at(n, Refused::TooLarge(why)));
        }
        results.push(result);
    }
    let body = format!("{{\"results\":[{}]}}\n", results.join(","));
    Ok(Kept { status: 200, version: None, body: body.into_bytes() })
}

/// Runs one operation and answers its object.
pub(in crate::http) fn one(
    operation: &Operation,
    keys: &mut Keyspace,
    now: Millis,
) -> Result<String, Refused> {
    let Operation { key, change, condition, expiry } = operation;
    let Some(change) = change else {
        let document = documents::get(keys, key, now)?;
        let current = document.as_ref().map(|document| document.version);
        if !condition.holds(current) {
            return Err(Refused::Conflict(StatusCode::CONFLICT, current));
        }
        return Ok(answer::object(key, document.as_ref()));
    };
    let expire = expiry.at(now).ok_or_else(|| Refused::bad("expiresAt has passed already"))?;
    Ok(match documents::change(keys, key, change, condition, expire, now)? {
        Changed::Done { document, .. } => answer::object(key, Some(&document)),
        Changed::Deleted => answer::object(key, None),
        Changed::Absent => return Err(Refused::not_found(key)),
        Changed::Conflict(current) => return Err(Refused::Conflict(StatusCode::CONFLICT, current)),
        Changed::TestFailed(current) => return Err(Refused::Test(current)),
        Changed::Unfit(why) => return Err(Refused::Unprocessable(why)),
        Changed::Flawed(flaw) => return Err(Refused::flaw("what it would become", &flaw)),
    })
}

/// The refusal of a batch, by the operation that caused it.
pub(in crate::http) fn at(index: usize, refused: Refused) -> Refused {
    match refused {
        Refused::Broken(error) => Refused::Broken(error),
        refused => Refused::Operation(index, Box::new(refused)),
    }
}

fn read(body: &[u8]) -> Result<Vec<Operation>, Refused> {
    const FORM: &str = "send {\"operations\":[{\"op\":\"put\",\"key\":\"a\",\"value\":1}]}";
    let body = document::parse(body).map_err(|flaw| Refused::flaw("the body", &flaw))?;
    let Value::Object(mut body) = body else { return Err(Refused::bad(FORM)) };
    let Some(Value::Array(operations)) = body.remove("operations") else { return Err(Refused::bad(FORM)) };
    if let Some(other) = body.keys().next() {
        return Err(Refused::bad(format!("the member '{other}' is unknown: {FORM}")));
    }
    if operations.len() > BATCH_OPERATIONS_MAX {
        return Err(Refused::TooLarge(format!("a batch has at most {BATCH_OPERATIONS_MAX} operations")));
    }
    operations
        .into_iter()
        .enumerate()
        .map(|(n, one)| operation(one).map_err(|refused| at(n, refused)))
        .collect()
}

pub(in crate::http) fn operation(one: Value) -> Result<Operation, Refused> {
    let Value::Object(mut one) = one else { return Err(Refused::bad("an operation is an object")) };
    let op = text(&mut one, "op")?.ok_or_else(|| Refused::bad("an operation has an \"op\""))?;
    let key = key(&mut one)?;
    asked::check(&key)?;
    let mut value = || one.remove("value").ok_or_else(|| Refused::bad(format!("\"{op}\" has a \"value\"")));
    let (change, otherwise) = match op.as_str() {
        "get" => (None, Expire::Keep),
        "delete" => (Some(Change::Delete), Expire::Keep),
        "put" => {
            let text = document::print(&value()?).map_err(|flaw| Refused::flaw("the value", &flaw))?;
            (Some(Change::Put(Bytes::from(text.into_bytes()))), Expire::At(Millis::NEVER))
        }
        "patch" => (Some(Change::Patch(Patch::Shallow(value()?))), Expire::Keep),
        other => return Err(Refused::bad(format!("\"op\" is get, put, patch or delete, not \"{other}\""))),
    };
    let condition = match one.remove(name::IF_VERSION) {
        None => Condition::Any,
        // Only an absent key has no version.
        Some(Value::Null) => Condition::Absent,
        Some(version) => match version.as_u64() {
            Some(version) => Condition::Version(vec![version]),
            None => return Err(Refused::bad("\"ifVersion\" is a version, or null for a key that is absent")),
        },
    };
    // What writes nothing has no expiry to set.
    let expiry = match change {
        Some(Change::Put(_) | Change::Patch(_)) => {
            let at = one.remove(name::EXPIRES_AT).map(|at| {
                at.as_u64().ok_or_else(|| Refused::bad("\"expiresAt\" is in milliseconds since 1970"))
            });
            asked::expiry_of(text(&mut one, name::TTL)?.as_deref(), at.transpose()?, otherwise)?
        }
        None | Some(Change::Delete) => Expiry::As(otherwise),
    };
    match one.keys().next() {
        Some(other) => Err(Refused::bad(format!("the member '{other}' is unknown here"))),
        None => Ok(Operation { key: Bytes::from(&key[..]), change, condition, expiry }),
    }
}

/// The key of an operation: text, or `{"base64":"..."}` as answers have it where a key is no text.
fn key(object: &mut Map<String, Value>) -> Result<Vec<u8>, Refused> {
    match object.remove("key") {
        Some(Value::String(text)) => Ok(text.into_bytes()),
        Some(Value::Object(key)) if key.len() == 1 => {
            let text = key.get("base64").and_then(Value::as_str);
            let bytes = text.and_then(|text| data_encoding::BASE64.decode(text.as_bytes()).ok());
            bytes.ok_or_else(|| Refused::bad("a \"key\" that is an object is {\"base64\":\"...\"}"))
        }
        Some(_) => Err(Refused::bad("a \"key\" is a string")),
        None => Err(Refused::bad("an operation has a \"key\"")),
    }
}

fn text(object: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Refused> {
    match object.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refused::bad(format!("\"{name}\" is a string"))),
    }
}
