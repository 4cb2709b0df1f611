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
use keystead_commands::Random;
use keystead_commands::idempotency::{IdempotencyKey, StoredResponse};
use keystead_commands::json::document;
use keystead_core::{Millis, Result as Applied, ShardId, Stopwatch};
use keystead_http_api::limit::combined::{self, Body, CombinedResult, FORM, One, Then, text, then};
use keystead_limit::fail_mode::is_broken;
use keystead_limit::{Decision, Question, Rule};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::idempotency;
use super::super::kv::shared;
use super::super::reply::{self, Reply};
use super::super::request::HttpRequest;
use super::super::upstash;
use super::params;
use super::run::{self, Ran};
use super::{find_policy, question, response};
use crate::bounds::REST_RESPONSE_BYTES_MAX;
use crate::call::target::shard_of_queue;
use crate::policies::active::ActivePolicy;
use crate::written::Object;

const ON_SEVERAL_SHARDS: &str =
    "the keys of the limits and of the writes must be on one shard: give them the same {tag}";

/// The parts of a request.
struct Plan<'a> {
    idempotency_key: Option<IdempotencyKey>,
    rule: Rule,
    limits: &'a [(Arc<ActivePolicy>, Question)],
    then: Then,
    denial: StatusCode,
}

pub(in super::super) async fn combined(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    let denial = params::denial(&request.head)?;
    let body: Body<'_> = params::body(&request.body, FORM)?;
    body.check_count()?;
    let rule = body.rule();
    let mut limits = Vec::with_capacity(body.checks.len());
    for Object(one) in &body.checks {
        let active = find_policy(context, &one.policy)?;
        let question = question(&active, &one.key.0, one.cost)?;
        limits.push((active, question));
    }
    let idempotency_key = run::idempotency_key_of(request, limits.iter().map(|(active, _)| &**active))?;
    let then = then(
        body.then.as_ref().map(|then| &then.0),
        |command| upstash::run::spec_of(context, request.rights, command),
        || shared::require_database(context, "changing documents with a decision"),
    )?;
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
    let (hub, mut random) =
        (Arc::clone(&context.app.hub), Random::new(context.caller.borrow_mut().random.next()));
    let writes_nothing = matches!(then, Then::Nothing);
    let has_key = idempotency_key.is_some();
    let idempotency_key = idempotency_key
        .zip(questions.first())
        .map(|(one, question)| context.with_slot(one, question.key().as_bytes()));
    let ran = idempotency::run_at(context, shard, idempotency_key, move |keyspace, now| {
        let result = combined::run(
            keyspace,
            now,
            rule,
            &questions,
            &then,
            (shard, &mut random, &hub),
            REST_RESPONSE_BYTES_MAX,
        )?;
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
