//! `POST /limit/{policy}` and `.../check`, `GET` and `DELETE /limit/{policy}/{key}`. Touches the store of the policy.

use std::collections::BTreeMap;

use hyper::StatusCode;
use keystead_core::{Applies, Code, Error, Millis, Result, Stopwatch};
use keystead_limit::limits::CHECK_MANY_MAX;
use keystead_limit::{Decision, Question};
use serde::Deserialize;
use serde_json::json;

use super::super::here::Here;
use super::super::kv::answer::Refused;
use super::super::kv::asked::Parameters;
use super::super::reply;
use super::super::request::Asked;
use super::asked::{self, KeyText};
use super::{Done, answer, policy, run, writer};
use crate::policies::named::{Named, Place};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "asked::one")]
    cost: u64,
    #[serde(default)]
    peek: bool,
}

pub(super) async fn check(here: &Here, asked: &Asked, name: &str) -> Done {
    let denial = asked::denial(&asked.head)?;
    let named = policy(here, name)?;
    let one: One<'_> = asked::body(&asked.body, r#"{"key":"ada","cost":1,"peek":false}"#)?;
    if one.peek {
        let (decision, now) = peek(here, &named, named.limiter.question(&one.key.0, one.cost)?).await?;
        return Ok(answer::decided(&named, &decision, now, &[], denial)?);
    }
    writer(asked)?;
    let question = named.limiter.question(&one.key.0, one.cost)?;
    let (decision, now) = ask(here, &named, &one.key.0, question).await?;
    Ok(answer::decided(&named, &decision, now, &[], denial)?)
}

/// Asks a question about `key`, and counts the answer.
pub(super) async fn ask(
    here: &Here,
    named: &Named,
    key: &[u8],
    question: Question,
) -> Result<(Decision, Millis)> {
    let stopwatch = Stopwatch::start();
    let answer = match named.place {
        Place::Engine => {
            let at = question.key().clone();
            let ran = run::on_engine(here, &at, true, move |held| question.check(held)).await;
            named.limiter.settled(ran)
        }
        Place::Sync | Place::Elsewhere => named.limiter.check_question(&question).await,
    };
    named.count(key, answer.as_ref().ok().map(|(decision, _)| decision), stopwatch.elapsed());
    answer
}

/// How things stand.
async fn peek(here: &Here, named: &Named, question: Question) -> Result<(Decision, Millis)> {
    match named.place {
        Place::Engine => {
            let at = question.key().clone();
            let ran = run::on_engine(here, &at, false, move |held| question.peek(held)).await;
            named.limiter.settled(ran)
        }
        Place::Sync | Place::Elsewhere => named.limiter.peek_question(&question).await,
    }
}

/// `GET /limit/{policy}/{key}`
pub(super) async fn look(here: &Here, asked: &Asked, name: &str, key: &str) -> Done {
    let denial = asked::denial(&asked.head)?;
    let named = policy(here, name)?;
    let question = named.limiter.question(asked::key(key)?, 1)?;
    let (decision, now) = peek(here, &named, question).await?;
    Ok(answer::decided(&named, &decision, now, &[], denial)?)
}

/// `DELETE /limit/{policy}/{key}`
pub(super) async fn reset(here: &Here, asked: &Asked, name: &str, key: &str) -> Done {
    Parameters::of(&asked.head, &[])?;
    let named = policy(here, name)?;
    let was_there = named.limiter.reset(asked::key(key)?).await?;
    Ok(reply::json(StatusCode::OK, json!({ "reset": was_there })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many<'a> {
    #[serde(borrow)]
    keys: Vec<KeyOf<'a>>,
}

/// A key of several: by itself, or with its cost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyOf<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "asked::one")]
    cost: u64,
}

/// `POST /limit/{policy}/check`: many keys at one instant.
pub(super) async fn many(here: &Here, asked: &Asked, name: &str) -> Done {
    Parameters::of(&asked.head, &[])?;
    let named = policy(here, name)?;
    let body: Many<'_> = asked::body(&asked.body, r#"{"keys":[{"key":"ada"},{"key":"bob","cost":2}]}"#)?;
    writer(asked)?;
    if body.keys.len() > CHECK_MANY_MAX {
        return Err(Refused::TooLarge(format!("at most {CHECK_MANY_MAX} keys are asked for at a time")));
    }
    let stopwatch = Stopwatch::start();
    let decisions = match named.place {
        Place::Engine => on_shards(here, &named, &body.keys).await,
        Place::Sync | Place::Elsewhere => {
            let keys: Vec<_> = body.keys.iter().map(|one| (&*one.key.0, one.cost)).collect();
            named.limiter.check_many(&keys).await
        }
    };
    let took = stopwatch.elapsed();
    let decisions = match decisions {
        Ok(decisions) => decisions,
        Err(error) => {
            body.keys.iter().for_each(|one| named.count(&one.key.0, None, took));
            return Err(error.into());
        }
    };
    let mut text = String::from("{\"decisions\":[");
    for (n, (one, decision)) in body.keys.iter().zip(&decisions).enumerate() {
        named.count(&one.key.0, Some(decision), took);
        if n > 0 {
            text.push(',');
        }
        text.push_str(&decision.to_json()?);
    }
    text.push_str("]}");
    Ok(reply::json(StatusCode::OK, text))
}

/// Asks each shard for its own keys, all at the same instant.
async fn on_shards(here: &Here, named: &Named, keys: &[KeyOf<'_>]) -> Result<Vec<Decision>> {
    let engine = &here.app.engine;
    let now = here.app.now();
    let mut parts: BTreeMap<usize, Vec<(usize, Question)>> = BTreeMap::new();
    for (n, one) in keys.iter().enumerate() {
        let question = named.limiter.question(&one.key.0, one.cost)?;
        let shard = engine.shard_of(question.key().as_bytes());
        // One shard tells the time itself.
        let question = if engine.shards() > 1 { question.at(now) } else { question };
        parts.entry(shard).or_default().push((n, question));
    }
    let mut decisions = vec![None; keys.len()];
    for part in parts.into_values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, places) = (first.key().clone(), part.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        let run = move |held: &mut dyn Applies| {
            part.iter().map(|(_, question)| question.check(held)).collect::<Result<Vec<_>>>()
        };
        match run::on_engine(here, &at, true, run).await {
            Ok(answers) => {
                for (n, answer) in places.into_iter().zip(answers) {
                    decisions[n] = Some(answer.0);
                }
            }
            Err(error) => {
                let (open, _) = named.limiter.settled(Err(error))?;
                places.into_iter().for_each(|n| decisions[n] = Some(open));
            }
        }
    }
    let missing = || Error::new(Code::Internal, "a key was not asked for");
    decisions.into_iter().map(|decision| decision.ok_or_else(missing)).collect()
}
