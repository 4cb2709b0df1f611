//! `POST /limit`: a check of several policies, and a write in the same atomic step. Touches the stores of the policies.
//!
//! ```json
//! {"rule":"all","checks":[{"policy":"user","key":"ada"},{"policy":"everybody","key":"all","cost":2}],
//!  "then":{"commands":[["LPUSH","jobs","1"]]}}
//! ```
//!
//! All policies decide first, and only if the rule admits the request is anything consumed or written. On one shard of the database
//! that is one step; policies on other stores are checked in turn, and what was consumed in vain is refunded.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::idempotency::{IdempotencyKey, StoredResponse};
use keystead_commands::json::document;
use keystead_commands::session::Queued;
use keystead_commands::spec::{Run, flag};
use keystead_commands::wire::json::{self as wire, Strings};
use keystead_commands::{Ctx, Random, Reply as RedisReply, ctx::Dialect, ctx::Publication};
use keystead_core::{Millis, Result as Applied, ShardId, Stopwatch};
use keystead_limit::bounds::COMBINED_MAX;
use keystead_limit::fail_mode::is_broken;
use keystead_limit::{Decision, Question, Rule};
use keystead_model::keyspace::{Held, Keyspace};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::idempotency;
use super::super::kv::batch::{self, Operation};
use super::super::kv::shared;
use super::super::reply::{self, Reply};
use super::super::request::HttpRequest;
use super::super::upstash;
use super::params;
use super::run::{self, Ran};
use super::{find_policy, question, response};
use crate::bounds::{REST_RESPONSE_BYTES_MAX, THEN_MAX};
use crate::call::target::shard_of_queue;
use crate::policies::active::ActivePolicy;
use crate::written::{self, KeyText, Object};
use keystead_commands::transaction::run_queue;

const FORM: &str = r#"{"checks":[{"policy":"user","key":"ada"},{"policy":"all","key":"all"}]}"#;
const ON_SEVERAL_SHARDS: &str =
    "the keys of the limits and of the writes must be on one shard: give them the same {tag}";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(default)]
    rule: Word,
    #[serde(borrow)]
    checks: Vec<Object<One<'a>>>,
    #[serde(borrow, default)]
    then: Option<Object<ThenText<'a>>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    #[default]
    All,
    Any,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One<'a> {
    policy: String,
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "params::one", deserialize_with = "written::whole")]
    cost: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThenText<'a> {
    #[serde(borrow, default)]
    commands: Option<&'a RawValue>,
    #[serde(borrow, default)]
    operations: Option<&'a RawValue>,
}

/// What is written if the rule admits the request.
enum Then {
    Nothing,
    Commands(Vec<Queued>),
    Operations(Vec<Operation>),
}

/// The parts of a request.
struct Plan<'a> {
    idempotency_key: Option<IdempotencyKey>,
    rule: Rule,
    limits: &'a [(Arc<ActivePolicy>, Question)],
    then: Then,
    denial: StatusCode,
}

/// Its result.
struct CombinedResult {
    decisions: Vec<Decision>,
    now: Millis,
    /// The results of the writes, as JSON.
    results: Option<Vec<String>>,
    publish: Vec<Publication>,
}

pub(in super::super) async fn combined(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    let denial = params::denial(&request.head)?;
    let body: Body<'_> = params::body(&request.body, FORM)?;
    if body.checks.is_empty() || body.checks.len() > COMBINED_MAX {
        return Err(ApiError::bad(format!(
            "there are 1 to {COMBINED_MAX} checks, not {}",
            body.checks.len()
        )));
    }
    let rule = match body.rule {
        Word::All => Rule::All,
        Word::Any => Rule::Any,
    };
    let mut limits = Vec::with_capacity(body.checks.len());
    for Object(one) in &body.checks {
        let active = find_policy(context, &one.policy)?;
        let question = question(&active, &one.key.0, one.cost)?;
        limits.push((active, question));
    }
    let idempotency_key = run::idempotency_key_of(request, limits.iter().map(|(active, _)| &**active))?;
    let then = then(context, request, body.then.as_ref().map(|then| &then.0))?;
    let plan = Plan { idempotency_key, rule, limits: &limits, then, denial };
    let stopwatch = Stopwatch::start();
    let ran = match decide(context, plan).await {
        Ok(Ran::Stored(stored)) => return Ok(stored_reply(&limits, stored, context.app.now())),
        Ok(Ran::New(result)) => Ok(result),
        Err(error) => Err(error),
    };
    count(rule, &limits, &body.checks, &ran, stopwatch.elapsed());
    let result = ran?;
    context.caller.borrow().publish(&result.publish);
    let names: Vec<&str> = limits.iter().map(|(active, _)| active.definition.name.as_str()).collect();
    let (position, binding, text) = text(rule, &names, &result)?;
    let mut reply = reply::json(response::status(&binding, denial), text);
    response::headers(&mut reply, &limits[position].0, &binding, result.now);
    Ok(reply)
}

