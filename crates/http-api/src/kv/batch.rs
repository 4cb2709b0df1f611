//! `POST /kv:batch` with `{"operations":[{"op":"put","key":"a","value":1,"ifVersion":3}, ...]}`: up to
//! [`BATCH_OPERATIONS_MAX`] of them as one, all or nothing. Touches the keyspace it is given.
//!
//! The response is `{"results":[...]}` with an object for each operation; an error names the operation that caused it.

use http::StatusCode;
use keystead_commands::documents::patch::Patch;
use keystead_commands::documents::{self, Changed, Condition, DocumentChange};
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::json::document;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use serde_json::{Map, Value};

use super::params::{self, Expiry, name};
use super::response;
use crate::bounds::BATCH_OPERATIONS_MAX;
use crate::error::ApiError;

/// One operation.
pub struct Operation {
    /// Its key.
    pub key: Bytes,
    /// Nothing: it only reads.
    change: Option<DocumentChange>,
    condition: Condition,
    expiry: Expiry,
}

/// Runs operations in order, and makes the response of at most so many bytes.
///
/// # Errors
/// That of the first operation that fails: the caller undoes the others.
pub fn run(
    operations: &[Operation],
    keys: &mut Keyspace,
    now: Millis,
    bytes_max: usize,
) -> Result<StoredResponse, ApiError> {
    let mut results = Vec::with_capacity(operations.len());
    let mut bytes = 0;
    for (n, operation) in operations.iter().enumerate() {
        let result = one(operation, keys, now).map_err(|error| at(n, error))?;
        bytes += result.len();
        if bytes > bytes_max {
            let why = format!("the response is over {bytes_max} bytes");
            return Err(at(n, ApiError::TooLarge(why)));
        }
        results.push(result);
    }
    let body = format!("{{\"results\":[{}]}}\n", results.join(","));
    Ok(StoredResponse { status: 200, version: None, body: body.into_bytes() })
}

/// Runs one operation and returns its object.
///
/// # Errors
/// Why it changed nothing.
pub fn one(operation: &Operation, keys: &mut Keyspace, now: Millis) -> Result<String, ApiError> {
    let Operation { key, change, condition, expiry } = operation;
    let Some(change) = change else {
        let document = documents::get(keys, key, now)?;
        let current = document.as_ref().map(|document| document.version);
        if !condition.holds(current) {
            return Err(ApiError::Conflict(StatusCode::CONFLICT, current));
        }
        return Ok(response::object(key, document.as_ref()));
    };
    let expire = expiry.at(now).ok_or_else(|| ApiError::bad("expiresAt has passed already"))?;
    Ok(match documents::change(keys, key, change, condition, expire, now)? {
        Changed::Done { document, .. } => response::object(key, Some(&document)),
        Changed::Deleted => response::object(key, None),
        Changed::Absent => return Err(ApiError::not_found(key)),
        Changed::Conflict(current) => return Err(ApiError::Conflict(StatusCode::CONFLICT, current)),
        Changed::TestFailed(current) => return Err(ApiError::Test(current)),
        Changed::Unfit(why) => return Err(ApiError::Unprocessable(why)),
        Changed::Flawed(flaw) => return Err(ApiError::flaw("the resulting document", &flaw)),
    })
}

/// The error of a batch, with the operation that caused it.
#[must_use]
pub fn at(index: usize, error: ApiError) -> ApiError {
    match error {
        ApiError::Broken(error) => ApiError::Broken(error),
        error => ApiError::Operation(index, Box::new(error)),
    }
}

