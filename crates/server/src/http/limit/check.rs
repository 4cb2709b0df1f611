//! `POST /limit/{policy}` and `.../check`, `GET` and `DELETE /limit/{policy}/{key}`. Touches the store of the policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;
use keystead_commands::idempotency::IdempotencyKey;
use keystead_core::{Applies, Code, Error, Key, Millis, Result, ShardId, Stopwatch, Store};
use keystead_http_api::limit::bodies::{KeyOf, Many, One};
use keystead_limit::bounds::CHECK_MANY_MAX;
use keystead_limit::fail_mode::is_broken;
use keystead_limit::{Decision, Limiter, Question};
use serde_json::json;

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params;
use super::run::{self, PolicyStep, Ran};
use super::{find_policy, question, response};
use crate::policies::active::ActivePolicy;
use crate::written::Object;

/// Checks a key, and consumes if it is allowed.
struct Check(Question);

impl PolicyStep for Check {
    type Output = (Decision, Millis);
    const WRITES: bool = true;

    fn key(&self) -> &Key {
        self.0.key()
    }

    fn run(self, state: &mut dyn Applies) -> Result<(Decision, Millis)> {
        self.0.check(state)
    }

    async fn run_on(self, limiter: &Limiter<Arc<dyn Store>>) -> Result<(Decision, Millis)> {
        limiter.check_question(&self.0).await
    }

    fn failed_open(decision: Decision, now: Millis) -> Option<(Decision, Millis)> {
        Some((decision, now))
    }
}

/// Reads the state of a key.
struct Peek(Question);

impl PolicyStep for Peek {
    type Output = (Decision, Millis);
    const WRITES: bool = false;

    fn key(&self) -> &Key {
        self.0.key()
    }

    fn run(self, state: &mut dyn Applies) -> Result<(Decision, Millis)> {
        self.0.peek(state)
    }

    async fn run_on(self, limiter: &Limiter<Arc<dyn Store>>) -> Result<(Decision, Millis)> {
        limiter.peek_question(&self.0).await
    }

    fn failed_open(decision: Decision, now: Millis) -> Option<(Decision, Millis)> {
        Some((decision, now))
    }
}

/// `POST /limit/{policy}`
pub(in super::super) async fn check(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    let denial = params::denial(&request.head)?;
    let active = find_policy(context, name)?;
    let one: One<'_> = params::body(&request.body, r#"{"key":"ada","cost":1,"peek":false}"#)?;
    let question = question(&active, &one.key.0, one.cost)?;
    if one.peek {
        return peeked(context, &active, question, denial).await;
    }
    request.require_write()?;
    decide(context, request, &active, &one.key.0, question, denial).await
}

/// Asks a question about `key`, counts the decision and returns it.
pub(super) async fn decide(
    context: &HttpContext,
    request: &HttpRequest,
    active: &ActivePolicy,
    key: &[u8],
    question: Question,
    denial: StatusCode,
) -> ApiResult {
    let idempotency_key = run::idempotency_key_of(request, [active])?;
    let stopwatch = Stopwatch::start();
    let response = move |(decision, _): &(Decision, Millis)| response::stored(decision, &[], denial);
    let decided = match run::apply(context, active, idempotency_key, Check(question), response).await {
        Ok(Ran::Stored(stored)) => return Ok(response::stored_reply(active, stored, context.app.now())),
        Ok(Ran::New(decided)) => Ok(decided),
        Err(ApiError::Broken(error)) => Err(error),
        Err(error) => return Err(error),
    };
    active.count(key, decided.as_ref().map(|(decision, _)| decision));
    active.observe(stopwatch.elapsed());
    let (decision, now) = decided?;
    Ok(response::decided(active, &decision, now, &[], denial)?)
}

/// The response to a request that consumes nothing.
async fn peeked(
    context: &HttpContext,
    active: &ActivePolicy,
    question: Question,
    denial: StatusCode,
) -> ApiResult {
    let response = move |(decision, _): &(Decision, Millis)| response::stored(decision, &[], denial);
    match run::apply(context, active, None, Peek(question), response).await? {
        Ran::Stored(stored) => Ok(response::stored_reply(active, stored, context.app.now())),
        Ran::New((decision, now)) => Ok(response::decided(active, &decision, now, &[], denial)?),
    }
}

/// `GET /limit/{policy}/{key}`
pub(in super::super) async fn peek(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let (name, key) = params::policy_and(request, "key")?;
    let denial = params::denial(&request.head)?;
    let active = find_policy(context, name)?;
    let question = question(&active, &params::key(key)?, 1)?;
    peeked(context, &active, question, denial).await
}

/// `DELETE /limit/{policy}/{key}`
pub(in super::super) async fn reset(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let (name, key) = params::policy_and(request, "key")?;
    request.require_write()?;
    Parameters::of(&request.head, &[])?;
    let active = find_policy(context, name)?;
    let key = params::key(key)?;
    let question = question(&active, &key, 1)?;
    if active.backend.is_engine() {
        context.require_served([question.key().as_bytes()])?;
    }
    // A reset is idempotent, so an Idempotency-Key makes no difference.
    let existed = active.limiter.reset(key).await?;
    Ok(reply::json(StatusCode::OK, json!({ "reset": existed })))
}

