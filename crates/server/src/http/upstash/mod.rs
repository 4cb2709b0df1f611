//! The Upstash-compatible REST API: Redis commands over HTTP.
//!
//! | Request                            | Meaning                                  | open          |
//! |------------------------------------|------------------------------------------|---------------|
//! | `POST /` with `["SET","k","v"]`    | one command                              | `body`        |
//! | `GET /get/k`, `POST /set/k?EX=10`  | one command                              | `path`        |
//! | `POST /pipeline`                   | several commands, in order               | `run`         |
//! | `POST /multi-exec`                 | several commands as a transaction        | `run`         |
//! | `/subscribe/ch`, `/psubscribe/pat` | messages, as events                      | `subscribe`   |
//! | `/monitor`                         | every command, as events                 | `subscribe`   |
//! | any with an `Idempotency-Key`      | the same, at most once                   | `idempotency` |
//! | any, with `--upstream`             | the same on another server               | `forward`     |
//!
//! Touches the shard of its connection's loop, and the queues of others. Every response is JSON, also every error, because the
//! SDKs read nothing else; or RESP2 where a header says so.

mod forward;
mod idempotency;
pub(super) mod openapi;
mod response;
pub(super) mod run;
mod subscribe;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use keystead_commands::errors::{self, Fail};
use keystead_commands::{Command, Reply as RedisReply};
use keystead_core::Error;
pub(super) use keystead_http_api::upstash::body;
use keystead_http_api::upstash::path;
use keystead_stores::redis::Subscribed;

use super::context::HttpContext;
use super::reply::{self, Reply};
use super::request::{HttpRequest, RequestError};
use super::rights::{self, AuthError, Rights};
use body::BodyError;
use idempotency::Shape;
pub(crate) use idempotency::has_effect;
pub(crate) use path::TOKEN;
use response::Form;

pub(super) const SYNC_TOKEN: HeaderName = HeaderName::from_static(keystead_http_api::upstash::SYNC_TOKEN);

/// One command, in the body or in the path.
pub(super) async fn command(context: &HttpContext, request: &HttpRequest) -> Reply {
    let form = match Form::of(&request.head.headers) {
        Ok(form) => form,
        Err(error) => return response::bad_request(error),
    };
    let uri = &request.head.uri;
    let command = match command_of(uri.path(), &request.body, uri.query()) {
        Ok(command) => command,
        Err(words) => return response::one(&RedisReply::Error(Fail::fixed(words)), form),
    };
    if let Some(upstream) = context.app.upstream.get() {
        // Boxed, as below.
        return Box::pin(forward::commands(context, upstream, request, vec![command], (Shape::One, form)))
            .await;
    }
    match idempotency::of(request, std::slice::from_ref(&command)) {
        Ok(None) => response::one(&run::one(context, request.rights, command).await, form),
        // Boxed: it is rare, and the future of every request would be as large.
        Ok(Some(idempotency_key)) => {
            Box::pin(idempotency::run(
                context,
                request.rights,
                idempotency_key,
                vec![command],
                (Shape::One, form),
            ))
            .await
        }
        Err(error) => idempotency::error_response(error),
    }
}

/// Several commands, independent of each other.
pub(super) async fn pipeline(context: &HttpContext, request: &HttpRequest) -> Reply {
    several(context, request, Shape::Pipeline).await
}

/// Several commands as a transaction. The response is always JSON.
pub(super) async fn multi_exec(context: &HttpContext, request: &HttpRequest) -> Reply {
    several(context, request, Shape::Transaction).await
}

async fn several(context: &HttpContext, request: &HttpRequest, shape: Shape) -> Reply {
    let form = match Form::of(&request.head.headers) {
        Ok(form) if shape == Shape::Transaction => form.json(),
        Ok(form) => form,
        Err(error) => return response::bad_request(error),
    };
    let commands = match body::commands(&request.body) {
        Ok(commands) => commands,
        Err(error) => return response::one(&error_reply(error), form),
    };
    if let Some(upstream) = context.app.upstream.get() {
        // Boxed, as above.
        return Box::pin(forward::commands(context, upstream, request, commands, (shape, form))).await;
    }
    let rights = request.rights;
    match idempotency::of(request, &commands) {
        Ok(None) if shape == Shape::Transaction => match run::as_one(context, rights, commands).await {
            Ok(replies) => response::all(&replies, form),
            Err(fail) => response::one(&RedisReply::Error(fail), form),
        },
        Ok(None) => response::all(&run::all(context, rights, commands).await, form),
        // Boxed, as above.
        Ok(Some(idempotency_key)) => {
            Box::pin(idempotency::run(context, rights, idempotency_key, commands, (shape, form))).await
        }
        Err(error) => idempotency::error_response(error),
    }
}