/// The operations of a body.
///
/// # Errors
/// What is wrong with it, and with which of them.
pub fn read(body: &[u8]) -> Result<Vec<Operation>, ApiError> {
    const FORM: &str = "send {\"operations\":[{\"op\":\"put\",\"key\":\"a\",\"value\":1}]}";
    let body = document::parse(body).map_err(|flaw| ApiError::flaw("the body", &flaw))?;
    let Value::Object(mut body) = body else { return Err(ApiError::bad(FORM)) };
    let Some(Value::Array(operations)) = body.remove("operations") else { return Err(ApiError::bad(FORM)) };
    if let Some(other) = body.keys().next() {
        return Err(ApiError::bad(format!("the member '{other}' is unknown: {FORM}")));
    }
    if operations.len() > BATCH_OPERATIONS_MAX {
        return Err(ApiError::TooLarge(format!("a batch has at most {BATCH_OPERATIONS_MAX} operations")));
    }
    operations.into_iter().enumerate().map(|(n, one)| operation(one).map_err(|error| at(n, error))).collect()
}

/// Reads one operation.
///
/// # Errors
/// What is wrong with it.
pub fn operation(one: Value) -> Result<Operation, ApiError> {
    let Value::Object(mut one) = one else { return Err(ApiError::bad("an operation is an object")) };
    let op = text(&mut one, "op")?.ok_or_else(|| ApiError::bad("an operation has an \"op\""))?;
    let key = key(&mut one)?;
    params::check(&key)?;
    let mut value = || one.remove("value").ok_or_else(|| ApiError::bad(format!("\"{op}\" has a \"value\"")));
    let (change, otherwise) = match op.as_str() {
        "get" => (None, Expire::Keep),
        "delete" => (Some(DocumentChange::Delete), Expire::Keep),
        "put" => {
            let text = document::print(&value()?).map_err(|flaw| ApiError::flaw("the value", &flaw))?;
            (Some(DocumentChange::Put(Bytes::from(text.into_bytes()))), Expire::At(Millis::NEVER))
        }
        "patch" => (Some(DocumentChange::Patch(Patch::Shallow(value()?))), Expire::Keep),
        other => return Err(ApiError::bad(format!("\"op\" is get, put, patch or delete, not \"{other}\""))),
    };
    let condition = match one.remove(name::IF_VERSION) {
        None => Condition::Any,
        // Only an absent key has no version.
        Some(Value::Null) => Condition::Absent,
        Some(version) => match version.as_u64() {
            Some(version) => Condition::Version(vec![version]),
            None => {
                return Err(ApiError::bad("\"ifVersion\" is a version, or null for a key that is absent"));
            }
        },
    };
    // Only writes set an expiry.
    let expiry = match change {
        Some(DocumentChange::Put(_) | DocumentChange::Patch(_)) => {
            let at = one.remove(name::EXPIRES_AT).map(|at| {
                at.as_u64().ok_or_else(|| ApiError::bad("\"expiresAt\" is in milliseconds since 1970"))
            });
            params::expiry_of(text(&mut one, name::TTL)?.as_deref(), at.transpose()?, otherwise)?
        }
        None | Some(DocumentChange::Delete) => Expiry::As(otherwise),
    };
    match one.keys().next() {
        Some(other) => Err(ApiError::bad(format!("the member '{other}' is unknown for this op"))),
        None => Ok(Operation { key: Bytes::from(&key[..]), change, condition, expiry }),
    }
}

/// The key of an operation: text, or `{"base64":"..."}` as in responses, where a key is not text.
///
/// # Errors
/// When it is neither.
pub fn key(object: &mut Map<String, Value>) -> Result<Vec<u8>, ApiError> {
    match object.remove("key") {
        Some(Value::String(text)) => Ok(text.into_bytes()),
        Some(Value::Object(key)) if key.len() == 1 => {
            let text = key.get("base64").and_then(Value::as_str);
            let bytes = text.and_then(|text| data_encoding::BASE64.decode(text.as_bytes()).ok());
            bytes.ok_or_else(|| ApiError::bad("a \"key\" that is an object is {\"base64\":\"...\"}"))
        }
        Some(_) => Err(ApiError::bad("a \"key\" is a string")),
        None => Err(ApiError::bad("an operation has a \"key\"")),
    }
}

fn text(object: &mut Map<String, Value>, name: &str) -> Result<Option<String>, ApiError> {
    match object.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiError::bad(format!("\"{name}\" is a string"))),
    }
}
