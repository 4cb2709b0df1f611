//! The REST door: Redis over HTTP, as Upstash has it.
//!
//! | Request                            | Meaning                                     | open     |
//! |------------------------------------|---------------------------------------------|----------|
//! | `POST /` with `["SET","k","v"]`    | one command                                 | `body`   |
//! | `GET /get/k`, `POST /set/k?EX=10`  | one command                                 | `path`   |
//! | `POST /pipeline`                   | several, in order, each for itself          | `run`    |
//! | `POST /multi-exec`                 | several as one                              | `run`    |
//! | `/subscribe/ch`, `/psubscribe/pat` | messages, as events                         | `listen` |
//! | `/monitor`                         | every command, as events                    | `listen` |
//! | any that changes, with a name      | the same, but once                          | `named`  |
//!
//! Touches the shard of its connection's loop, and the queues of others. Every answer is JSON, also every refusal, because the
//! SDKs read nothing else; or RESP2 where that is asked for.

pub(super) mod body;
mod idempotency;
mod listen;
pub(super) mod openapi;
mod path;
mod response;
pub(super) mod run;

use hyper::header::{HeaderName, HeaderValue};
use keystead_commands::Reply as RedisReply;
use keystead_commands::errors::{self, Fail};
use keystead_core::Error;

use super::context::HttpContext;
use super::reply::Reply;
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
        // In a box: hardly anybody asks for it, and everybody's future would be as large.
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

/// Several commands, each for itself.
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

/// Several commands as one. Its answer is JSON, whatever is asked for.
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
    listen::to_channels(context, request)
}

/// Messages of all channels that match.
pub(super) async fn psubscribe(context: &HttpContext, request: &HttpRequest) -> Reply {
    listen::to_patterns(context, request)
}

/// Every command that runs. It shows what others send, so it takes all rights.
pub(super) async fn monitor(context: &HttpContext, request: &HttpRequest) -> Reply {
    match request.rights {
        Rights::All => listen::to_commands(context),
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

/// The answer to a request that is not even run.
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

/// The answer to a request that cannot be served.
pub(super) fn failed(error: Error) -> Reply {
    response::one(&RedisReply::Error(Fail::Broken(error)), Form::default())
}

/// What every answer brings: a token that is another with each request. A client that brings it back may read from any
/// replica that has caught up with it; here there is one, and it is never behind.
pub(super) fn finish(context: &HttpContext, reply: &mut Reply) {
    if let Ok(value) = HeaderValue::try_from(context.app.next_request().to_string()) {
        reply.headers_mut().insert(SYNC_TOKEN, value);
    }
    reply.body_mut().count_waiting(&context.app.hub.waiting);
}