/// The stored response again, with the headers of the binding policy.
fn stored_reply(limits: &[(Arc<ActivePolicy>, Question)], stored: StoredResponse, now: Millis) -> Reply {
    // With this parser, because the response contains values of the client.
    let response = document::parse(&stored.body).ok();
    let name = response.as_ref().and_then(|response| response["policy"].as_str());
    match limits.iter().find(|(active, _)| Some(active.definition.name.as_str()) == name) {
        Some((active, _)) => response::stored_reply(active, stored, now),
        None => reply::stored(stored),
    }
}

/// Counts the decision of each policy. One that would have admitted the request, which another denied, is not counted.
fn count(
    rule: Rule,
    limits: &[(Arc<ActivePolicy>, Question)],
    checks: &[Object<One<'_>>],
    ran: &Result<CombinedResult, ApiError>,
    took: Duration,
) {
    let of = limits.iter().zip(checks).map(|((active, _), Object(one))| (active, &*one.key.0));
    match ran {
        Ok(result) => {
            let admitted = rule.admits(&result.decisions);
            for ((active, key), decision) in of.zip(&result.decisions) {
                if admitted || !decision.allowed {
                    active.count(key, Ok(decision));
                }
            }
        }
        // An invalid request, or an error of its writes, is not an error of a policy.
        Err(ApiError::Broken(error)) if is_broken(error) => {
            of.for_each(|(active, key)| active.count(key, Err(error)));
        }
        Err(_) => return,
    }
    for (n, (active, _)) in limits.iter().enumerate() {
        // The time of a policy that checks several keys is counted once.
        if !limits[..n].iter().any(|(before, _)| Arc::ptr_eq(before, active)) {
            active.observe(took);
        }
    }
}

/// The text of the response, with the binding decision and its position.
fn text(rule: Rule, names: &[&str], result: &CombinedResult) -> Result<(usize, Decision, String), ApiError> {
    let Some((position, binding)) = rule.binding(&result.decisions) else {
        return Err(ApiError::bad("there are no checks"));
    };
    let mut parts = Vec::with_capacity(names.len());
    for (name, decision) in names.iter().zip(&result.decisions) {
        parts.push(response::text(decision, &[("policy", json!(name))])?);
    }
    let mut text = response::text(&binding, &[("policy", json!(names[position]))])?;
    text.truncate(text.len() - 1);
    text.push_str(&format!(",\"decisions\":[{}]", parts.join(",")));
    if let Some(results) = &result.results {
        text.push_str(&format!(",\"results\":[{}]", results.join(",")));
    }
    text.push('}');
    Ok((position, binding, text))
}

/// The writes, checked as far as possible without running them.
fn then(context: &HttpContext, request: &HttpRequest, text: Option<&ThenText<'_>>) -> Result<Then, ApiError> {
    let many =
        || ApiError::TooLarge(format!("at most {THEN_MAX} commands or operations can follow a decision"));
    match text {
        None => Ok(Then::Nothing),
        Some(ThenText { commands: Some(text), operations: None }) => {
            let commands = upstash::body::commands(text.get().as_bytes())
                .map_err(|error| ApiError::bad(format!("\"commands\": {}", error.0)))?;
            if commands.len() > THEN_MAX {
                return Err(many());
            }
            let queued = |(n, command)| match upstash::run::spec_of(context, request.rights, &command) {
                Ok(spec) if spec.flags.has(flag::NO_MULTI) || !matches!(spec.run, Run::Data(_)) => {
                    let name = spec.full_name;
                    Err(batch::at(n, ApiError::bad(format!("the command '{name}' cannot follow a decision"))))
                }
                Ok(spec) => Ok(Queued { spec, command }),
                Err(fail) => Err(batch::at(n, command_error(fail))),
            };
            commands.into_iter().enumerate().map(queued).collect::<Result<_, _>>().map(Then::Commands)
        }
        Some(ThenText { commands: None, operations: Some(text) }) => {
            shared::require_database(context, "changing documents with a decision")?;
            let tree = document::parse(text.get().as_bytes())
                .map_err(|flaw| ApiError::flaw("\"operations\"", &flaw))?;
            let Value::Array(operations) = tree else {
                return Err(ApiError::bad("\"operations\" is an array"));
            };
            if operations.len() > THEN_MAX {
                return Err(many());
            }
            let read = |(n, one)| batch::operation(one).map_err(|error| batch::at(n, error));
            operations.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Then::Operations)
        }
        Some(_) => Err(ApiError::bad("\"then\" has either \"commands\" or \"operations\"")),
    }
}

