//! `POST /limit/{policy}` and `.../check`, `GET` and `DELETE /limit/{policy}/{key}`. Touches the store of the policy.

use std::collections::BTreeMap;

use hyper::StatusCode;
use keystead_commands::once::Once;
use keystead_core::{Applies, Code, Error, Millis, Result, Stopwatch};
use keystead_limit::fail::is_broken;
use keystead_limit::limits::CHECK_MANY_MAX;
use keystead_limit::{Decision, Question};
use serde::Deserialize;
use serde_json::json;

use super::super::here::Here;
use super::super::parameters::Parameters;
use super::super::refused::Refused;
use super::super::reply;
use super::super::request::Asked;
use super::asked;
use super::run::{self, Ran};
use super::{Done, answer, policy, question, writer};
use crate::policies::named::{Named, Place};
use crate::written::{self, KeyText, Object};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "asked::one", deserialize_with = "written::whole")]
    cost: u64,
    #[serde(default)]
    peek: bool,
}

pub(super) async fn check(here: &Here, asked: &Asked, name: &str) -> Done {
    let denial = asked::denial(&asked.head)?;
    let named = policy(here, name)?;
    let one: One<'_> = asked::body(&asked.body, r#"{"key":"ada","cost":1,"peek":false}"#)?;
    let question = question(&named, &one.key.0, one.cost)?;
    if one.peek {
        let (decision, now) = peek(here, &named, question).await?;
        return Ok(answer::decided(&named, &decision, now, &[], denial)?);
    }
    writer(asked)?;
    told(here, asked, &named, &one.key.0, question, denial).await
}

/// Asks a question about `key`, counts the decision and tells it.
pub(super) async fn told(
    here: &Here,
    asked: &Asked,
    named: &Named,
    key: &[u8],
    question: Question,
    denial: StatusCode,
) -> Done {
    let once = run::once_of(asked, [named])?;
    let stopwatch = Stopwatch::start();
    let answer = match named.place {
        Place::Engine => {
            let at = question.key().clone();
            let tell = move |(decision, _): &(Decision, Millis)| answer::kept(decision, &[], denial);
            match run::change(here, once, &at, move |held| question.check(held), tell).await {
                Ok(Ran::Again(kept)) => return Ok(answer::again(named, kept, here.app.now())),
                Ok(Ran::New(decided)) => Ok(decided),
                Err(Refused::Broken(error)) => named.limiter.settled(Err(error)),
                Err(refused) => return Err(refused),
            }
        }
        Place::Sync | Place::Elsewhere => named.limiter.check_question(&question).await,
    };
    named.count(key, answer.as_ref().map(|(decision, _)| decision));
    named.took(stopwatch.elapsed());
    let (decision, now) = answer?;
    Ok(answer::decided(named, &decision, now, &[], denial)?)
}

/// How things stand.
async fn peek(here: &Here, named: &Named, question: Question) -> Result<(Decision, Millis)> {
    match named.place {
        Place::Engine => {
            let at = question.key().clone();
            named.limiter.settled(run::look(here, &at, move |held| question.peek(held)).await)
        }
        Place::Sync | Place::Elsewhere => named.limiter.peek_question(&question).await,
    }
}

/// `GET /limit/{policy}/{key}`
pub(super) async fn look(here: &Here, asked: &Asked, name: &str, key: &str) -> Done {
    let denial = asked::denial(&asked.head)?;
    let named = policy(here, name)?;
    let question = question(&named, &asked::key(key)?, 1)?;
    let (decision, now) = peek(here, &named, question).await?;
    Ok(answer::decided(&named, &decision, now, &[], denial)?)
}

