//! `POST /limit`: several policies as one, and a write in the same atomic step. Touches the stores of the policies.
//!
//! ```json
//! {"rule":"all","checks":[{"policy":"user","key":"ada"},{"policy":"everybody","key":"all","cost":2}],
//!  "then":{"commands":[["LPUSH","jobs","1"]]}}
//! ```
//!
//! All is asked first, and only if the rule admits is anything consumed or written. On one shard of the database that is one
//! step; policies on other stores are asked in turn, and what was consumed in vain is given back.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::json::document;
use keystead_commands::once::{Kept, Once};
use keystead_commands::session::Queued;
use keystead_commands::spec::{Run, flag};
use keystead_commands::wire::json::{self as wire, Strings};
use keystead_commands::{Ctx, Random, Reply as Answer, ctx::Dialect, ctx::Publication};
use keystead_core::{Millis, Result as Applied, Stopwatch};
use keystead_limit::fail::is_broken;
use keystead_limit::limits::COMBINED_MAX;
use keystead_limit::{Decision, Question, Rule};
use keystead_model::keyspace::{Held, Keyspace};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::here::Here;
use super::super::kv::batch::{self, Operation};
use super::super::once;
use super::super::refused::Refused;
use super::super::reply::{self, Reply};
use super::super::request::Asked;
use super::super::rest;
use super::asked;
use super::run::{self, Ran};
use super::{Done, answer, policy, question};
use crate::call::place::place_of;
use crate::call::transaction::run_queue;
use crate::limits::{REST_ANSWER_BYTES_MAX, THEN_MAX};
use crate::policies::named::{Named, Place};
use crate::written::{self, KeyText, Object};

const FORM: &str = r#"{"checks":[{"policy":"user","key":"ada"},{"policy":"all","key":"all"}]}"#;
const APART: &str =
    "the keys of the limits and of what is written must live together: give them the same {tag}";

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
    #[serde(default = "asked::one", deserialize_with = "written::whole")]
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

/// What is written if the rule admits.
enum Then {
    Nothing,
    Commands(Vec<Queued>),
    Operations(Vec<Operation>),
}

/// What is asked, in its parts.
struct Plan<'a> {
    once: Option<Once>,
    rule: Rule,
    limits: &'a [(Arc<Named>, Question)],
    then: Then,
    denial: StatusCode,
}

/// What came of it.
struct Outcome {
    decisions: Vec<Decision>,
    now: Millis,
    /// Of what was written, as JSON.
    results: Option<Vec<String>>,
    publish: Vec<Publication>,
}

pub(super) async fn combined(here: &Here, asked: &Asked) -> Done {
    let denial = asked::denial(&asked.head)?;
    let body: Body<'_> = asked::body(&asked.body, FORM)?;
    if body.checks.is_empty() || body.checks.len() > COMBINED_MAX {
        return Err(Refused::bad(format!("there are 1 to {COMBINED_MAX} checks, not {}", body.checks.len())));
    }
    let rule = match body.rule {
        Word::All => Rule::All,
        Word::Any => Rule::Any,
    };
    let mut limits = Vec::with_capacity(body.checks.len());
    for Object(one) in &body.checks {
        let named = policy(here, &one.policy)?;
        let question = question(&named, &one.key.0, one.cost)?;
        limits.push((named, question));
    }
    let once = run::once_of(asked, limits.iter().map(|(named, _)| &**named))?;
    let then = then(here, asked, body.then.as_ref().map(|then| &then.0))?;
    let plan = Plan { once, rule, limits: &limits, then, denial };
    let stopwatch = Stopwatch::start();
    let ran = match decide(here, plan).await {
        Ok(Ran::Again(kept)) => return Ok(again(&limits, kept, here.app.now())),
        Ok(Ran::New(outcome)) => Ok(outcome),
        Err(refused) => Err(refused),
    };
    count(rule, &limits, &body.checks, &ran, stopwatch.elapsed());
    let outcome = ran?;
    here.caller.borrow().publish(&outcome.publish);
    let names: Vec<&str> = limits.iter().map(|(named, _)| named.definition.name.as_str()).collect();
    let (place, binding, text) = text(rule, &names, &outcome)?;
    let mut reply = reply::json(answer::status(&binding, denial), text);
    answer::headers(&mut reply, &limits[place].0, &binding, outcome.now);
    Ok(reply)
}

/// The first answer once more, with the headers of the policy that was binding.
fn again(limits: &[(Arc<Named>, Question)], kept: Kept, now: Millis) -> Reply {
    // By this reader, because it has what the client wrote in it.
    let told = document::parse(&kept.body).ok();
    let name = told.as_ref().and_then(|told| told["policy"].as_str());
    match limits.iter().find(|(named, _)| Some(named.definition.name.as_str()) == name) {
        Some((named, _)) => answer::again(named, kept, now),
        None => reply::kept(kept),
    }
}

