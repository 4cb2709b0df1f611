//! Versioned documents on the keys of a storage service: `/kv/{key}`, and pages of `GET /kv`. Touches the queue of the keys.

use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use keystead_commands::documents::{self, Document};
use keystead_commands::idempotency::{IdempotencyKey, Known, StoredResponse};
use keystead_core::{Code, Error, Millis, Result, ShardId};
use keystead_http_api::bounds::LIST_LIMIT_MAX;
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency::{self, IdempotencyError};
use keystead_http_api::kv::params::{self, Guard, Reading, name};
use keystead_http_api::kv::response::{object, response_of};
use keystead_http_api::kv::write::{self, Write};
use keystead_http_api::parameters::Parameters;
use keystead_http_api::written;
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;
use keystead_model::value::Kind;

use super::Compute;
use super::work::{Completion, Scope};
use crate::bounds::LIST_BYTES_MAX;
use crate::http::reply::{self, Reply};
use crate::http::rights::Rights;
use crate::service::Arrived;

const LISTING: &[&str] = &[name::PREFIX, name::LIMIT, name::CURSOR, name::VALUES];
/// The headers that matter to an idempotency key.
const SIGNIFICANT: &[&str] = &["content-type", "if-match", "if-none-match"];
/// The header with the cursor of the next page.
const CURSOR: HeaderName = HeaderName::from_static("keystead-cursor");
/// Keys on a page without a limit.
const PAGE: u64 = 1000;

pub(super) type ApiResult = std::result::Result<Reply, ApiError>;

pub(super) async fn respond(compute: &Compute, request: &Arrived) -> ApiResult {
    let path = request.head.uri.path();
    if path == "/kv:batch" {
        return Err(missing(
            "changing several documents in one request: send several commands to /multi-exec",
        ));
    }
    let Some(key) = path.strip_prefix("/kv/") else { return list(compute, request).await };
    let key = params::key(key)?;
    let write = match request.head.method {
        Method::GET | Method::HEAD => return get(compute, request, key).await,
        _ if request.rights == Rights::ReadOnly => return Err(ApiError::ReadOnly),
        Method::PUT => write::put(&request.head, &request.body)?,
        Method::PATCH => write::patch(&request.head, &request.body)?,
        Method::DELETE => write::delete(&request.head)?,
        _ => return Err(ApiError::bad("this path takes GET, PUT, PATCH, DELETE, HEAD")),
    };
    let Write { change, guard: Guard { condition, status }, expiry, parameters } = write;
    if parameters.bytes(name::FLUSHED).is_some() {
        return Err(missing("waiting for sinks"));
    }
    let idempotency_key = idempotency::of(&request.head, &request.body, SIGNIFICANT)?;
    let names = vec![key.clone()];
    at_most_once(compute, names, idempotency_key, move |keys, now| {
        let change = |expire| documents::change(keys, &key, &change, &condition, expire, now);
        let changed = expiry.at(now).map(change).transpose();
        let response = changed.map(|changed| response_of(&key, changed, status));
        response.or_else(|miss| ApiError::from(miss).unless_broken())
    })
    .await
}

/// Runs a change as one transaction with its stored response, if the request has an idempotency key.
pub(super) async fn at_most_once<F>(
    compute: &Compute,
    names: Vec<Bytes>,
    key: Option<IdempotencyKey>,
    mut run: F,
) -> ApiResult
where
    F: FnMut(&mut Keyspace, Millis) -> std::result::Result<StoredResponse, ApiError> + Send + 'static,
{
    let home = ShardId::default();
    let ran = compute.database.transact(names, Scope::Names, move |open| {
        let now = open.now;
        let ran = (|| match &key {
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
    ran.await?.map(reply::stored)
}

async fn get(compute: &Compute, request: &Arrived, key: Bytes) -> ApiResult {
    let accept = request.head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("text/event-stream") {
        return Err(missing("streaming the changes of a document"));
    }
    let reading = Reading::of(&request.head.headers)?;
    let parameters = Parameters::of(&request.head, &[name::WAIT, name::SINCE_VERSION])?;
    if parameters.bytes(name::WAIT).is_some() || parameters.bytes(name::SINCE_VERSION).is_some() {
        return Err(missing("waiting for a change"));
    }
    let of = key.clone();
    let read = compute.database.transact(vec![key.clone()], Scope::Names, move |open| {
        (documents::get(open.keys, &of, open.now), Completion::Commit)
    });
    let found = read.await??;
    let current = found.as_ref().map(|document| document.version);
    if !reading.allows(current) {
        return Err(ApiError::Conflict(StatusCode::PRECONDITION_FAILED, current));
    }
    let document = found.ok_or_else(|| ApiError::not_found(&key))?;
    let mut reply = match reading.knows(document.version) {
        true => {
            let mut reply = Reply::new(Vec::new().into());
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
            reply
        }
        false => reply::json(StatusCode::OK, object(&key, Some(&document))),
    };
    reply::tag(&mut reply, document.version);
    Ok(reply)
}

/// A page of keys or documents, with the cursor of the next in a header.
async fn list(compute: &Compute, request: &Arrived) -> ApiResult {
    if !matches!(request.head.method, Method::GET | Method::HEAD) {
        return Err(ApiError::bad("name a key in the path: /kv/KEY"));
    }
    // A read-only token may not list all keys in any API.
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let parameters = Parameters::of(&request.head, LISTING)?;
    let limit = parameters.number(name::LIMIT)?.unwrap_or(PAGE);
    if !(1..=LIST_LIMIT_MAX as u64).contains(&limit) {
        return Err(ApiError::bad(format!("limit is 1 to {LIST_LIMIT_MAX}")));
    }
    let prefix = parameters.bytes(name::PREFIX).unwrap_or_default().to_vec();
    let (values, from) = (parameters.yes(name::VALUES)?, parameters.number(name::CURSOR)?.unwrap_or(0));
    let read = compute.database.transact(Vec::new(), Scope::AllKeysReadOnly, move |open| {
        let page = page(open.keys, &prefix, values, from, limit as usize, open.now);
        (page, Completion::Commit)
    });
    let (items, next) = read.await??;
    let mut reply = reply::json(StatusCode::OK, format_args!("[{}]", items.join(",")));
    if next != 0 {
        reply.headers_mut().insert(CURSOR, HeaderValue::from(next));
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
        if cursor == 0 || items.len() >= limit || bytes >= LIST_BYTES_MAX {
            return Ok((items, cursor));
        }
    }
}

fn shown(keys: &mut Keyspace, key: &[u8], now: Millis) -> Option<Document> {
    documents::get(keys, key, now).ok().flatten()
}

/// The error for what split mode does not do.
pub(super) fn missing(what: &str) -> ApiError {
    ApiError::Broken(Error::new(Code::Unsupported, format!("{what} is not available in split mode")))
}
