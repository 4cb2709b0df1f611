//! The Upstash-compatible REST API of a router: one command, pipelines split by owner, transactions on one owner. Calls nodes.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use keystead_commands::Command;
use keystead_commands::errors::{self, Fail};
use keystead_commands::wire::json;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Router;
use super::incoming::NodeBody;
use super::keys::{self, Merge, Target};
use super::node::{CallError, Kind, Node, Outgoing};
use super::reply::{self as outgoing, words};
use crate::bounds::ROUTER_PART_BYTES_MAX;
use crate::http::reply::{self, Reply};
use crate::http::routes::Access;
use crate::http::upstash::{self, has_effect};

/// One command, in the body or in the path.
pub(super) async fn command(router: &Arc<Router>, head: &Parts, body: Bytes) -> Reply {
    let command = match upstash::command_of(head.uri.path(), &body, head.uri.query()) {
        Ok(command) => command,
        Err(words) => return bad(words),
    };
    match keys::target(command.args()) {
        Ok((spec, Target::Slot(slot))) => {
            forward(router, router.owner(slot), head, body, has_effect(spec)).await
        }
        Ok((spec, Target::Any)) => forward(router, router.any(), head, body, has_effect(spec)).await,
        Ok((spec, Target::Every(merge))) => every(router, head, body, merge, has_effect(spec)).await,
        Err(fail) => bad(&fail.line()),
    }
}

/// Several commands as a transaction, on the one owner of their keys.
pub(super) async fn transaction(router: &Arc<Router>, head: &Parts, body: Bytes) -> Reply {
    let commands = match upstash::commands_of(&body) {
        Ok(commands) => commands,
        Err(words) => return bad(words),
    };
    let mut slots = Vec::new();
    for command in commands.iter().filter(|command| !command.args().is_empty()) {
        match keys::target(command.args()) {
            Ok((_, Target::Slot(slot))) => slots.push(slot),
            Ok((_, Target::Every(_))) => return bad(ON_ITS_OWN),
            Ok((_, Target::Any)) => {}
            Err(fail) => return bad(&fail.line()),
        }
    }
    match keys::one_slot(slots) {
        Ok(slot) => {
            let node = slot.map_or_else(|| router.any(), |slot| router.owner(slot));
            forward(router, node, head, body, true).await
        }
        Err(keys::CrossSlot) => bad(&errors::CROSS_SLOT.line()),
    }
}

const ON_ITS_OWN: &str = "ERR a command about all nodes cannot be part of a pipeline or a transaction through a router: send it on its own";

fn bad(words: &str) -> Reply {
    upstash::error_words(StatusCode::BAD_REQUEST, words)
}

async fn forward(router: &Router, node: &Arc<Node>, head: &Parts, body: Bytes, has_effect: bool) -> Reply {
    match router.call(node, outgoing::to_node(head, Outgoing::Whole(body)), Kind::Call).await {
        Ok(response) => outgoing::from_node(node, response),
        Err(error) => outgoing::failed(Access::Upstash, &error, has_effect),
    }
}

/// A response that was read whole.
struct Whole {
    status: StatusCode,
    body: Bytes,
}

/// Reads a response that is put together with others.
async fn whole(node: &Node, response: Response<NodeBody>) -> Result<Whole, CallError> {
    let (head, body) = response.into_parts();
    let body = body.whole(ROUTER_PART_BYTES_MAX).await;
    let body = body.map_err(|error| CallError::Lost(format!("{}: {error}", node.shown())))?;
    Ok(Whole { status: head.status, body })
}