/// Counts each limit's part. One that would have let it pass, and was not asked to because of another, has decided nothing.
fn count(
    rule: Rule,
    limits: &[(Arc<Named>, Question)],
    checks: &[Object<One<'_>>],
    ran: &Result<Outcome, Refused>,
    took: Duration,
) {
    let of = limits.iter().zip(checks).map(|((named, _), Object(one))| (named, &*one.key.0));
    match ran {
        Ok(outcome) => {
            let admitted = rule.admits(&outcome.decisions);
            for ((named, key), decision) in of.zip(&outcome.decisions) {
                if admitted || !decision.allowed {
                    named.count(key, Ok(decision));
                }
            }
        }
        // What was refused for how it was asked, or for what it wanted to write, is no failure of a limit.
        Err(Refused::Broken(error)) if is_broken(error) => {
            of.for_each(|(named, key)| named.count(key, Err(error)));
        }
        Err(_) => return,
    }
    for (n, (named, _)) in limits.iter().enumerate() {
        // A policy that is asked for several keys took its time once.
        if !limits[..n].iter().any(|(before, _)| Arc::ptr_eq(before, named)) {
            named.took(took);
        }
    }
}

/// The text of the answer, with the binding decision and its place.
fn text(rule: Rule, names: &[&str], outcome: &Outcome) -> Result<(usize, Decision, String), Refused> {
    let Some((place, binding)) = rule.binding(&outcome.decisions) else {
        return Err(Refused::bad("there are no checks"));
    };
    let mut parts = Vec::with_capacity(names.len());
    for (name, decision) in names.iter().zip(&outcome.decisions) {
        parts.push(answer::text(decision, &[("policy", json!(name))])?);
    }
    let mut text = answer::text(&binding, &[("policy", json!(names[place]))])?;
    text.truncate(text.len() - 1);
    text.push_str(&format!(",\"decisions\":[{}]", parts.join(",")));
    if let Some(results) = &outcome.results {
        text.push_str(&format!(",\"results\":[{}]", results.join(",")));
    }
    text.push('}');
    Ok((place, binding, text))
}

/// What is to be written, checked as far as that goes without running it.
fn then(here: &Here, asked: &Asked, text: Option<&ThenText<'_>>) -> Result<Then, Refused> {
    let many = || Refused::TooLarge(format!("at most {THEN_MAX} commands or operations follow a decision"));
    match text {
        None => Ok(Then::Nothing),
        Some(ThenText { commands: Some(text), operations: None }) => {
            let commands = rest::body::commands(text.get().as_bytes())
                .map_err(|refused| Refused::bad(format!("\"commands\": {}", refused.0)))?;
            if commands.len() > THEN_MAX {
                return Err(many());
            }
            let queued = |(n, command)| match rest::run::spec_of(here, asked.rights, &command) {
                Ok(spec) if spec.flags.has(flag::NO_MULTI) || !matches!(spec.run, Run::Data(_)) => {
                    let name = spec.full_name;
                    Err(batch::at(n, Refused::bad(format!("the command '{name}' cannot follow a decision"))))
                }
                Ok(spec) => Ok(Queued { spec, command }),
                Err(fail) => Err(batch::at(n, refused(fail))),
            };
            commands.into_iter().enumerate().map(queued).collect::<Result<_, _>>().map(Then::Commands)
        }
        Some(ThenText { commands: None, operations: Some(text) }) => {
            let tree = document::parse(text.get().as_bytes())
                .map_err(|flaw| Refused::flaw("\"operations\"", &flaw))?;
            let Value::Array(operations) = tree else {
                return Err(Refused::bad("\"operations\" is an array"));
            };
            if operations.len() > THEN_MAX {
                return Err(many());
            }
            let read = |(n, one)| batch::operation(one).map_err(|refused| batch::at(n, refused));
            operations.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Then::Operations)
        }
        Some(_) => Err(Refused::bad("\"then\" has either \"commands\" or \"operations\"")),
    }
}

/// A command's refusal in the words of this door.
fn refused(fail: Fail) -> Refused {
    match fail {
        Fail::Broken(error) => Refused::Broken(error),
        fail => {
            let line = fail.line();
            match line.starts_with("WRONGTYPE") {
                true => Refused::WrongType("the key holds something of another type"),
                false => Refused::bad(line),
            }
        }
    }
}

async fn decide(here: &Here, plan: Plan<'_>) -> Result<Ran<Outcome>, Refused> {
    let limits = plan.limits;
    let engine = &here.app.engine;
    let shard = engine.shard_of(limits[0].1.key().as_bytes());
    let is_on_engine = limits.iter().all(|(named, _)| named.place == Place::Engine);
    let is_together = limits.iter().all(|(_, question)| engine.shard_of(question.key().as_bytes()) == shard);
    if is_on_engine && is_together {
        return on_shard(here, shard, plan).await;
    }
    match plan.then {
        Then::Nothing if plan.once.is_none() => {}
        Then::Nothing if is_on_engine => return Err(Refused::bad(run::NAMED_APART)),
        _ if is_on_engine => return Err(Refused::bad(APART)),
        _ => {
            return Err(Refused::bad(
                "only with policies on the store 'engine' can something be written, too",
            ));
        }
    }
    let decisions = elsewhere(plan.rule, limits).await;
    let decisions = decisions.or_else(|error| opened(limits, &error).ok_or(error))?;
    Ok(Ran::New(Outcome { decisions, now: here.app.now(), results: None, publish: Vec::new() }))
}

