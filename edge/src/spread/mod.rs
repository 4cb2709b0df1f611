//! A database of several objects (`OBJECTS=N`): which object a request goes to, by the hash slots of its keys. Touches the objects.
//!
//! | To find                                   | open       |
//! |-------------------------------------------|------------|
//! | calling objects, putting replies together | `call`     |
//! | where a command runs                      | `destination`    |
//! | commands, pipelines, transactions         | `commands` |
//!
//! Invariant: a key is in one object for ever. The number of objects is stored in each, and a request reaches none when the setting is
//! another number.

mod call;
mod commands;
mod destination;

use std::cell::Cell;

use http::request::Parts;
use http::{Method, StatusCode};
use keystead_core::key::{shard_of_slot, slot};
use keystead_core::{Code, Error, Result, ShardId};
use keystead_http_api::error::ApiError;
use keystead_http_api::keys::{self, Slots};
use keystead_http_api::kv::params;
use keystead_http_api::parameters::decoded;
use keystead_model::sql::{Cell as SqlCell, Param, Sql};
use worker::{Env, Request, Response};

use crate::bounds::OBJECTS_MAX;
use crate::exchange::{Reply, body_of};
use crate::gate::Api;
use call::Objects;

const OBJECTS: &str = "OBJECTS";
const ONE_OBJECT: &str = "the keys of the request must be in one object: give them the same {tag}";

const NO_STATEMENTS: &str = "a database of several objects (OBJECTS) is no storage service";

/// How many objects the setting says.
///
/// # Errors
/// `config_invalid`.
pub(crate) fn objects(env: &Env) -> Result<usize> {
    let Some(text) = env.var(OBJECTS).ok().map(|text| text.to_string()) else { return Ok(1) };
    let count = text.trim().parse().ok().filter(|count| (1..=OBJECTS_MAX).contains(count));
    let words = || format!("the variable {OBJECTS} is a number from 1 to {OBJECTS_MAX}");
    count.ok_or_else(|| Error::new(Code::ConfigInvalid, words()))
}

/// The object of a slot.
fn owner(slot: u16, objects: usize) -> usize {
    shard_of_slot(slot, objects).0
}

/// The number of the object that a request is for, as the Worker has set it.
pub(crate) fn number_of(head: &Parts) -> ShardId {
    let number = head.headers.get(call::OBJECT_NUMBER).and_then(|text| text.to_str().ok());
    ShardId(number.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Stores the number of objects in an empty database, and rejects another number later, in the caller's transaction.
pub(crate) fn check(sql: &mut dyn Sql, objects: usize) -> Result<()> {
    let read = |sql: &mut dyn Sql, query| {
        let mut found = None;
        sql.query(query, &[], &mut |cells| {
            found = match cells.first() {
                Some(SqlCell::Int(number)) => Some(*number as usize),
                Some(SqlCell::Real(number)) => Some(*number as usize),
                _ => None,
            };
            Ok(())
        })?;
        Ok::<_, Error>(found)
    };
    let stored = match read(sql, "SELECT value FROM meta WHERE name = 'objects'")? {
        None if objects == 1 => return Ok(()),
        // One that is older than the setting has all its keys in one object.
        None => read(sql, "SELECT 1 FROM keys LIMIT 1")?,
        stored => stored,
    };
    match stored {
        None => {
            let insert = "INSERT INTO meta (name, value) VALUES ('objects', ?1)";
            sql.run(insert, &[Param::Int(objects as i64)]).map(|_| ())
        }
        Some(stored) if stored == objects => Ok(()),
        Some(stored) => {
            let words = format!(
                "this database has {stored} objects, and {OBJECTS} says {objects}: set it to {stored}. To change it, copy the keys to a new deployment"
            );
            Err(Error::new(Code::ConfigInvalid, words))
        }
    }
}

thread_local! {
    /// Whether the first object has accepted the number of objects. The setting is the same for the life of this instance.
    static IS_ACCEPTED: Cell<bool> = const { Cell::new(false) };
}

/// Passes a request on to the objects of its keys.
pub(crate) async fn fetch(
    env: &Env,
    mut request: Request,
    head: &Parts,
    count: usize,
) -> worker::Result<Response> {
    let objects = Objects::of(env, &request, head, count)?;
    if !IS_ACCEPTED.get() {
        // It stores the number, or rejects another one.
        let mut first = objects.call(0, "POST", "/", Some(b"[\"PING\"]")).await?;
        if first.status_code() >= 500 {
            let body = first.bytes().await?;
            let text: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let words = text["error"].as_str().unwrap_or("ERR the first object does not reply");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return Api::of(head.uri.path()).error(status, "config_invalid", words).into_response(head);
        }
        IS_ACCEPTED.set(true);
    }
    let path = head.uri.path();
    let (api, first) = (Api::of(path), path.split('/').nth(1).unwrap_or_default());
    if matches!(first, "subscribe" | "psubscribe" | "monitor") {
        // Messages are in one object.
        return objects.pass(0, request).await;
    }
    let Some(body) = body_of(&mut request, head).await? else {
        return api.too_large().into_response(head);
    };
    let target = match api {
        Api::Upstash => return commands::respond(&objects, body).await,
        Api::Documents if path == "/kv:batch" => one_of(keys::of_operations(&body), count),
        Api::Documents => match path.strip_prefix("/kv/") {
            Some(key) => params::key(key).map(|key| owner(slot(&key), count)),
            None => return objects.list(&body).await,
        },
        Api::Limits => limit(head, &body, count),
        // A compute service would read and write the rows of one of the objects.
        Api::Statements => Err(Error::new(Code::Unsupported, NO_STATEMENTS).into()),
        _ => Ok(0),
    };
    match target {
        Ok(object) => objects.forward(object, &body).await,
        Err(error) => Reply::api_error(&error).into_response(head),
    }
}

/// The object of a body's keys. What cannot be read, the first object rejects with the right words.
fn one_of(slots: Slots, objects: usize) -> std::result::Result<usize, ApiError> {
    let mut owners = slots.unwrap_or_default().into_iter().map(|slot| owner(slot, objects));
    let first = owners.next().unwrap_or(0);
    if owners.all(|owner| owner == first) { Ok(first) } else { Err(ApiError::bad(ONE_OBJECT)) }
}

/// The object of a request to `/limit`.
fn limit(head: &Parts, body: &[u8], objects: usize) -> std::result::Result<usize, ApiError> {
    let path = head.uri.path().strip_prefix("/limit").unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    let is_post = head.method == Method::POST;
    match path.split_once('/') {
        None if path.is_empty() && is_post => one_of(keys::of_checks(body), objects),
        None if is_post => one_of(keys::of_key(body), objects),
        None => Ok(0),
        Some((_, "check")) if is_post => one_of(keys::of_keys(body), objects),
        Some(_) if is_post => one_of(keys::of_key(body), objects),
        Some((_, key)) => Ok(owner(slot(&decoded(key, false)?), objects)),
    }
}
