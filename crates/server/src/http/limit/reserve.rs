//! `POST /limit/{policy}/reserve` and `.../settle`: costs that are known only afterwards. Touches the store of the policy.

use hyper::StatusCode;
use keystead_core::{Applies, Error, Key, Stopwatch};
use keystead_limit::strategy::AnyStrategy;
use keystead_limit::{Decision, Reserved};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::lease::whole;
use super::params;
use super::run::{self, Ran};
use super::{Done, answer, policy, question, writer};
use crate::bounds::{RESERVATION_MS, RESERVATION_MS_MAX};
use crate::policies::active::{ActivePolicy, Backend};
use crate::written::{self, KeyText};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(deserialize_with = "written::whole")]
    cost: u64,
    /// How long it waits to be settled.
    #[serde(default, rename = "ttlMs", deserialize_with = "written::whole_or_none")]
    ttl_ms: Option<u64>,
}

pub(super) async fn reserve(context: &HttpContext, request: &HttpRequest, name: &str) -> Done {
    let denial = params::denial(&request.head)?;
    let active = policy(context, name)?;
    let body: Estimate<'_> = params::body(&request.body, r#"{"key":"ada","cost":4000,"ttlMs":60000}"#)?;
    writer(request)?;
    has_units(&active)?;
    question(&active, &body.key.0, body.cost)?;
    let ttl_ms = body.ttl_ms.unwrap_or(RESERVATION_MS);
    if !(1..=RESERVATION_MS_MAX).contains(&ttl_ms) {
        return Err(ApiError::bad(format!("ttlMs is a whole number from 1 to {RESERVATION_MS_MAX}")));
    }
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let cost = body.cost;
    let more = move |reserved: &Reserved| {
        reserved.id.map(|id| {
            let expires_at = reserved.now.plus_ms(ttl_ms).0;
            ("reservation", json!({ "id": id, "cost": cost, "expiresAt": expires_at }))
        })
    };
    let stopwatch = Stopwatch::start();
    let answer = match active.backend {
        Backend::Engine => {
            let reserving = active.limiter.reserving(&body.key.0, cost, ttl_ms)?;
            let [key, note, _] = reserving.keys();
            together(context, &key, &note)?;
            let tell = move |reserved: &Reserved| {
                answer::kept(&reserved.decision, more(reserved).as_slice(), denial)
            };
            match run::change(context, idempotency_key, &key, move |held| reserving.run(held), tell).await {
                Ok(Ran::Again(kept)) => return Ok(answer::again(&active, kept, context.app.now())),
                Ok(Ran::New(reserved)) => Ok(reserved),
                Err(ApiError::Broken(error)) => active
                    .limiter
                    .settled(Err(error))
                    .map(|(decision, now)| Reserved { decision, now, id: None }),
                Err(refused) => return Err(refused),
            }
        }
        Backend::Sync | Backend::Elsewhere => active.limiter.reserve(&body.key.0, cost, ttl_ms).await,
    };
    active.count(&body.key.0, answer.as_ref().map(|reserved| &reserved.decision));
    active.took(stopwatch.elapsed());
    let reserved = answer?;
    let (decision, now) = (reserved.decision, reserved.now);
    Ok(answer::decided(&active, &decision, now, more(&reserved).as_slice(), denial)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bill<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(deserialize_with = "written::whole")]
    id: u64,
    #[serde(deserialize_with = "written::whole")]
    cost: u64,
}

pub(super) async fn settle(context: &HttpContext, request: &HttpRequest, name: &str) -> Done {
    Parameters::of(&request.head, &[])?;
    let active = policy(context, name)?;
    let body: Bill<'_> = params::body(&request.body, r#"{"key":"ada","id":1,"cost":1500}"#)?;
    writer(request)?;
    has_units(&active)?;
    question(&active, &body.key.0, 1)?;
    let id = whole(body.id)?;
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let cost = body.cost;
    let settled = match active.backend {
        Backend::Engine => {
            let settling = active.limiter.settling(&body.key.0, id, cost)?;
            let [key, note, _] = settling.keys();
            together(context, &key, &note)?;
            let settle = move |held: &mut dyn Applies| Ok(settling.run(held)?.map(|(decision, _)| decision));
            let tell = move |settled: &Option<Decision>| match settled {
                Some(decision) => answer::kept(decision, &[("settled", Value::from(cost))], StatusCode::OK),
                None => Ok(none().kept()),
            };
            match run::change(context, idempotency_key, &key, settle, tell).await? {
                Ran::Again(kept) => return Ok(reply::kept(kept)),
                Ran::New(settled) => settled,
            }
        }
        Backend::Sync | Backend::Elsewhere => active.limiter.settle_reserved(&body.key.0, id, cost).await?,
    };
    let Some(decision) = settled else { return Err(none()) };
    // How things stand now is no denial of this request.
    Ok(reply::json(StatusCode::OK, answer::text(&decision, &[("settled", Value::from(cost))])?))
}

fn none() -> ApiError {
    ApiError::NotFound(
        "there is no such reservation: it is settled already, or has expired, and its estimate stands"
            .to_owned(),
    )
}

fn has_units(active: &ActivePolicy) -> Result<(), ApiError> {
    match active.definition.policy.strategy() {
        AnyStrategy::Concurrency(_) => {
            Err(ApiError::bad("a concurrency policy has leases, not units: acquire and release them"))
        }
        _ => Ok(()),
    }
}

/// Only keys with braces that are no tag can come apart.
fn together(context: &HttpContext, key: &Key, note: &Key) -> Result<(), Error> {
    let shard = |key: &Key| context.app.engine.shard_of(key.as_bytes());
    match shard(key) == shard(note) {
        true => Ok(()),
        false => Err(Error::new(
            keystead_core::Code::BadRequest,
            "on several shards a reservation needs a key without braces, or with a {tag}",
        )),
    }
}