/// Messages of channels.
pub(super) async fn subscribe(context: &HttpContext, request: &HttpRequest) -> Reply {
    match context.app.upstream.get() {
        Some(upstream) => {
            Box::pin(forward::subscribe(context, upstream, request, Subscribed::Channels)).await
        }
        None => subscribe::to_channels(context, request),
    }
}

/// Messages of all channels that match.
pub(super) async fn psubscribe(context: &HttpContext, request: &HttpRequest) -> Reply {
    match context.app.upstream.get() {
        Some(upstream) => {
            Box::pin(forward::subscribe(context, upstream, request, Subscribed::Patterns)).await
        }
        None => subscribe::to_patterns(context, request),
    }
}

/// Every command that runs. It shows what other clients send, so it needs all rights.
pub(super) async fn monitor(context: &HttpContext, request: &HttpRequest) -> Reply {
    match request.rights {
        _ if context.app.upstream.get().is_some() => forward::monitor(request.rights),
        Rights::All => subscribe::to_commands(context),
        Rights::ReadOnly => monitor_denied(),
    }
}

fn monitor_denied() -> Reply {
    response::one(&RedisReply::Error(errors::no_permission("monitor")), Form::default())
}

fn error_reply(error: BodyError) -> RedisReply {
    RedisReply::Error(Fail::fixed(error.0))
}

/// The one command of a request, or the error of the body or the path.
pub(crate) fn command_of(path: &str, body: &[u8], query: Option<&str>) -> Result<Command, &'static str> {
    keystead_http_api::upstash::command_of(path, body, query).map_err(|error| error.0)
}

/// The commands of a `/pipeline` or `/multi-exec`.
pub(crate) fn commands_of(body: &[u8]) -> Result<Vec<Command>, &'static str> {
    body::commands(body).map_err(|error| error.0)
}

/// The channels in a path, behind its first segment.
pub(crate) fn channels_of(path: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let segments = path::segments(path).map_err(|error| error.0)?;
    Ok(segments.into_iter().skip(1).map(std::borrow::Cow::into_owned).collect())
}

/// An error response with this text.
pub(crate) fn error_words(status: StatusCode, words: &str) -> Reply {
    response::words(status, words)
}

/// Whether the response is to be RESP2 instead of JSON.
pub(crate) fn wants_resp2(headers: &HeaderMap) -> bool {
    matches!(Form::of(headers), Ok(Form::Resp2))
}

/// The token in a query.
pub(crate) fn token_in(query: Option<&str>) -> Option<Vec<u8>> {
    path::token(query).map(std::borrow::Cow::into_owned)
}

/// The response for a request that does not reach its handler.
pub(crate) fn request_error(error: &RequestError) -> Reply {
    let words = match error {
        RequestError::Host(host) => format!("NOPERM {}", rights::foreign_host(host)),
        RequestError::Unauthorized(AuthError::MissingToken | AuthError::WrongToken | AuthError::ExpiredToken) => keystead_http_api::upstash::WRONG_TOKEN.to_owned(),
        RequestError::Unauthorized(AuthError::ForeignPage) => {
            "WRONGPASS a page of another site needs a token: start the server with one, for example KEYSTEAD_TOKEN=..."
                .to_owned()
        }
        RequestError::Method(allow) => format!("ERR method not allowed: use {allow}"),
        RequestError::TooLarge(most, actual) => {
            format!("ERR max request size exceeded. Limit: {most} bytes, Actual: {actual} bytes")
        }
        RequestError::Unreadable(why) => format!("ERR failed to read the request: {why}"),
        RequestError::TimedOut => "ERR the request's body did not arrive in time".to_owned(),
        RequestError::BodiesFull => format!("ERR {}", reply::bodies_full()),
    };
    let mut reply = response::words(error.status(), &words);
    if let RequestError::BodiesFull = error {
        reply.headers_mut().insert(RETRY_AFTER, reply::SOON);
    }
    reply
}

/// The response for a request while the database loads.
pub(super) fn loading() -> Reply {
    let mut reply = response::words(StatusCode::SERVICE_UNAVAILABLE, &errors::LOADING.line());
    reply.headers_mut().insert(RETRY_AFTER, reply::SOON);
    reply
}

/// The response for a request that cannot be served.
pub(super) fn failed(error: Error) -> Reply {
    response::one(&RedisReply::Error(Fail::Broken(error)), Form::default())
}

/// Adds the sync token, which is different in each response. With Upstash, a client sends it back to read from a replica that has caught
/// up with it; this server has no replicas.
pub(super) fn finish(context: &HttpContext, reply: &mut Reply) {
    if let Ok(value) = HeaderValue::try_from(context.app.next_request().to_string()) {
        reply.headers_mut().insert(SYNC_TOKEN, value);
    }
}
