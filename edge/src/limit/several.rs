//! Checks of several keys, and of several policies with a write in the same step. Touches the database it is given.

use std::sync::Arc;

use http::StatusCode;
use keystead_commands::Random;
use keystead_commands::ctx::Rights;
use keystead_commands::json::document;
use keystead_core::ShardId;
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency;
use keystead_http_api::limit::bodies::Many;
use keystead_http_api::limit::combined::{self, Body, FORM};
use keystead_http_api::limit::params::{body, denial};
use keystead_http_api::limit::response::{status, stored_text};
use keystead_http_api::parameters::Parameters;
use keystead_http_api::upstash::command::allowed;
use keystead_http_api::written::Object;
use keystead_limit::bounds::CHECK_MANY_MAX;
use keystead_limit::{Decision, Question};
use keystead_model::keyspace::Held;

use super::{Active, Policies, question};
use crate::bounds::RESPONSE_BYTES_MAX;
use crate::database::{Database, now};
use crate::exchange::Body::Whole;
use crate::kv::{ApiResult, at_most_once};
use crate::object::Arrived;

/// `POST /limit/{policy}/check`: many keys at one instant.
pub(super) fn check_many(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    Parameters::of(request.head, &[])?;
    let many: Many<'_> = body(request.body, r#"{"keys":[{"key":"ada"},{"key":"bob","cost":2}]}"#)?;
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    if many.keys.len() > CHECK_MANY_MAX {
        return Err(ApiError::TooLarge(format!("at most {CHECK_MANY_MAX} keys are checked at a time")));
    }
    let ask = many.keys.iter().map(|Object(one)| question(active, &one.key.0, one.cost));
    let questions: Vec<Question> = ask.collect::<Result<_, _>>()?;
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let mut held = Held { keyspace, now };
        let mut texts = Vec::with_capacity(questions.len());
        for question in &questions {
            let (decision, _): (Decision, _) = question.check(&mut held)?;
            texts.push(decision.to_json()?);
        }
        Ok(stored_text(StatusCode::OK, &format!("{{\"decisions\":[{}]}}", texts.join(","))))
    })
}

/// `POST /limit`: all policies decide first, and only if the rule admits the request is anything consumed or written.
pub(super) fn combine(database: &mut Database, policies: &Policies, request: &Arrived<'_>) -> ApiResult {
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let denial = denial(request.head)?;
    let asked: Body<'_> = body(request.body, FORM)?;
    asked.check_count()?;
    let mut limits = Vec::with_capacity(asked.checks.len());
    for Object(one) in &asked.checks {
        let active = policies.find(&one.policy)?;
        limits.push((one.policy.as_str(), active, question(active, &one.key.0, one.cost)?));
    }
    let then = combined::then(
        asked.then.as_ref().map(|then| &then.0),
        |command| allowed(request.rights, command),
        || Ok(()),
    )?;
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    let names: Vec<&str> = limits.iter().map(|(name, ..)| *name).collect();
    let questions: Vec<Question> = limits.iter().map(|(.., question)| question.clone()).collect();
    let (hub, mut random) = (Arc::clone(&database.hub), Random::new(database.random.next()));
    let (rule, home, mut publish) = (asked.rule(), ShardId::default(), Vec::new());
    let mut reply = at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let with = (home, &mut random, &*hub);
        let result = combined::run(keyspace, now, rule, &questions, &then, with, RESPONSE_BYTES_MAX)?;
        let (_, binding, text) = combined::text(rule, &names, &result)?;
        publish = result.publish;
        Ok(stored_text(status(&binding, denial), &text))
    })?;
    database.publish(&publish);
    let response = match &reply.body {
        // With this parser, because the response contains values of the client.
        Whole(bytes) => document::parse(bytes).ok(),
        _ => None,
    };
    let binding = response.as_ref().and_then(|response| response["policy"].as_str());
    if let Some((_, active, _)) = limits.iter().find(|(name, ..)| Some(*name) == binding) {
        active.mark(&mut reply, now());
    }
    Ok(reply)
}
