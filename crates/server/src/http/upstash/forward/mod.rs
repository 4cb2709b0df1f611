//! The same requests in front of an upstream (`--upstream`): commands are sent to that server, and its replies returned.
//!
//! | To find                                    | open      |
//! |--------------------------------------------|-----------|
//! | which commands are sent, and to which node | `plan`    |
//! | its replies as ours                        | `convert` |
//! | messages as events                         | `events`  |
//!
//! Touches the upstream. Nothing is sent again that may have been applied.

mod convert;
mod events;
mod plan;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::StatusCode;
use keystead_commands::errors::{self, Fail};
use keystead_commands::hub::Hub;
use keystead_commands::spec::flag;
use keystead_commands::{Command, Reply as RedisReply};
use keystead_core::{Code, Error, Outcome, Result};
use keystead_stores::redis::{Ran, To, Value};

use super::super::context::HttpContext;
use super::super::idempotency as requests;
use super::super::reply::Reply;
use super::super::request::HttpRequest;
use super::super::rights::Rights;
use super::idempotency::{self, Shape};
use super::response::{self, FORM_HEADERS, Form};
use super::run;
use crate::upstream::Forwarder;
pub(super) use events::subscribe;
use plan::{On, Planned};

/// Runs the commands of a request on the upstream.
pub(super) async fn commands(
    context: &HttpContext,
    forwarder: &Forwarder,
    request: &HttpRequest,
    commands: Vec<Command>,
    (shape, form): (Shape, Form),
) -> Reply {
    context.app.hub.clients.commands.fetch_add(commands.len() as u64, Ordering::Relaxed);
    let on = On { is_cluster: forwarder.is_cluster(), scripts: forwarder.scripts() };
    let planned: Vec<_> =
        commands.iter().map(|command| plan::plan(request.rights, command.args(), &on)).collect();
    match requests::of(request, FORM_HEADERS) {
        Ok(Some(_)) if planned.iter().flatten().any(|planned| planned.has_effect) => return no_idempotency(),
        Err(error) => return idempotency::error_response(error),
        _ => {}
    }
    let ran = match shape {
        Shape::Transaction => transaction(context, forwarder, planned, form).await,
        Shape::One | Shape::Pipeline => pipeline(context, forwarder, planned, (shape, form)).await,
    };
    match ran {
        Ok((status, body)) => response::encoded(status, form, body),
        Err(fail) => {
            context.app.hub.stats.failed(&fail);
            response::one(&RedisReply::Error(fail), form)
        }
    }
}

/// The status and the body of a response.
type Encoded = (StatusCode, Vec<u8>);

async fn pipeline(
    context: &HttpContext,
    forwarder: &Forwarder,
    planned: Vec<Result<Planned, Fail>>,
    (shape, form): (Shape, Form),
) -> Result<Encoded, Fail> {
    let (mut calls, mut effects, mut replies) = (Vec::new(), Vec::new(), Vec::new());
    for planned in planned {
        match planned {
            Ok(planned) => {
                effects.push(planned.has_effect);
                calls.push(planned.call);
                replies.push(None);
            }
            Err(fail) => replies.push(Some(RedisReply::Error(fail))),
        }
    }
    let (hub, counted) = (Arc::clone(&context.app.hub), forwarder.clone());
    let ran = forwarder
        .run(|upstream| async move {
            let is_sent = !calls.is_empty();
            let results = upstream.pipeline(calls).await;
            if is_sent {
                counted.count(results.iter().find_map(|result| result.as_ref().err()));
            }
            if let Some(fail) = all_failed(&results, &effects) {
                return Err(fail);
            }
            let mut results = results.into_iter().zip(effects).map(|(result, has_effect)| match result {
                Ok(value) => convert::reply(value),
                Err(error) => RedisReply::Error(failed(&error, has_effect)),
            });
            let replies: Vec<RedisReply> = replies
                .into_iter()
                .map(|reply| reply.or_else(|| results.next()).unwrap_or(RedisReply::Nil))
                .collect();
            Ok(encoded(&hub, &replies, (shape, form)))
        })
        .await;
    ran.unwrap_or_else(|error| Err(failed(&error, true)))
}

