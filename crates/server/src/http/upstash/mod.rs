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
//!
//! Touches the shard of its connection's loop, and the queues of others. Every response is JSON, also every error, because the
//! SDKs read nothing else; or RESP2 where a header says so.

pub(super) mod body;
mod idempotency;
pub(super) mod openapi;
mod path;
mod response;
pub(super) mod run;
mod subscribe;

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use keystead_commands::Reply as RedisReply;
use keystead_commands::errors::{self, Fail};
use keystead_core::Error;

use super::context::HttpContext;
use super::reply::{self, Reply};
use super::request::{HttpRequest, RequestError};
use super::rights::{self, AuthError, Rights};
use body::BodyError;
use idempotency::Shape;
pub(super) use path::TOKEN;
use response::Form;

pub(super) const SYNC_TOKEN: HeaderName = HeaderName::from_static("upstash-sync-token");

/// One command, in the body or in the path.
pub(super) async fn command(context: &HttpContext, request: &HttpRequest) -> Reply {
    let form = match Form::of(&request.head.headers) {
        Ok(form) => form,
        Err(error) => return response::bad_request(error),
    };
    let path = request.head.uri.path();
    let command = if path == "/" && !request.body.is_empty() {
        body::command(&request.body)
    } else {
        path::command(path, &request.body, request.head.uri.query())
    };
    let command = match command {
        Ok(command) => command,
        Err(error) => return response::one(&error_reply(error), form),
    };
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
    let form = match Form::of(&request.head.headers) {
        Ok(form) => form,
        Err(error) => return response::bad_request(error),
    };
    let commands = match body::commands(&request.body) {
        Ok(commands) => commands,
        Err(error) => return response::one(&error_reply(error), form),
    };
    match idempotency::of(request, &commands) {
        Ok(None) => response::all(&run::all(context, request.rights, commands).await, form),
        Ok(Some(idempotency_key)) => {
            Box::pin(idempotency::run(
                context,
                request.rights,
                idempotency_key,
                commands,
                (Shape::Pipeline, form),
            ))
            .await
        }
        Err(error) => idempotency::error_response(error),
    }
}

/// Several commands as a transaction. The response is always JSON.
pub(super) async fn multi_exec(context: &HttpContext, request: &HttpRequest) -> Reply {
    let form = match Form::of(&request.head.headers) {
        Ok(form) => form.json(),
        Err(error) => return response::bad_request(error),
    };
    let commands = match body::commands(&request.body) {
        Ok(commands) => commands,
        Err(error) => return response::one(&error_reply(error), form),
    };
    match idempotency::of(request, &commands) {
        Ok(None) => match run::as_one(context, request.rights, commands).await {
            Ok(replies) => response::all(&replies, form),
            Err(fail) => response::one(&RedisReply::Error(fail), form),
        },
        Ok(Some(idempotency_key)) => {
            Box::pin(idempotency::run(
                context,
                request.rights,
                idempotency_key,
                commands,
                (Shape::Transaction, form),
            ))
            .await
        }
        Err(error) => idempotency::error_response(error),
    }
}

/// Messages of channels.
pub(super) async fn subscribe(context: &HttpContext, request: &HttpRequest) -> Reply {
    subscribe::to_channels(context, request)
}

/// Messages of all channels that match.
pub(super) async fn psubscribe(context: &HttpContext, request: &HttpRequest) -> Reply {
    subscribe::to_patterns(context, request)
}

/// Every command that runs. It shows what other clients send, so it needs all rights.
pub(super) async fn monitor(context: &HttpContext, request: &HttpRequest) -> Reply {
    match request.rights {
        Rights::All => subscribe::to_commands(context),
        Rights::ReadOnly => {
            response::one(&RedisReply::Error(errors::no_permission("monitor")), Form::default())
        }
    }
}

fn error_reply(error: BodyError) -> RedisReply {
    RedisReply::Error(Fail::fixed(error.0))
}

/// The token in a query.
pub(super) fn token_in(query: Option<&str>) -> Option<Vec<u8>> {
    path::token(query).map(std::borrow::Cow::into_owned)
}

/// The response for a request that does not reach its handler.
pub(super) fn request_error(error: &RequestError) -> Reply {
    let words = match error {
        RequestError::Host(host) => format!("NOPERM {}", rights::foreign_host(host)),
        RequestError::Unauthorized(AuthError::MissingToken | AuthError::WrongToken) => "WRONGPASS invalid or missing auth token".to_owned(),
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
    };
    response::words(error.status(), &words)
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
    reply.body_mut().count_waiting(&context.app.hub.waiting);
}
