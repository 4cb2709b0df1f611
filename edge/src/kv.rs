//! Versioned documents on the keys of an object: `/kv/{key}`, and pages of `GET /kv`. Touches the database it is given.

use http::header::{ACCEPT, HeaderValue};
use http::{Method, StatusCode};
use keystead_commands::ctx::Rights;
use keystead_commands::documents::{self, Document};
use keystead_commands::idempotency::{IdempotencyKey, Known, StoredResponse};
use keystead_core::{Error, Millis, Result, ShardId};
use keystead_http_api::bounds::LIST_LIMIT_MAX;
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency::{self, IdempotencyError};
use keystead_http_api::kv::batch;
use keystead_http_api::kv::params::{self, Guard, Reading, name};
use keystead_http_api::kv::response::{object, response_of};
use keystead_http_api::kv::write::{self, Write};
use keystead_http_api::parameters::Parameters;
use keystead_http_api::written;
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;
use keystead_model::value::Kind;

use crate::bounds::RESPONSE_BYTES_MAX;
use crate::database::{Completion, Database};
use crate::exchange::{JSON, Reply};
use crate::object::Arrived;

const LISTING: &[&str] = &[name::PREFIX, name::LIMIT, name::CURSOR, name::VALUES];
/// The headers that matter to an idempotency key.
const SIGNIFICANT: &[&str] = &["content-type", "if-match", "if-none-match"];
/// The header with the cursor of the next page.
const CURSOR: &str = "keystead-cursor";
/// Keys on a page without a limit.
const PAGE: u64 = 1000;

pub(crate) type ApiResult = std::result::Result<Reply, ApiError>;

pub(crate) fn respond(database: &mut Database, request: &Arrived<'_>) -> ApiResult {
    let path = request.head.uri.path();
    if path == "/kv:batch" {
        return batch(database, request);
    }
    let Some(key) = path.strip_prefix("/kv/") else { return list(database, request) };
    let key = params::key(key)?;
    let write = match request.head.method {
        Method::GET | Method::HEAD => return get(database, request, &key),
        _ if request.rights == Rights::ReadOnly => return Err(ApiError::ReadOnly),
        Method::PUT => write::put(request.head, request.body)?,
        Method::PATCH => write::patch(request.head, request.body)?,
        Method::DELETE => write::delete(request.head)?,
        _ => return Err(ApiError::bad("this path takes GET, PUT, PATCH, DELETE, HEAD")),
    };
    let Write { change, guard: Guard { condition, status }, expiry, parameters } = write;
    if parameters.bytes(name::FLUSHED).is_some() {
        return Err(missing("waiting for sinks"));
    }
    let idempotency_key = idempotency::of(request.head, request.body, SIGNIFICANT)?;
    at_most_once(database, idempotency_key.as_ref(), |keys, now| {
        let change = |expire| documents::change(keys, &key, &change, &condition, expire, now);
        let changed = expiry.at(now).map(change).transpose();
        let response = changed.map(|changed| response_of(&key, changed, status));
        response.or_else(|miss| ApiError::from(miss).unless_broken())
    })
}

/// Several operations as one, all or nothing.
fn batch(database: &mut Database, request: &Arrived<'_>) -> ApiResult {
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    Parameters::of(request.head, &[])?;
    let operations = batch::read(request.body)?;
    if operations.is_empty() {
        return Err(ApiError::bad("the batch has no operations"));
    }
    let idempotency_key = idempotency::of(request.head, request.body, SIGNIFICANT)?;
    at_most_once(database, idempotency_key.as_ref(), |keys, now| {
        batch::run(&operations, keys, now, RESPONSE_BYTES_MAX)
    })
}

/// Runs a change as one transaction with its stored response, if the request has an idempotency key.
pub(crate) fn at_most_once(
    database: &mut Database,
    key: Option<&IdempotencyKey>,
    run: impl FnOnce(&mut Keyspace, Millis) -> std::result::Result<StoredResponse, ApiError>,
) -> ApiResult {
    let home = ShardId::default();
    let ran = database.transact(|open| {
        let now = open.now;
        let ran = (|| match key {
            None => run(open.keys, now),
            Some(key) => match key.look(open.keys, home, 1, now)? {
                Known::Again(stored) => Ok(stored),
                Known::Other => Err(IdempotencyError::KeyReused.into()),
                Known::New => {
                    let stored = run(open.keys, now)?;
                    if stored.is_too_large() {
                        return Err(IdempotencyError::ResponseTooLarge.into());
                    }
                    key.keep(open.keys, home, 1, &stored, now)?;
                    Ok(stored)
                }
            },
        })();
        let completion = Completion::commit_if(ran.is_ok());
        (ran, completion)
    });
    ran?.map(Reply::stored)
}

