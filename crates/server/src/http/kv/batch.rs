//! `POST /kv:batch` with `{"operations":[{"op":"put","key":"a","value":1,"ifVersion":3}, ...]}`: up to
//! [`BATCH_OPERATIONS_MAX`] of them as one, all or nothing. Touches the one shard of their keys.
//!
//! The response is `{"results":[...]}` with an object for each operation; an error names the operation that caused it.

use hyper::StatusCode;
use keystead_commands::documents::patch::Patch;
use keystead_commands::documents::{self, Changed, Condition, DocumentChange};
use keystead_commands::idempotency::StoredResponse;
use keystead_commands::json::document;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use serde_json::{Map, Value};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::idempotency;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params::{self, Expiry, name};
use super::{response, shared};
use crate::bounds::{BATCH_OPERATIONS_MAX, REST_RESPONSE_BYTES_MAX};

/// One operation.
pub(in crate::http) struct Operation {
    pub(in crate::http) key: Bytes,
    /// Nothing: it only reads.
    change: Option<DocumentChange>,
    condition: Condition,
    expiry: Expiry,
}

pub(in super::super) async fn batch(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    Parameters::of(&request.head, &[])?;
    let operations = read(&request.body)?;
    shared::require_database(context, "changing several documents in one step")?;
    let idempotency_key = params::idempotency_key(request)?;
    let engine = &context.app.engine;
    let Some(shard) = operations.first().map(|first| engine.shard_of(&first.key)) else {
        return Err(ApiError::bad("the batch has no operations"));
    };
    context.require_served(operations.iter().map(|operation| &operation.key[..]))?;
    if operations.iter().any(|operation| engine.shard_of(&operation.key) != shard) {
        return Err(ApiError::bad("the keys of a batch must be on one shard: give them the same {tag}"));
    }
    let idempotency_key =
        idempotency_key.zip(operations.first()).map(|(one, first)| context.with_slot(one, &first.key));
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keys, now| {
        let ran = run(&operations, keys, now);
        if ran.is_err() {
            // The operations before the one that failed are undone; the stored response is kept.
            keys.rollback();
            keys.savepoint();
        }
        ran.or_else(ApiError::unless_broken).map(|stored| (stored, ()))
    });
    let (stored, ()) = ran.await?;
    Ok(reply::stored(stored))
}

fn run(operations: &[Operation], keys: &mut Keyspace, now: Millis) -> Result<StoredResponse, ApiError> {
    let mut results = Vec::with_capacity(operations.len());
    let mut bytes = 0;
    for (n, operation) in operations.iter().enumerate() {
        let result = one(operation, keys, now).map_err(|error| at(n, error))?;
        bytes += result.len();
        if bytes > REST_RESPONSE_BYTES_MAX {
            let why = format!("the response is over {REST_RESPONSE_BYTES_MAX} bytes");
            return Err(at(n, ApiError::TooLarge(why)));
        }
        results.push(result);
    }
    let body = format!("{{\"results\":[{}]}}\n", results.join(","));
    Ok(StoredResponse { status: 200, version: None, body: body.into_bytes() })
}

/// Runs one operation and returns its object.
pub(in crate::http) fn one(
    operation: &Operation,
    keys: &mut Keyspace,
    now: Millis,
) -> Result<String, ApiError> {
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
pub(in crate::http) fn at(index: usize, error: ApiError) -> ApiError {
    match error {
        ApiError::Broken(error) => ApiError::Broken(error),
        error => ApiError::Operation(index, Box::new(error)),
    }
}

fn read(body: &[u8]) -> Result<Vec<Operation>, ApiError> {
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

pub(in crate::http) fn operation(one: Value) -> Result<Operation, ApiError> {
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
pub(in crate::http) fn key(object: &mut Map<String, Value>) -> Result<Vec<u8>, ApiError> {
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