/// The error of a request none of whose commands got a reply.
fn all_failed(results: &[Result<Value>], effects: &[bool]) -> Option<Fail> {
    let is_unavailable = |error: &&Error| matches!(error.code(), Code::StoreUnavailable | Code::QueueFull);
    let failures: Vec<_> =
        results.iter().map_while(|result| result.as_ref().err().filter(is_unavailable)).collect();
    if failures.is_empty() || failures.len() < results.len() {
        return None;
    }
    let mut all = failures.iter().zip(effects);
    let unknown = all.clone().find(|(error, has_effect)| **has_effect && error.outcome() == Outcome::Unknown);
    unknown.or_else(|| all.next()).map(|(error, has_effect)| failed(error, *has_effect))
}

async fn transaction(
    context: &HttpContext,
    forwarder: &Forwarder,
    planned: Vec<Result<Planned, Fail>>,
    form: Form,
) -> Result<Encoded, Fail> {
    let (mut calls, mut slot, mut has_effect) = (Vec::new(), None, false);
    for planned in planned {
        let planned = planned?;
        if planned.spec.is_some_and(|spec| spec.flags.has(flag::NO_MULTI)) {
            return Err(errors::NOT_IN_MULTI);
        }
        if let To::Each(_) = planned.to {
            return Err(EACH_IN_TRANSACTION);
        }
        for other in planned.slots {
            if slot.is_some_and(|slot| slot != other) {
                return Err(errors::CROSS_SLOT);
            }
            slot = Some(other);
        }
        has_effect |= planned.has_effect;
        calls.push(planned.call);
    }
    let (hub, counted) = (Arc::clone(&context.app.hub), forwarder.clone());
    let ran = forwarder
        .run(move |upstream| async move {
            let ran = upstream.transaction(slot, calls).await;
            counted.count(ran.as_ref().err());
            match ran {
                Ok(Ran::Replies(values)) => {
                    let replies: Vec<_> = values.into_iter().map(convert::reply).collect();
                    Ok(encoded(&hub, &replies, (Shape::Transaction, form)))
                }
                Ok(Ran::Aborted(line)) => Err(Fail::text(line)),
                Err(error) => Err(failed(&error, has_effect)),
            }
        })
        .await;
    ran.unwrap_or_else(|error| Err(failed(&error, true)))
}

const EACH_IN_TRANSACTION: Fail = Fail::fixed(
    "ERR a transaction on a cluster runs on one node: send the commands about all nodes on their own",
);

fn encoded(hub: &Hub, replies: &[RedisReply], (shape, form): (Shape, Form)) -> Encoded {
    replies.iter().for_each(|reply| run::count(hub, reply));
    match (shape, replies) {
        (Shape::One, [reply]) => response::one_in(reply, form),
        _ => response::all_in(replies, form),
    }
}

/// The error of a command without a reply.
fn failed(error: &Error, has_effect: bool) -> Fail {
    let message = error.message();
    Fail::Broken(match error.outcome() {
        Outcome::Unknown if has_effect => Error::unknown(
            error.code(),
            format!("upstream: {message}: it is unknown whether the command was applied"),
        ),
        _ => Error::new(error.code(), format!("upstream: {message}")),
    })
}

fn no_idempotency() -> Reply {
    let words =
        "ERR an Idempotency-Key needs the database of this server, and its commands are sent to an upstream";
    response::words(StatusCode::NOT_IMPLEMENTED, words)
}

/// Every command that runs: an upstream is not watched.
pub(super) fn monitor(rights: Rights) -> Reply {
    match rights {
        Rights::All => {
            let words = "ERR /monitor is not available in front of an upstream: use redis-cli MONITOR there";
            response::words(StatusCode::NOT_IMPLEMENTED, words)
        }
        Rights::ReadOnly => super::monitor_denied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable() -> Result<Value> {
        Err(Error::new(Code::StoreUnavailable, "refused"))
    }

    fn lost() -> Result<Value> {
        Err(Error::unknown(Code::StoreUnavailable, "lost"))
    }

    #[test]
    fn a_pipeline_without_any_reply_is_one_error_that_names_an_unknown_outcome() {
        let line = |results: &[Result<Value>], effects: &[bool]| {
            all_failed(results, effects).map(|fail| fail.line().into_owned())
        };
        assert_eq!(line(&[unreachable(), unreachable()], &[true, true]).unwrap(), "ERR upstream: refused");
        let unknown = "ERR upstream: lost: it is unknown whether the command was applied";
        assert_eq!(line(&[unreachable(), lost()], &[true, true]).unwrap(), unknown);
        assert_eq!(line(&[lost(), unreachable()], &[false, true]).unwrap(), "ERR upstream: lost");
        assert_eq!(line(&[Ok(Value::Nil), lost()], &[true, true]), None);
        assert_eq!(line(&[], &[]), None);
    }
}
