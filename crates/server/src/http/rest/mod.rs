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

mod answer;
pub(super) mod body;
pub(super) mod described;
mod listen;
mod named;
mod path;
pub(super) mod run;

use hyper::header::{HeaderName, HeaderValue};
use keystead_commands::Reply as Answer;
use keystead_commands::errors::{self, Fail};
use keystead_core::Error;

use super::here::Here;
use super::reply::Reply;
use super::request::{Asked, Refusal};
use super::rights::{self, Rights, Stranger};
use answer::Form;
use body::Refused;
use named::Shape;
pub(super) use path::TOKEN;

pub(super) const SYNC_TOKEN: HeaderName = HeaderName::from_static("upstash-sync-token");

/// One command, in the body or in the path.
pub(super) async fn command(here: &Here, asked: &Asked) -> Reply {
    let form = match Form::of(&asked.head.headers) {
        Ok(form) => form,
        Err(refused) => return answer::refused(refused),
    };
    let path = asked.head.uri.path();
    let command = if path == "/" && !asked.body.is_empty() {
        body::command(&asked.body)
    } else {
        path::command(path, &asked.body, asked.head.uri.query())
    };
    let command = match command {
        Ok(command) => command,
        Err(refused) => return answer::one(&refusal(refused), form),
    };
    match named::of(asked, std::slice::from_ref(&command)) {
        Ok(None) => answer::one(&run::one(here, asked.rights, command).await, form),
        // In a box: hardly anybody asks for it, and everybody's future would be as large.
        Ok(Some(once)) => {
            Box::pin(named::run(here, asked.rights, once, vec![command], (Shape::One, form))).await
        }
        Err(misused) => named::refused(misused),
    }
}

/// Several commands, each for itself.
pub(super) async fn pipeline(here: &Here, asked: &Asked) -> Reply {
    let form = match Form::of(&asked.head.headers) {
        Ok(form) => form,
        Err(refused) => return answer::refused(refused),
    };
    let commands = match body::commands(&asked.body) {
        Ok(commands) => commands,
        Err(refused) => return answer::one(&refusal(refused), form),
    };
    match named::of(asked, &commands) {
        Ok(None) => answer::all(&run::all(here, asked.rights, commands).await, form),
        Ok(Some(once)) => {
            Box::pin(named::run(here, asked.rights, once, commands, (Shape::Pipeline, form))).await
        }
        Err(misused) => named::refused(misused),
    }
}

/// Several commands as one. Its answer is JSON, whatever is asked for.
pub(super) async fn multi_exec(here: &Here, asked: &Asked) -> Reply {
    let form = match Form::of(&asked.head.headers) {
        Ok(form) => form.json(),
        Err(refused) => return answer::refused(refused),
    };
    let commands = match body::commands(&asked.body) {
        Ok(commands) => commands,
        Err(refused) => return answer::one(&refusal(refused), form),
    };
    match named::of(asked, &commands) {
        Ok(None) => match run::as_one(here, asked.rights, commands).await {
            Ok(replies) => answer::all(&replies, form),
            Err(fail) => answer::one(&Answer::Error(fail), form),
        },
        Ok(Some(once)) => {
            Box::pin(named::run(here, asked.rights, once, commands, (Shape::Transaction, form))).await
        }
        Err(misused) => named::refused(misused),
    }
}

/// Messages of channels.
pub(super) async fn subscribe(here: &Here, asked: &Asked) -> Reply {
    listen::to_channels(here, asked)
}

/// Messages of all channels that match.
pub(super) async fn psubscribe(here: &Here, asked: &Asked) -> Reply {
    listen::to_patterns(here, asked)
}

/// Every command that runs. It shows what others send, so it takes all rights.
pub(super) async fn monitor(here: &Here, asked: &Asked) -> Reply {
    match asked.rights {
        Rights::All => listen::to_commands(here),
        Rights::ReadOnly => answer::one(&Answer::Error(errors::no_permission("monitor")), Form::default()),
    }
}

fn refusal(refused: Refused) -> Answer {
    Answer::Error(Fail::fixed(refused.0))
}

/// The token in a query.
pub(super) fn token_in(query: Option<&str>) -> Option<Vec<u8>> {
    path::token(query).map(std::borrow::Cow::into_owned)
}

/// The answer to a request that is not even run.
pub(super) fn refused(refusal: &Refusal) -> Reply {
    let words = match refusal {
        Refusal::Host(host) => format!("NOPERM {}", rights::foreign_host(host)),
        Refusal::Stranger(Stranger::Token | Stranger::Wrong) => "WRONGPASS invalid or missing auth token".to_owned(),
        Refusal::Stranger(Stranger::Page) => {
            "WRONGPASS a page of another site needs a token: start the server with one, for example KEYSTEAD_TOKEN=..."
                .to_owned()
        }
        Refusal::Method(allow) => format!("ERR method not allowed: use {allow}"),
        Refusal::TooLarge(most, actual) => {
            format!("ERR max request size exceeded. Limit: {most} bytes, Actual: {actual} bytes")
        }
        Refusal::Unreadable(why) => format!("ERR failed to read the request: {why}"),
        Refusal::TimedOut => "ERR the request's body did not arrive in time".to_owned(),
    };
    answer::words(refusal.status(), &words)
}

/// The answer to a request that cannot be served.
pub(super) fn failed(error: Error) -> Reply {
    answer::one(&Answer::Error(Fail::Broken(error)), Form::default())
}

/// What every answer brings: a token that is another with each request. A client that brings it back may read from any
/// replica that has caught up with it; here there is one, and it is never behind.
pub(super) fn finish(here: &Here, reply: &mut Reply) {
    if let Ok(value) = HeaderValue::try_from(here.app.next_request().to_string()) {
        reply.headers_mut().insert(SYNC_TOKEN, value);
    }
    reply.body_mut().count_waiting(&here.app.hub.waiting);
}
