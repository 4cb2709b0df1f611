//! `GET /events/{prefix...}`: the event log of a sink: events after one (`since=`), or the state of all keys at one (`at=`; without either, at
//! the last one). Touches the sink's target, on the server's own runtime.

use std::sync::Arc;

use hyper::StatusCode;
use keystead_core::{Code, Error, Millis};
use keystead_sinks::log::{self, Event, EventPage, Kind, Seq, State, StatePage};
use serde_json::{Map, Value, json};
use utoipa::openapi::path::OperationBuilder;

use super::context::HttpContext;
use super::error::{ApiError, ApiResult};
use super::openapi::common::{error_response, store_failures};
use super::openapi::part::{self, Shape};
use super::parameters::{Parameters, decoded};
use super::reply::{self, code};
use super::request::HttpRequest;
use super::sinks::TAG;
use crate::app::App;
use crate::bounds::{EVENTS_BYTES_MAX, EVENTS_LIMIT, EVENTS_LIMIT_MAX};

const SINCE: &str = "since";
const AT: &str = "at";
const AFTER: &str = "after";
const LIMIT: &str = "limit";

const EVENT: &str = "Event";
const KEY_STATE: &str = "KeyState";

/// What is read.
enum Page {
    Events { since: Seq },
    States { at: Option<Seq>, after: Option<String> },
}

pub(super) async fn read(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    // A read-only token may not list all keys in any API.
    request.require_write()?;
    let parameters = Parameters::of(&request.head, &[SINCE, AT, AFTER, LIMIT])?;
    let prefix = decoded(request.path_parameter("prefix"), false)?.into_owned();
    let prefix = String::from_utf8(prefix).map_err(|_| ApiError::bad("the prefix is not text"))?;
    let limit = match parameters.number(LIMIT)? {
        None => EVENTS_LIMIT,
        Some(limit) if (1..=EVENTS_LIMIT_MAX as u64).contains(&limit) => limit as usize,
        Some(_) => return Err(ApiError::bad(format!("limit is 1 to {EVENTS_LIMIT_MAX}"))),
    };
    let after = parameters.text(AFTER)?.map(str::to_owned);
    let page = match (parameters.number(SINCE)?.map(Seq), parameters.number(AT)?.map(Seq)) {
        (Some(_), Some(_)) => return Err(ApiError::bad("there are 'since' and 'at': leave one of them out")),
        (Some(since), None) if after.is_none() => Page::Events { since },
        (Some(_), None) => {
            return Err(ApiError::bad("'after' is a key of the page before: it goes with 'at'"));
        }
        (None, at) => Page::States { at, after },
    };
    let app = Arc::clone(&context.app);
    let Some(runtime) = app.sinks.get().map(|sinks| sinks.runtime()) else { return Err(no_log(&prefix)) };
    // As all calls of targets.
    let found = runtime.spawn(async move { find(&app, &prefix, page, limit).await });
    let found = found.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string()).into()));
    Ok(reply::json(StatusCode::OK, found?))
}

fn no_log(prefix: &str) -> ApiError {
    ApiError::NotFound(format!(
        "no event log has the keys that begin with '{}': write a [sink.NAME] with mode = \"events\" and a prefix of it",
        crate::failure::one_line(prefix)
    ))
}

async fn find(app: &App, prefix: &str, page: Page, limit: usize) -> Result<Value, ApiError> {
    let running = app.sinks.get().and_then(|sinks| sinks.log_of(prefix)).ok_or_else(|| no_log(prefix))?;
    let log = running.log()?;
    Ok(match page {
        Page::Events { since } => {
            let EventPage { events, next, last } =
                log::events(log, prefix, since, limit, EVENTS_BYTES_MAX).await?;
            let events: Vec<Value> = events.into_iter().map(event).collect();
            json!({ "events": events, "next": next.0, "more": next < last })
        }
        Page::States { at, after } => {
            let StatePage { at, keys, next } =
                log::states(log, prefix, at, after.as_deref(), limit, EVENTS_BYTES_MAX).await?;
            let keys: Vec<Value> = keys.into_iter().map(|(key, found)| state(&key, found.as_ref())).collect();
            json!({ "at": at.0, "keys": keys, "after": next })
        }
    })
}