/// `DELETE /limit/{policy}/{key}`
pub(super) async fn reset(here: &Here, asked: &Asked, name: &str, key: &str) -> Done {
    Parameters::of(&asked.head, &[])?;
    let named = policy(here, name)?;
    let key = asked::key(key)?;
    question(&named, &key, 1)?;
    // To forget twice is to forget, so a name makes no difference.
    let was_there = named.limiter.reset(key).await?;
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
    #[serde(default = "asked::one", deserialize_with = "written::whole")]
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
    let once = run::once_of(asked, [&*named])?;
    let ask = |Object(one): &Object<KeyOf<'_>>| question(&named, &one.key.0, one.cost);
    let questions: Vec<Question> = body.keys.iter().map(ask).collect::<Result<_, _>>()?;
    let stopwatch = Stopwatch::start();
    let decisions = match named.place {
        Place::Engine => match on_shards(here, once, &named, questions).await {
            Ok(Ran::Again(kept)) => return Ok(reply::kept(kept)),
            Ok(Ran::New(decisions)) => Ok(decisions),
            Err(Refused::Broken(error)) => Err(error),
            Err(refused) => return Err(refused),
        },
        Place::Sync | Place::Elsewhere => {
            let keys: Vec<_> = body.keys.iter().map(|Object(one)| (&*one.key.0, one.cost)).collect();
            named.limiter.check_many(&keys).await
        }
    };
    let keys = body.keys.iter().map(|Object(one)| &*one.key.0);
    match &decisions {
        Ok(decisions) => keys.zip(decisions).for_each(|(key, decision)| named.count(key, Ok(decision))),
        Err(error) if is_broken(error) => keys.for_each(|key| named.count(key, Err(error))),
        Err(_) => {}
    }
    named.took(stopwatch.elapsed());
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
    here: &Here,
    once: Option<Once>,
    named: &Named,
    questions: Vec<Question>,
) -> std::result::Result<Ran<Vec<Decision>>, Refused> {
    let engine = &here.app.engine;
    let (now, count) = (here.app.now(), questions.len());
    let mut parts = Parts::new();
    for (n, question) in questions.into_iter().enumerate() {
        let shard = engine.shard_of(question.key().as_bytes());
        // One shard tells the time itself.
        let question = if engine.shards() > 1 { question.at(now) } else { question };
        parts.entry(shard).or_default().push((n, question));
    }
    if parts.len() > 1 {
        if once.is_some() {
            return Err(Refused::bad(run::NAMED_APART));
        }
        can_be_asked(here, named, &parts).await?;
    }
    let mut decisions = vec![None; count];
    for part in parts.into_values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, places) = (first.key().clone(), part.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        let run = move |held: &mut dyn Applies| {
            part.iter().map(|(_, question)| question.check(held).map(|(decision, _)| decision)).collect()
        };
        let tell = |part: &Vec<Decision>| Ok(answer::kept_text(StatusCode::OK, &list(part)?));
        match run::change(here, once.clone(), &at, run, tell).await {
            Ok(Ran::Again(kept)) => return Ok(Ran::Again(kept)),
            Ok(Ran::New(part)) => {
                places.into_iter().zip(part).for_each(|(n, decision)| decisions[n] = Some(decision));
            }
            Err(Refused::Broken(error)) => {
                let (open, _) = named.limiter.settled(Err(error))?;
                places.into_iter().for_each(|n| decisions[n] = Some(open));
            }
            Err(refused) => return Err(refused),
        }
    }
    let missing = || Refused::from(Error::new(Code::Internal, "a key was not asked for"));
    decisions.into_iter().map(|decision| decision.ok_or_else(missing)).collect::<Result<_, _>>().map(Ran::New)
}

/// Looks at every key of every shard and consumes nothing: what cannot be asked there is found before another shard has consumed.
async fn can_be_asked(here: &Here, named: &Named, parts: &Parts) -> Result<()> {
    for part in parts.values() {
        let Some((_, first)) = part.first() else { continue };
        let (at, questions) = (first.key().clone(), part.clone());
        let peek = move |held: &mut dyn Applies| {
            questions.iter().try_for_each(|(_, question)| question.peek(held).map(drop))
        };
        if let Err(error) = run::look(here, &at, peek).await {
            // Where the store is broken, the policy says what that means.
            named.limiter.open_for(&error).ok_or(error)?;
        }
    }
    Ok(())
}