/// Sends a request to every node at once, and makes one reply of theirs.
async fn every(router: &Arc<Router>, head: &Parts, body: Bytes, merge: Merge, has_effect: bool) -> Reply {
    if upstash::wants_resp2(&head.headers) {
        return bad(
            "ERR a router combines the replies of all nodes as JSON only: leave Upstash-Response-Format out",
        );
    }
    let calls = router.nodes.iter().map(|node| {
        let (router, node) = (Arc::clone(router), Arc::clone(node));
        let request = outgoing::to_node(head, Outgoing::Whole(body.clone()));
        tokio::spawn(async move { whole(&node, router.call(&node, request, Kind::Call).await?).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut results = Vec::new();
    let mut failed = None;
    for call in calls {
        match call.await.unwrap_or_else(|error| Err(CallError::Lost(error.to_string()))) {
            Ok(Whole { status: StatusCode::OK, body }) => match result(&body) {
                Some(result) => results.push(result),
                None => {
                    failed = Some(upstash::error_words(StatusCode::BAD_GATEWAY, "ERR a node sent no result"));
                }
            },
            Ok(Whole { status, body }) => {
                failed =
                    Some(reply::bytes(status, HeaderValue::from_static("application/json"), body.to_vec()));
            }
            // Some nodes may have applied it.
            Err(error) => failed = Some(outgoing::failed(Access::Upstash, &error, has_effect)),
        }
    }
    if let Some(failed) = failed {
        return failed;
    }
    let merged = match merge {
        Merge::Sum => results.iter().map(Value::as_i64).sum::<Option<i64>>().map(Value::from),
        Merge::Join => {
            results.into_iter().map(array).collect::<Option<Vec<_>>>().map(|all| all.concat().into())
        }
        Merge::First => results.into_iter().next(),
    };
    match merged {
        Some(merged) => reply::text(
            StatusCode::OK,
            HeaderValue::from_static("application/json"),
            serde_json::json!({ "result": merged }).to_string(),
        ),
        None => {
            upstash::error_words(StatusCode::BAD_GATEWAY, "ERR the results of the nodes do not fit together")
        }
    }
}

fn result(body: &[u8]) -> Option<Value> {
    Some(serde_json::from_slice::<Value>(body).ok()?.get_mut("result")?.take())
}

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The commands of a pipeline for one node, by their positions.
struct Part {
    node: Arc<Node>,
    commands: Vec<usize>,
}

/// A pipeline: each owner runs its commands in order, and the replies come in the order of the request.
pub(super) async fn pipeline(router: &Arc<Router>, head: &Parts, body: Bytes) -> Reply {
    let commands = match upstash::commands_of(&body) {
        Ok(commands) => commands,
        Err(words) => return bad(words),
    };
    let mut replies: Vec<Option<Box<RawValue>>> = Vec::new();
    replies.resize_with(commands.len(), || None);
    let mut effects = vec![true; commands.len()];
    let mut parts: Vec<Part> = Vec::new();
    for (n, command) in commands.iter().enumerate() {
        let node = match placed(router, &parts, command) {
            Ok((node, has_effect)) => {
                effects[n] = has_effect;
                node
            }
            Err(fail) => {
                replies[n] = error_value(&fail.line());
                continue;
            }
        };
        match parts.iter_mut().find(|part| Arc::ptr_eq(&part.node, &node)) {
            Some(part) => part.commands.push(n),
            None => parts.push(Part { node, commands: vec![n] }),
        }
    }
    if let [part] = &parts[..]
        && part.commands.len() == commands.len()
    {
        return forward(router, &part.node, head, body, effects.contains(&true)).await;
    }
    if upstash::wants_resp2(&head.headers) {
        return bad(
            "ERR a router splits a pipeline over several nodes as JSON only: leave Upstash-Response-Format out",
        );
    }
    run_parts(router, head, &commands, parts, &effects, replies).await
}

/// The node of a command of a pipeline, and whether it may change something.
fn placed(router: &Router, parts: &[Part], command: &Command) -> Result<(Arc<Node>, bool), Fail> {
    if command.args().is_empty() {
        return Err(Fail::fixed("ERR empty pipeline command"));
    }
    let (spec, target) = keys::target(command.args())?;
    let node = match target {
        Target::Slot(slot) => router.owner(slot),
        // Where the commands before it are.
        Target::Any => parts.last().map_or_else(|| router.any(), |part| &part.node),
        Target::Every(_) => return Err(Fail::fixed(ON_ITS_OWN)),
    };
    Ok((Arc::clone(node), has_effect(spec)))
}

async fn run_parts(
    router: &Arc<Router>,
    head: &Parts,
    commands: &[Command],
    parts: Vec<Part>,
    effects: &[bool],
    mut replies: Vec<Option<Box<RawValue>>>,
) -> Reply {
    let calls: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let router = Arc::clone(router);
            let texts: Vec<Vec<_>> = part
                .commands
                .iter()
                .map(|n| commands[*n].args().from(0).map(String::from_utf8_lossy).collect())
                .collect();
            let body = serde_json::to_vec(&texts).unwrap_or_default();
            let request = outgoing::part(head, Method::POST, "/pipeline", body);
            tokio::spawn(async move {
                let called = match router.call(&part.node, request, Kind::Call).await {
                    Ok(response) => whole(&part.node, response).await,
                    Err(error) => Err(error),
                };
                (part, called)
            })
        })
        .collect();
    let (mut answered, mut last_error) = (replies.iter().any(Option::is_some), None);
    for call in calls {
        let Ok((part, called)) = call.await else { continue };
        match called {
            Ok(Whole { status: StatusCode::OK, body }) => {
                answered = true;
                let values: Vec<Box<RawValue>> = serde_json::from_slice(&body).unwrap_or_default();
                part.commands.iter().zip(values).for_each(|(n, value)| replies[*n] = Some(value));
            }
            Ok(Whole { status, body }) => {
                let text = serde_json::from_slice::<Value>(&body).ok();
                let text =
                    text.as_ref().and_then(|body| body["error"].as_str()).unwrap_or("ERR a node rejected");
                part.commands.iter().for_each(|n| replies[*n] = error_value(text));
                last_error = Some(upstash::error_words(status, text));
            }
            Err(error) => {
                let line = |n: &usize| format!("ERR {}", words(&error, effects[*n]));
                part.commands.iter().for_each(|n| replies[*n] = error_value(&line(n)));
                let has_effect = part.commands.iter().any(|n| effects[*n]);
                last_error = Some(outgoing::failed(Access::Upstash, &error, has_effect));
            }
        }
    }
    // As a single server would: nothing was answered, so the request has failed.
    if let Some(error) = last_error.filter(|_| !answered) {
        return error;
    }
    let missing =
        || error_value("ERR a node sent too few replies: it is unknown whether the command was applied");
    let replies: Vec<_> = replies.into_iter().map(|reply| reply.or_else(missing)).collect();
    let body = serde_json::to_string(&replies).unwrap_or_default();
    reply::text(StatusCode::OK, HeaderValue::from_static("application/json"), body)
}

/// `{"error":"..."}`
fn error_value(line: &str) -> Option<Box<RawValue>> {
    let mut out = Vec::new();
    json::error(line, &mut out);
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}