/// The error of a command in the form of this API.
fn command_error(fail: Fail) -> ApiError {
    match fail {
        Fail::Broken(error) => ApiError::Broken(error),
        fail => {
            let line = fail.line();
            match line.starts_with("WRONGTYPE") {
                true => ApiError::WrongType("the key holds a value of another type"),
                false => ApiError::bad(line),
            }
        }
    }
}

async fn decide(context: &HttpContext, plan: Plan<'_>) -> Result<Ran<CombinedResult>, ApiError> {
    let limits = plan.limits;
    let engine = &context.app.engine;
    let shard = engine.shard_of(limits[0].1.key().as_bytes());
    let is_on_engine = limits.iter().all(|(active, _)| active.backend.is_engine());
    let is_together = limits.iter().all(|(_, question)| engine.shard_of(question.key().as_bytes()) == shard);
    if is_on_engine {
        require_served(context, &plan)?;
    }
    if is_on_engine && is_together {
        return on_shard(context, shard, plan).await;
    }
    match plan.then {
        Then::Nothing if plan.idempotency_key.is_none() => {}
        Then::Nothing if is_on_engine => return Err(ApiError::bad(run::KEYS_ON_SEVERAL_SHARDS)),
        _ if is_on_engine => return Err(ApiError::bad(ON_SEVERAL_SHARDS)),
        _ => {
            return Err(ApiError::bad("only with policies on the store 'engine' can a request also write"));
        }
    }
    let decisions = elsewhere(plan.rule, limits).await;
    let decisions = decisions.or_else(|error| opened(limits, &error).ok_or(error))?;
    Ok(Ran::New(CombinedResult { decisions, now: context.app.now(), results: None, publish: Vec::new() }))
}

/// In a cluster, the keys of the checks and of what is written must be in one slot of this node.
fn require_served(context: &HttpContext, plan: &Plan<'_>) -> Result<(), ApiError> {
    let checked = plan.limits.iter().map(|(_, question)| question.key().as_bytes());
    let mut keys: Vec<&[u8]> = checked.collect();
    match &plan.then {
        Then::Nothing => {}
        Then::Operations(operations) => keys.extend(operations.iter().map(|operation| &operation.key[..])),
        Then::Commands(queue) => {
            for queued in queue {
                let args = queued.command.args();
                keys.extend(queued.spec.keys(args).unwrap_or_default().into_iter().map(|at| args.at(at)));
            }
        }
    }
    context.require_served(keys)
}

/// The decisions when the store fails: only if all policies fail open.
fn opened(limits: &[(Arc<ActivePolicy>, Question)], error: &keystead_core::Error) -> Option<Vec<Decision>> {
    limits.iter().map(|(active, _)| active.limiter.open_for(error).map(|(decision, _)| decision)).collect()
}

