//! The Upstash-compatible REST API of a router: one command, pipelines split by owner, transactions on one owner. Calls nodes.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use keystead_commands::Command;
use keystead_commands::errors::{self, Fail};
use keystead_commands::wire::json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Router;
use super::incoming::NodeBody;
use super::keys::{self, Merge, Target};
use super::map::Map;
use super::node::{CallError, Kind, Node, Outgoing};
use super::redirect::{Attempts, Redirect, Replay};
use super::reply::{self as outgoing, words};
use super::scan::{self, is_scan};
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
    if is_scan(&command) {
        return scan::scan(router, head, &command).await;
    }
    match keys::target(command.args()) {
        Ok((spec, Target::Slot(slot))) => to_owner(router, slot, head, body, has_effect(spec)).await,
        Ok((spec, Target::Any)) => to_any(router, head, body, has_effect(spec)).await,
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
            Err(_) if is_scan(command) => return bad(ON_ITS_OWN),
            Err(fail) => return bad(&fail.line()),
        }
    }
    match keys::one_slot(slots) {
        Ok(Some(slot)) => to_owner(router, slot, head, body, true).await,
        Ok(None) => to_any(router, head, body, true).await,
        Err(keys::CrossSlot) => bad(&errors::CROSS_SLOT.line()),
    }
}

const ON_ITS_OWN: &str = "ERR a command about all nodes cannot be part of a pipeline or a transaction through a router: send it on its own";

pub(super) fn bad(words: &str) -> Reply {
    upstash::error_words(StatusCode::BAD_REQUEST, words)
}

async fn to_owner(router: &Router, slot: u16, head: &Parts, body: Bytes, has_effect: bool) -> Reply {
    let request = |body| outgoing::to_node(head, body);
    match router.call_owner(slot, Replay::Whole(body), Kind::Call, request).await {
        Ok((node, response)) => outgoing::from_node(&node, response),
        Err(error) => outgoing::failed(Access::Upstash, &error, has_effect),
    }
}

async fn to_any(router: &Router, head: &Parts, body: Bytes, has_effect: bool) -> Reply {
    match router.any() {
        Ok(node) => forward(router, &node, head, body, has_effect).await,
        Err(error) => outgoing::failed(Access::Upstash, &error, has_effect),
    }
}

async fn forward(router: &Router, node: &Arc<Node>, head: &Parts, body: Bytes, has_effect: bool) -> Reply {
    match router.call(node, outgoing::to_node(head, Outgoing::Whole(body)), Kind::Call).await {
        Ok(response) => outgoing::from_node(node, response),
        Err(error) => outgoing::failed(Access::Upstash, &error, has_effect),
    }
}

