//! `POST /limit/{policy}` and `.../check`, `GET` and `DELETE /limit/{policy}/{key}`. Touches the store of the policy.

use std::collections::BTreeMap;

use hyper::StatusCode;
use keystead_commands::idempotency::IdempotencyKey;
use keystead_core::{Applies, Code, Error, Millis, Result, Stopwatch};
use keystead_limit::bounds::CHECK_MANY_MAX;
use keystead_limit::fail::is_broken;
use keystead_limit::{Decision, Question};
use serde::Deserialize;
use serde_json::json;

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params;
use super::run::{self, Ran};
use super::{Done, answer, policy, question, writer};
use crate::policies::active::{ActivePolicy, Backend};
use crate::written::{self, KeyText, Object};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "params::one", deserialize_with = "written::whole")]
    cost: u64,
    #[serde(default)]
    peek: bool,
}

pub(super) async fn check(context: &HttpContext, request: &HttpRequest, name: &str) -> Done {
    let denial = params::denial(&request.head)?;
    let active = policy(context, name)?;
    let one: One<'_> = params::body(&request.body, r#"{"key":"ada","cost":1,"peek":false}"#)?;
    let question = question(&active, &one.key.0, one.cost)?;
    if one.peek {
        let (decision, now) = peek(context, &active, question).await?;
        return Ok(answer::decided(&active, &decision, now, &[], denial)?);
    }
    writer(request)?;
    told(context, request, &active, &one.key.0, question, denial).await
}

/// Asks a question about `key`, counts the decision and tells it.
pub(super) async fn told(
    context: &HttpContext,
    request: &HttpRequest,
    active: &ActivePolicy,
    key: &[u8],
    question: Question,
    denial: StatusCode,
) -> Done {
    let idempotency_key = run::idempotency_key_of(request, [active])?;
    let stopwatch = Stopwatch::start();
    let answer = match active.backend {
        Backend::Engine => {
            let at = question.key().clone();
            let tell = move |(decision, _): &(Decision, Millis)| answer::kept(decision, &[], denial);
            match run::change(context, idempotency_key, &at, move |held| question.check(held), tell).await {
                Ok(Ran::Again(kept)) => return Ok(answer::again(active, kept, context.app.now())),
                Ok(Ran::New(decided)) => Ok(decided),
                Err(ApiError::Broken(error)) => active.limiter.settled(Err(error)),
                Err(refused) => return Err(refused),
            }
        }
        Backend::Sync | Backend::Elsewhere => active.limiter.check_question(&question).await,
    };
    active.count(key, answer.as_ref().map(|(decision, _)| decision));
    active.took(stopwatch.elapsed());
    let (decision, now) = answer?;
    Ok(answer::decided(active, &decision, now, &[], denial)?)
}

/// How things stand.
async fn peek(
    context: &HttpContext,
    active: &ActivePolicy,
    question: Question,
) -> Result<(Decision, Millis)> {
    match active.backend {
        Backend::Engine => {
            let at = question.key().clone();
            active.limiter.settled(run::look(context, &at, move |held| question.peek(held)).await)
        }
        Backend::Sync | Backend::Elsewhere => active.limiter.peek_question(&question).await,
    }
}

/// `GET /limit/{policy}/{key}`
pub(super) async fn look(context: &HttpContext, request: &HttpRequest, name: &str, key: &str) -> Done {
    let denial = params::denial(&request.head)?;
    let active = policy(context, name)?;
    let question = question(&active, &params::key(key)?, 1)?;
    let (decision, now) = peek(context, &active, question).await?;
    Ok(answer::decided(&active, &decision, now, &[], denial)?)
}