/// Without what it does not have.
fn event(event: Event) -> Value {
    let mut members = Map::new();
    members.insert("seq".to_owned(), event.seq.0.into());
    members.insert("kind".to_owned(), event.kind.as_str().into());
    members.insert("shard".to_owned(), event.shard.0.into());
    members.insert("revision".to_owned(), event.revision.0.into());
    members.insert("time".to_owned(), event.time.0.into());
    if !event.kind.is_mark() {
        members.insert("key".to_owned(), event.key.into());
        members.insert("version".to_owned(), event.version.0.into());
    }
    if let Some(of) = event.of {
        members.insert("type".to_owned(), of.into());
    }
    if let Some(value) = event.value {
        members.insert("value".to_owned(), value);
    }
    if let Some(at) = event.expires_at {
        members.insert("expiresAt".to_owned(), if at == Millis::NEVER { Value::Null } else { at.0.into() });
    }
    Value::Object(members)
}

fn state(key: &str, found: Option<&State>) -> Value {
    match found {
        Some(state) => json!({
            "key": key,
            "type": state.of,
            "value": state.json(),
            "version": state.version.0,
            "seq": state.seq.0,
        }),
        None => json!({ "key": key, "unknown": true }),
    }
}

pub(super) fn schemas() -> Vec<(&'static str, Shape)> {
    let number = || part::counter(0);
    let kinds = Kind::ALL.map(Kind::as_str);
    let event = part::required(
        part::closed()
            .property("key", part::string())
            .property("version", number())
            .property("type", part::string())
            .property("value", part::anything())
            .property("expiresAt", part::either([number().into(), part::null().into()])),
        [
            ("seq", part::counter(1).into()),
            ("kind", part::one_of(&kinds).into()),
            ("shard", number().into()),
            ("revision", number().into()),
            ("time", number().into()),
        ],
    )
    .description(Some(
        "`value`: of a `put` the value, of a `change` what was `set` and `removed`, of a `rejected` one and of marks the `reason`. `expiresAt`: the expiry that was set, or null where it was removed. `time`: when it was read from the journal, in milliseconds since 1970.",
    ));
    let state = part::required(
        part::closed()
            .property("type", part::string())
            .property("value", part::anything())
            .property("version", number())
            .property("seq", number())
            .property("unknown", part::fixed_true()),
        [("key", part::string().into())],
    )
    .description(Some(
        "`unknown`: a change of the key is not in the log. `seq`: the event that has changed it last.",
    ));
    vec![(EVENT, event.into()), (KEY_STATE, state.into())]
}

pub(super) fn describe() -> OperationBuilder {
    let number = || part::at_least(0);
    let events = part::members([
        ("events", part::list(part::named(EVENT)).into()),
        ("next", part::counter(0).into()),
        ("more", part::boolean().into()),
    ]);
    let states = part::members([
        ("at", part::counter(0).into()),
        ("keys", part::list(part::named(KEY_STATE)).into()),
        ("after", part::either([part::string().into(), part::null().into()])),
    ]);
    let limit = part::between(1, EVENTS_LIMIT_MAX as u64);
    let about = "Most events or keys; a page also ends when it is large.";
    let operation =
        part::operation(TAG, "readEvents", "The event log of a sink, or the state of its keys at an event")
            .parameter(part::in_path("prefix", "What keys begin with; it may be empty.", part::string()))
            .parameter(part::in_query(
                SINCE,
                "The events after this one: `next` of the page before, or `at` of a state.",
                number(),
            ))
            .parameter(part::in_query(
                AT,
                "The state at this event; without it and `since`, at the last one.",
                number(),
            ))
            .parameter(part::in_query(
                AFTER,
                "Of a state: `after` of the page before, with its `at`.",
                part::string(),
            ))
            .parameter(part::in_query(LIMIT, about, limit))
            .response("200", part::json("A page.", part::either([events.into(), states.into()])))
            .response(
                "400",
                error_response(
                    "A parameter is invalid, or the event does not exist yet.",
                    &[Code::BadRequest.as_str()],
                ),
            )
            .response("403", error_response("The token is read-only.", &[code::FORBIDDEN]))
            .response("404", error_response("No event log has these keys.", &[code::NOT_FOUND]))
            .response(
                "410",
                error_response(
                    "The event is before the window of the log, or in the middle of a snapshot.",
                    &[Code::Gone.as_str()],
                ),
            )
            .response(
                "413",
                error_response(
                    "A collection has had too many changes: compact the log.",
                    &[Code::TooLarge.as_str()],
                ),
            );
    part::with(operation, &store_failures())
}