/// A response that was read whole.
pub(super) struct Whole {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Reads a response that is put together with others.
pub(super) async fn whole(node: &Node, response: Response<NodeBody>) -> Result<Whole, CallError> {
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
    let map = router.map();
    let calls = map.nodes.iter().map(|node| {
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

/// A pipeline and the replies to its commands so far.
struct Pipeline<'a> {
    router: &'a Arc<Router>,
    head: &'a Parts,
    commands: Vec<Command>,
    replies: Vec<Option<Box<RawValue>>>,
    /// Whether a command may change something.
    effects: Vec<bool>,
    /// The slot of a command on keys.
    slots: Vec<Option<u16>>,
    /// Whether a node has replied, or the router for it.
    is_answered: bool,
    last_error: Option<Reply>,
}

/// A pipeline: each owner runs its commands in order, and the replies come in the order of the request.
pub(super) async fn pipeline(router: &Arc<Router>, head: &Parts, body: Bytes) -> Reply {
    let commands = match upstash::commands_of(&body) {
        Ok(commands) => commands,
        Err(words) => return bad(words),
    };
    let count = commands.len();
    let mut pipeline = Pipeline {
        router,
        head,
        commands,
        replies: Vec::new(),
        effects: vec![true; count],
        slots: vec![None; count],
        is_answered: false,
        last_error: None,
    };
    pipeline.replies.resize_with(count, || None);
    let map = router.map();
    let parts = pipeline.parts(&map, (0..count).collect());
    let wants_resp2 = upstash::wants_resp2(&head.headers);
    if let [part] = &parts[..]
        && part.commands.len() == count
        && (wants_resp2 || !map.is_cluster())
    {
        return forward(router, &part.node, head, body, pipeline.effects.contains(&true)).await;
    }
    if wants_resp2 {
        return bad(
            "ERR a router splits a pipeline over several nodes as JSON only: leave Upstash-Response-Format out",
        );
    }
    pipeline.run(map, parts).await
}

impl Pipeline<'_> {
    /// Shares commands out to their owners. Those that run nowhere get their error.
    fn parts(&mut self, map: &Map, commands: Vec<usize>) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for n in commands {
            match self.placed(map, &parts, n) {
                Ok(node) => match parts.iter_mut().find(|part| Arc::ptr_eq(&part.node, &node)) {
                    Some(part) => part.commands.push(n),
                    None => parts.push(Part { node, commands: vec![n] }),
                },
                Err(fail) => {
                    self.is_answered = true;
                    self.replies[n] = error_value(&fail.line());
                }
            }
        }
        parts
    }

    /// The node of a command.
    fn placed(&mut self, map: &Map, parts: &[Part], n: usize) -> Result<Arc<Node>, Fail> {
        let command = &self.commands[n];
        if command.args().is_empty() {
            return Err(Fail::fixed("ERR empty pipeline command"));
        }
        if is_scan(command) {
            return Err(Fail::fixed(ON_ITS_OWN));
        }
        let (spec, target) = keys::target(command.args())?;
        self.effects[n] = has_effect(spec);
        let node = match target {
            Target::Slot(slot) => {
                self.slots[n] = Some(slot);
                map.owner(slot)
            }
            // Where the commands before it are.
            Target::Any => parts.last().map(|part| &part.node).or_else(|| map.any()),
            Target::Every(_) => return Err(Fail::fixed(ON_ITS_OWN)),
        };
        node.cloned().ok_or(errors::SLOT_NOT_SERVED)
    }

    async fn run(mut self, mut map: Arc<Map>, mut parts: Vec<Part>) -> Reply {
        let mut attempts = Attempts::begin();
        loop {
            self.run_parts(std::mem::take(&mut parts)).await;
            let again = if map.is_cluster() { self.redirected() } else { Vec::new() };
            // Later commands must not overtake these, so they keep their place in the order of the request.
            if again.is_empty() || attempts.again(self.router, false).await.is_err() {
                return self.reply();
            }
            map = self.router.map();
            parts = self.parts(&map, again);
        }
    }

    /// The commands that were not applied because their slot moves, unless a later one of the same slot was.
    fn redirected(&self) -> Vec<usize> {
        let is_redirect = |n: &usize| {
            self.replies[*n].as_ref().is_some_and(|reply| {
                let line = serde_json::from_str::<ErrorReply>(reply.get()).map(|reply| reply.error);
                line.is_ok_and(|line| Redirect::of_line(&line).is_some())
            })
        };
        let all: Vec<usize> = (0..self.commands.len()).filter(is_redirect).collect();
        let is_overtaken = |n: &&usize| {
            let later = (**n + 1..self.commands.len()).filter(|later| self.slots[*later] == self.slots[**n]);
            later.into_iter().any(|later| all.binary_search(&later).is_err())
        };
        all.iter().filter(|n| self.slots[**n].is_some() && !is_overtaken(n)).copied().collect()
    }

    async fn run_parts(&mut self, parts: Vec<Part>) {
        let calls: Vec<_> = parts
            .into_iter()
            .map(|part| {
                let router = Arc::clone(self.router);
                let texts: Vec<Vec<_>> = part
                    .commands
                    .iter()
                    .map(|n| self.commands[*n].args().from(0).map(String::from_utf8_lossy).collect())
                    .collect();
                let body = serde_json::to_vec(&texts).unwrap_or_default();
                let request = outgoing::part(self.head, Method::POST, "/pipeline", body);
                tokio::spawn(async move {
                    let called = match router.call(&part.node, request, Kind::Call).await {
                        Ok(response) => whole(&part.node, response).await,
                        Err(error) => Err(error),
                    };
                    (part, called)
                })
            })
            .collect();
        for call in calls {
            if let Ok((part, called)) = call.await {
                self.take(&part, called);
            }
        }
    }

    /// Takes the replies of one node.
    fn take(&mut self, part: &Part, called: Result<Whole, CallError>) {
        match called {
            Ok(Whole { status: StatusCode::OK, body }) => {
                self.is_answered = true;
                let values: Vec<Box<RawValue>> = serde_json::from_slice(&body).unwrap_or_default();
                part.commands.iter().zip(values).for_each(|(n, value)| self.replies[*n] = Some(value));
            }
            Ok(Whole { status, body }) => {
                let text = serde_json::from_slice::<Value>(&body).ok();
                let text =
                    text.as_ref().and_then(|body| body["error"].as_str()).unwrap_or("ERR a node rejected");
                part.commands.iter().for_each(|n| self.replies[*n] = error_value(text));
                self.last_error = Some(upstash::error_words(status, text));
            }
            Err(error) => {
                let line = |n: &usize| format!("ERR {}", words(&error, self.effects[*n]));
                part.commands.iter().for_each(|n| self.replies[*n] = error_value(&line(n)));
                let has_effect = part.commands.iter().any(|n| self.effects[*n]);
                self.last_error = Some(outgoing::failed(Access::Upstash, &error, has_effect));
            }
        }
    }

    fn reply(self) -> Reply {
        // As a single server would: nothing was answered, so the request has failed.
        if let Some(error) = self.last_error.filter(|_| !self.is_answered) {
            return error;
        }
        let missing =
            || error_value("ERR a node sent too few replies: it is unknown whether the command was applied");
        let replies: Vec<_> = self.replies.into_iter().map(|reply| reply.or_else(missing)).collect();
        let body = serde_json::to_string(&replies).unwrap_or_default();
        reply::text(StatusCode::OK, HeaderValue::from_static("application/json"), body)
    }
}

/// `{"error":"..."}`, as a node sends it.
#[derive(Deserialize)]
struct ErrorReply {
    error: String,
}

/// `{"error":"..."}`
fn error_value(line: &str) -> Option<Box<RawValue>> {
    let mut out = Vec::new();
    json::error(line, &mut out);
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}