/// Without a store nothing is decided, unless all limits say that then everybody may pass.
fn opened(limits: &[(Arc<Named>, Question)], error: &keystead_core::Error) -> Option<Vec<Decision>> {
    limits.iter().map(|(named, _)| named.limiter.open_for(error).map(|(decision, _)| decision)).collect()
}

/// All of them in one step.
async fn on_shard(here: &Here, shard: usize, plan: Plan<'_>) -> Result<Ran<Outcome>, Refused> {
    let Plan { once, rule, limits, then, denial } = plan;
    let engine = &here.app.engine;
    let is_here = match &then {
        Then::Nothing => true,
        Then::Operations(operations) => {
            operations.iter().all(|operation| engine.shard_of(&operation.key) == shard)
        }
        Then::Commands(queue) => engine.shards() == 1 || place_of(engine, queue, Some(shard)).is_ok(),
    };
    if !is_here {
        return Err(Refused::bad(APART));
    }
    let questions: Vec<Question> = limits.iter().map(|(_, question)| question.clone()).collect();
    let names: Vec<String> = limits.iter().map(|(named, _)| named.definition.name.clone()).collect();
    let (hub, random) = (Arc::clone(&here.app.hub), Random::new(here.caller.borrow_mut().random.next()));
    let writes_nothing = matches!(then, Then::Nothing);
    let has_name = once.is_some();
    let ran = once::run_at(here, shard, once, move |keyspace, now| {
        let outcome = run(keyspace, now, rule, &questions, &then, (shard, random, &hub))?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Only what can be repeated is kept.
        let kept = match has_name {
            true => {
                let (_, binding, text) = text(rule, &names, &outcome)?;
                answer::kept_text(answer::status(&binding, denial), &text)
            }
            false => answer::kept_text(StatusCode::OK, ""),
        };
        Ok::<_, Refused>((kept, Some(outcome)))
    });
    match ran.await {
        Ok((_, Some(outcome))) => Ok(Ran::New(outcome)),
        Ok((kept, None)) => Ok(Ran::Again(kept)),
        Err(Refused::Broken(error)) if writes_nothing => {
            let decisions = opened(limits, &error).ok_or(error)?;
            Ok(Ran::New(Outcome { decisions, now: here.app.now(), results: None, publish: Vec::new() }))
        }
        Err(refused) => Err(refused),
    }
}

fn run(
    keyspace: &mut Keyspace,
    now: Millis,
    rule: Rule,
    questions: &[Question],
    then: &Then,
    (shard, mut random, hub): (usize, Random, &Hub),
) -> Result<Outcome, Refused> {
    let decisions = rule.check(questions, &mut Held { keyspace, now })?;
    let mut outcome = Outcome { decisions, now, results: None, publish: Vec::new() };
    if !rule.admits(&outcome.decisions) {
        return Ok(outcome);
    }
    let mut results = Vec::new();
    match then {
        Then::Nothing => return Ok(outcome),
        Then::Operations(operations) => {
            for (n, operation) in operations.iter().enumerate() {
                results.push(batch::one(operation, keyspace, now).map_err(|refused| batch::at(n, refused))?);
            }
        }
        Then::Commands(queue) => {
            let ctx = Ctx { shard, dialect: Dialect::Upstash, ..Ctx::new(keyspace, now, &mut random, hub) };
            let (replies, publish) = run_queue(queue, ctx, REST_ANSWER_BYTES_MAX).map_err(refused)?;
            for (n, reply) in replies.into_iter().enumerate() {
                match reply.unwrap_or(Answer::Nil) {
                    Answer::Error(fail) => return Err(batch::at(n, refused(fail))),
                    reply => results.push(encoded(&reply)),
                }
            }
            outcome.publish = publish;
        }
    }
    if results.iter().map(String::len).sum::<usize>() > REST_ANSWER_BYTES_MAX {
        return Err(Refused::TooLarge(format!("the answer is over {REST_ANSWER_BYTES_MAX} bytes")));
    }
    outcome.results = Some(results);
    Ok(outcome)
}

fn encoded(reply: &Answer) -> String {
    let mut out = Vec::new();
    wire::encode(reply, Strings::Plain, &mut out);
    // The encoder writes text.
    String::from_utf8(out).unwrap_or_default()
}

/// As one where all of them are in one store that can, else in turn.
async fn elsewhere(rule: Rule, limits: &[(Arc<Named>, Question)]) -> Applied<Vec<Decision>> {
    let (first, _) = &limits[0];
    if limits.iter().all(|(named, _)| named.is_beside(first)) {
        let questions: Vec<Question> = limits.iter().map(|(_, question)| question.clone()).collect();
        return rule.check_on(&questions, first.limiter.store()).await;
    }
    let asked: Vec<_> = limits.iter().map(|(named, question)| (question, named.limiter.store())).collect();
    rule.check_in_turn(&asked).await
}