/// `POST /limit/{policy}/check`: many keys at one instant.
pub(in super::super) async fn check_many(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    Parameters::of(&request.head, &[])?;
    let active = find_policy(context, name)?;
    let body: Many<'_> = params::body(&request.body, r#"{"keys":[{"key":"ada"},{"key":"bob","cost":2}]}"#)?;
    request.require_write()?;
    if body.keys.len() > CHECK_MANY_MAX {
        return Err(ApiError::TooLarge(format!("at most {CHECK_MANY_MAX} keys are checked at a time")));
    }
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let ask = |Object(one): &Object<KeyOf<'_>>| question(&active, &one.key.0, one.cost);
    let questions: Vec<Question> = body.keys.iter().map(ask).collect::<Result<_, _>>()?;
    let stopwatch = Stopwatch::start();
    let decisions = if active.backend.is_engine() {
        match on_shards(context, idempotency_key, &active, questions).await {
            Ok(Ran::Stored(stored)) => return Ok(reply::stored(stored)),
            Ok(Ran::New(decisions)) => Ok(decisions),
            Err(ApiError::Broken(error)) => Err(error),
            Err(error) => return Err(error),
        }
    } else {
        let keys: Vec<_> = body.keys.iter().map(|Object(one)| (&*one.key.0, one.cost)).collect();
        active.limiter.check_many(&keys).await
    };
    let keys = body.keys.iter().map(|Object(one)| &*one.key.0);
    match &decisions {
        Ok(decisions) => keys.zip(decisions).for_each(|(key, decision)| active.count(key, Ok(decision))),
        Err(error) if is_broken(error) => keys.for_each(|key| active.count(key, Err(error))),
        Err(_) => {}
    }
    active.observe(stopwatch.elapsed());
    let decisions = decisions?;
    Ok(reply::json(StatusCode::OK, list(&decisions)?))
}

fn list(decisions: &[Decision]) -> Result<String> {
    let texts: Vec<String> = decisions.iter().map(Decision::to_json).collect::<Result<_>>()?;
    Ok(format!("{{\"decisions\":[{}]}}", texts.join(",")))
}

/// The questions of each shard, with their positions in the request.
type Parts = BTreeMap<ShardId, Vec<(usize, Question)>>;

/// Checks on each shard its own keys, all at the same instant.
async fn on_shards(
    context: &HttpContext,
    idempotency_key: Option<IdempotencyKey>,
    active: &ActivePolicy,
    questions: Vec<Question>,
) -> std::result::Result<Ran<Vec<Decision>>, ApiError> {
    context.require_served(questions.iter().map(|question| question.key().as_bytes()))?;
    let engine = &context.app.engine;
    let (now, count) = (context.app.now(), questions.len());
    let mut parts = Parts::new();
    for (n, question) in questions.into_iter().enumerate() {
        let shard = engine.shard_of(question.key().as_bytes());
        // One shard has a clock of its own, several need a common instant.
        let question = if engine.shards() > 1 { question.at(now) } else { question };
        parts.entry(shard).or_default().push((n, question));
    }
    if parts.len() > 1 {
        if idempotency_key.is_some() {
            return Err(ApiError::bad(run::KEYS_ON_SEVERAL_SHARDS));
        }
        check_all_shards(context, active, &parts).await?;
    }
    let mut decisions = vec![None; count];
    for part in parts.into_values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, positions) = (first.key().clone(), part.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        let run = move |held: &mut dyn Applies| {
            part.iter().map(|(_, question)| question.check(held).map(|(decision, _)| decision)).collect()
        };
        let response = |part: &Vec<Decision>| Ok(response::stored_text(StatusCode::OK, &list(part)?));
        match run::change(context, idempotency_key.clone(), &at, run, response).await {
            Ok(Ran::Stored(stored)) => return Ok(Ran::Stored(stored)),
            Ok(Ran::New(part)) => {
                positions.into_iter().zip(part).for_each(|(n, decision)| decisions[n] = Some(decision));
            }
            Err(ApiError::Broken(error)) => {
                let (open, _) = active.limiter.settled(Err(error))?;
                positions.into_iter().for_each(|n| decisions[n] = Some(open));
            }
            Err(error) => return Err(error),
        }
    }
    let missing = || ApiError::from(Error::new(Code::Internal, "a key was not checked"));
    decisions.into_iter().map(|decision| decision.ok_or_else(missing)).collect::<Result<_, _>>().map(Ran::New)
}

/// Peeks at every key of every shard: an error is found before another shard has consumed.
async fn check_all_shards(context: &HttpContext, active: &ActivePolicy, parts: &Parts) -> Result<()> {
    for part in parts.values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, questions) = (first.key().clone(), part.clone());
        let peek = move |held: &mut dyn Applies| {
            questions.iter().try_for_each(|(_, question)| question.peek(held).map(drop))
        };
        if let Err(error) = run::read(context, &at, peek).await {
            // Where the store is broken, the policy decides what that means.
            active.limiter.open_for(&error).ok_or(error)?;
        }
    }
    Ok(())
}