/// All checks in one step.
async fn on_shard(
    context: &HttpContext,
    shard: ShardId,
    plan: Plan<'_>,
) -> Result<Ran<CombinedResult>, ApiError> {
    let Plan { idempotency_key, rule, limits, then, denial } = plan;
    let engine = &context.app.engine;
    let is_on_shard = match &then {
        Then::Nothing => true,
        Then::Operations(operations) => {
            operations.iter().all(|operation| engine.shard_of(&operation.key) == shard)
        }
        Then::Commands(queue) => engine.shards() == 1 || shard_of_queue(engine, queue, Some(shard)).is_ok(),
    };
    if !is_on_shard {
        return Err(ApiError::bad(ON_SEVERAL_SHARDS));
    }
    let questions: Vec<Question> = limits.iter().map(|(_, question)| question.clone()).collect();
    let names: Vec<String> = limits.iter().map(|(active, _)| active.definition.name.clone()).collect();
    let (hub, random) =
        (Arc::clone(&context.app.hub), Random::new(context.caller.borrow_mut().random.next()));
    let writes_nothing = matches!(then, Then::Nothing);
    let has_key = idempotency_key.is_some();
    let idempotency_key = idempotency_key
        .zip(questions.first())
        .map(|(one, question)| context.with_slot(one, question.key().as_bytes()));
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keyspace, now| {
        let result = run(keyspace, now, rule, &questions, &then, (shard, random, &hub))?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Only the response to a request with a key is stored.
        let stored = match has_key {
            true => {
                let (_, binding, text) = text(rule, &names, &result)?;
                response::stored_text(response::status(&binding, denial), &text)
            }
            false => response::stored_text(StatusCode::OK, ""),
        };
        Ok::<_, ApiError>((stored, Some(result)))
    });
    match ran.await {
        Ok((_, Some(result))) => Ok(Ran::New(result)),
        Ok((stored, None)) => Ok(Ran::Stored(stored)),
        Err(ApiError::Broken(error)) if writes_nothing => {
            let decisions = opened(limits, &error).ok_or(error)?;
            Ok(Ran::New(CombinedResult {
                decisions,
                now: context.app.now(),
                results: None,
                publish: Vec::new(),
            }))
        }
        Err(error) => Err(error),
    }
}

fn run(
    keyspace: &mut Keyspace,
    now: Millis,
    rule: Rule,
    questions: &[Question],
    then: &Then,
    (shard, mut random, hub): (ShardId, Random, &Hub),
) -> Result<CombinedResult, ApiError> {
    let decisions = rule.check(questions, &mut Held { keyspace, now })?;
    let mut result = CombinedResult { decisions, now, results: None, publish: Vec::new() };
    if !rule.admits(&result.decisions) {
        return Ok(result);
    }
    let mut results = Vec::new();
    match then {
        Then::Nothing => return Ok(result),
        Then::Operations(operations) => {
            for (n, operation) in operations.iter().enumerate() {
                results.push(batch::one(operation, keyspace, now).map_err(|error| batch::at(n, error))?);
            }
        }
        Then::Commands(queue) => {
            let ctx = Ctx { shard, dialect: Dialect::Upstash, ..Ctx::new(keyspace, now, &mut random, hub) };
            let (replies, publish) = run_queue(queue, ctx, REST_RESPONSE_BYTES_MAX).map_err(command_error)?;
            for (n, reply) in replies.into_iter().enumerate() {
                match reply.unwrap_or(RedisReply::Nil) {
                    RedisReply::Error(fail) => return Err(batch::at(n, command_error(fail))),
                    reply => results.push(encoded(&reply)),
                }
            }
            result.publish = publish;
        }
    }
    if results.iter().map(String::len).sum::<usize>() > REST_RESPONSE_BYTES_MAX {
        return Err(ApiError::TooLarge(format!("the response is over {REST_RESPONSE_BYTES_MAX} bytes")));
    }
    result.results = Some(results);
    Ok(result)
}

fn encoded(reply: &RedisReply) -> String {
    let mut out = Vec::new();
    wire::encode(reply, Strings::Plain, &mut out);
    // The encoder writes text.
    String::from_utf8(out).unwrap_or_default()
}

/// In one step if all policies use one store that can do so, otherwise in turn.
async fn elsewhere(rule: Rule, limits: &[(Arc<ActivePolicy>, Question)]) -> Applied<Vec<Decision>> {
    let (first, _) = &limits[0];
    if limits.iter().all(|(active, _)| active.shares_store_with(first)) {
        let questions: Vec<Question> = limits.iter().map(|(_, question)| question.clone()).collect();
        return rule.check_on(&questions, first.limiter.store()).await;
    }
    let pairs: Vec<_> = limits.iter().map(|(active, question)| (question, active.limiter.store())).collect();
    rule.check_in_turn(&pairs).await
}