/// `DELETE /limit/{policy}/{key}`
pub(super) async fn reset(context: &HttpContext, request: &HttpRequest, name: &str, key: &str) -> Done {
    Parameters::of(&request.head, &[])?;
    let active = policy(context, name)?;
    let key = params::key(key)?;
    question(&active, &key, 1)?;
    // To forget twice is to forget, so a name makes no difference.
    let was_there = active.limiter.reset(key).await?;
    Ok(reply::json(StatusCode::OK, json!({ "reset": was_there })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many<'a> {
    #[serde(borrow)]
    keys: Vec<Object<KeyOf<'a>>>,
}

/// A key of several, with its cost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyOf<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "params::one", deserialize_with = "written::whole")]
    cost: u64,
}

/// `POST /limit/{policy}/check`: many keys at one instant.
pub(super) async fn many(context: &HttpContext, request: &HttpRequest, name: &str) -> Done {
    Parameters::of(&request.head, &[])?;
    let active = policy(context, name)?;
    let body: Many<'_> = params::body(&request.body, r#"{"keys":[{"key":"ada"},{"key":"bob","cost":2}]}"#)?;
    writer(request)?;
    if body.keys.len() > CHECK_MANY_MAX {
        return Err(ApiError::TooLarge(format!("at most {CHECK_MANY_MAX} keys are asked for at a time")));
    }
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let ask = |Object(one): &Object<KeyOf<'_>>| question(&active, &one.key.0, one.cost);
    let questions: Vec<Question> = body.keys.iter().map(ask).collect::<Result<_, _>>()?;
    let stopwatch = Stopwatch::start();
    let decisions = match active.backend {
        Backend::Engine => match on_shards(context, idempotency_key, &active, questions).await {
            Ok(Ran::Again(kept)) => return Ok(reply::kept(kept)),
            Ok(Ran::New(decisions)) => Ok(decisions),
            Err(ApiError::Broken(error)) => Err(error),
            Err(refused) => return Err(refused),
        },
        Backend::Sync | Backend::Elsewhere => {
            let keys: Vec<_> = body.keys.iter().map(|Object(one)| (&*one.key.0, one.cost)).collect();
            active.limiter.check_many(&keys).await
        }
    };
    let keys = body.keys.iter().map(|Object(one)| &*one.key.0);
    match &decisions {
        Ok(decisions) => keys.zip(decisions).for_each(|(key, decision)| active.count(key, Ok(decision))),
        Err(error) if is_broken(error) => keys.for_each(|key| active.count(key, Err(error))),
        Err(_) => {}
    }
    active.took(stopwatch.elapsed());
    let decisions = decisions?;
    Ok(reply::json(StatusCode::OK, list(&decisions)?))
}

fn list(decisions: &[Decision]) -> Result<String> {
    let texts: Vec<String> = decisions.iter().map(Decision::to_json).collect::<Result<_>>()?;
    Ok(format!("{{\"decisions\":[{}]}}", texts.join(",")))
}

/// The questions of each shard, with their places in the request.
type Parts = BTreeMap<usize, Vec<(usize, Question)>>;

/// Asks each shard for its own keys, all at the same instant.
async fn on_shards(
    context: &HttpContext,
    idempotency_key: Option<IdempotencyKey>,
    active: &ActivePolicy,
    questions: Vec<Question>,
) -> std::result::Result<Ran<Vec<Decision>>, ApiError> {
    let engine = &context.app.engine;
    let (now, count) = (context.app.now(), questions.len());
    let mut parts = Parts::new();
    for (n, question) in questions.into_iter().enumerate() {
        let shard = engine.shard_of(question.key().as_bytes());
        // One shard tells the time itself.
        let question = if engine.shards() > 1 { question.at(now) } else { question };
        parts.entry(shard).or_default().push((n, question));
    }
    if parts.len() > 1 {
        if idempotency_key.is_some() {
            return Err(ApiError::bad(run::NAMED_APART));
        }
        can_be_asked(context, active, &parts).await?;
    }
    let mut decisions = vec![None; count];
    for part in parts.into_values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, places) = (first.key().clone(), part.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        let run = move |held: &mut dyn Applies| {
            part.iter().map(|(_, question)| question.check(held).map(|(decision, _)| decision)).collect()
        };
        let tell = |part: &Vec<Decision>| Ok(answer::kept_text(StatusCode::OK, &list(part)?));
        match run::change(context, idempotency_key.clone(), &at, run, tell).await {
            Ok(Ran::Again(kept)) => return Ok(Ran::Again(kept)),
            Ok(Ran::New(part)) => {
                places.into_iter().zip(part).for_each(|(n, decision)| decisions[n] = Some(decision));
            }
            Err(ApiError::Broken(error)) => {
                let (open, _) = active.limiter.settled(Err(error))?;
                places.into_iter().for_each(|n| decisions[n] = Some(open));
            }
            Err(refused) => return Err(refused),
        }
    }
    let missing = || ApiError::from(Error::new(Code::Internal, "a key was not asked for"));
    decisions.into_iter().map(|decision| decision.ok_or_else(missing)).collect::<Result<_, _>>().map(Ran::New)
}

/// Looks at every key of every shard and consumes nothing: what cannot be asked there is found before another shard has consumed.
async fn can_be_asked(context: &HttpContext, active: &ActivePolicy, parts: &Parts) -> Result<()> {
    for part in parts.values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, questions) = (first.key().clone(), part.clone());
        let peek = move |held: &mut dyn Applies| {
            questions.iter().try_for_each(|(_, question)| question.peek(held).map(drop))
        };
        if let Err(error) = run::look(context, &at, peek).await {
            // Where the store is broken, the policy says what that means.
            active.limiter.open_for(&error).ok_or(error)?;
        }
    }
    Ok(())
}