fn get(database: &mut Database, request: &Arrived<'_>, key: &Bytes) -> ApiResult {
    let accept = request.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("text/event-stream") {
        return Err(missing("streaming the changes of a document"));
    }
    let reading = Reading::of(&request.head.headers)?;
    let parameters = Parameters::of(request.head, &[name::WAIT, name::SINCE_VERSION])?;
    if parameters.bytes(name::WAIT).is_some() || parameters.bytes(name::SINCE_VERSION).is_some() {
        return Err(missing("waiting for a change"));
    }
    let found =
        database.transact(|open| (documents::get(open.keys, key, open.now), Completion::Commit))??;
    reply_of(key, found, &reading)
}

/// The response with a document.
pub(crate) fn reply_of(key: &[u8], found: Option<Document>, reading: &Reading) -> ApiResult {
    let current = found.as_ref().map(|document| document.version);
    if !reading.allows(current) {
        return Err(ApiError::Conflict(StatusCode::PRECONDITION_FAILED, current));
    }
    let document = found.ok_or_else(|| ApiError::not_found(key))?;
    let mut reply = match reading.knows(document.version) {
        true => Reply::empty(StatusCode::NOT_MODIFIED),
        false => Reply::new(StatusCode::OK, JSON, (object(key, Some(&document)) + "\n").into_bytes()),
    };
    reply.tag(document.version);
    Ok(reply)
}

/// A page of keys or documents, with the cursor of the next in a header.
fn list(database: &mut Database, request: &Arrived<'_>) -> ApiResult {
    if !matches!(request.head.method, Method::GET | Method::HEAD) {
        return Err(ApiError::bad("name a key in the path: /kv/KEY"));
    }
    // A read-only token may not list all keys in any API.
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let parameters = Parameters::of(request.head, LISTING)?;
    let limit = parameters.number(name::LIMIT)?.unwrap_or(PAGE);
    if !(1..=LIST_LIMIT_MAX as u64).contains(&limit) {
        return Err(ApiError::bad(format!("limit is 1 to {LIST_LIMIT_MAX}")));
    }
    let prefix = parameters.bytes(name::PREFIX).unwrap_or_default().to_vec();
    let (values, from) = (parameters.yes(name::VALUES)?, parameters.number(name::CURSOR)?.unwrap_or(0));
    let page = database.transact(|open| {
        let page = page(open.keys, &prefix, values, from, limit as usize, open.now);
        (page, Completion::Commit)
    })??;
    let (items, next) = page;
    let mut reply = Reply::new(StatusCode::OK, JSON, format!("[{}]\n", items.join(",")).into_bytes());
    if next != 0 {
        reply.headers.insert(CURSOR, HeaderValue::from(next));
    }
    Ok(reply)
}

/// Up to `limit` items from a cursor on, and the next cursor.
fn page(
    keys: &mut Keyspace,
    prefix: &[u8],
    values: bool,
    from: u64,
    limit: usize,
    now: Millis,
) -> Result<(Vec<String>, u64)> {
    let (mut items, mut cursor, mut bytes) = (Vec::new(), from, 0);
    loop {
        let mut names = Vec::new();
        cursor = keys.scan(cursor, limit - items.len(), now, |key, kind| {
            if matches!(kind, Kind::Json | Kind::Str)
                && key.starts_with(prefix)
                && !documents::is_internal(key)
            {
                names.push(key.clone());
            }
        })?;
        for key in names {
            let item = match values {
                false => Some(written::shown(&key).to_string()),
                // A string that is not UTF-8, or is too large for a document, is not one.
                true => shown(keys, &key, now).map(|document| object(&key, Some(&document))),
            };
            bytes += item.as_ref().map_or(0, String::len);
            items.extend(item);
        }
        if cursor == 0 || items.len() >= limit || bytes >= RESPONSE_BYTES_MAX {
            return Ok((items, cursor));
        }
    }
}

fn shown(keys: &mut Keyspace, key: &[u8], now: Millis) -> Option<Document> {
    documents::get(keys, key, now).ok().flatten()
}

/// The error for what an object does not do.
pub(crate) fn missing(what: &str) -> ApiError {
    let words = format!("{what} is not available at the edge");
    ApiError::Broken(Error::new(keystead_core::Code::Unsupported, words))
}
