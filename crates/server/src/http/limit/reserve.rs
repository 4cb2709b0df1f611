//! `POST /limit/{policy}/reserve` and `.../settle`: costs that are only known afterwards. Touches the store of the policy.

use std::sync::Arc;

use hyper::StatusCode;
use keystead_core::{Applies, Key, Millis, Result, Stopwatch, Store};
use keystead_http_api::limit::bodies::{Bill, Estimate, has_units, no_reservation, whole};
use keystead_limit::reserve::{Reserve, Settle};
use keystead_limit::{Decision, Limiter, Reserved};
use serde_json::{Value, json};

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params;
use super::run::{self, PolicyStep, Ran};
use super::{find_policy, question, response};
use crate::bounds::{RESERVATION_MS, RESERVATION_MS_MAX};
use crate::policies::active::ActivePolicy;

/// `POST /limit/{policy}/reserve`
pub(in super::super) async fn reserve(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    let denial = params::denial(&request.head)?;
    let active = find_policy(context, name)?;
    let body: Estimate<'_> = params::body(&request.body, r#"{"key":"ada","cost":4000,"ttlMs":60000}"#)?;
    request.require_write()?;
    has_units(&active.definition.policy)?;
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
    let step = ReserveUnits::new(&active, &body.key.0, cost, ttl_ms)?;
    let response =
        move |reserved: &Reserved| response::stored(&reserved.decision, more(reserved).as_slice(), denial);
    let stopwatch = Stopwatch::start();
    let reserved = match run::apply(context, &active, idempotency_key, step, response).await {
        Ok(Ran::Stored(stored)) => return Ok(response::stored_reply(&active, stored, context.app.now())),
        Ok(Ran::New(reserved)) => Ok(reserved),
        Err(ApiError::Broken(error)) => Err(error),
        Err(error) => return Err(error),
    };
    active.count(&body.key.0, reserved.as_ref().map(|reserved| &reserved.decision));
    active.observe(stopwatch.elapsed());
    let reserved = reserved?;
    let (decision, now) = (reserved.decision, reserved.now);
    Ok(response::decided(&active, &decision, now, more(&reserved).as_slice(), denial)?)
}

/// Reserves an estimate.
struct ReserveUnits {
    name: Vec<u8>,
    cost: u64,
    ttl_ms: u64,
    reserve: Reserve,
    key: Key,
    note: Key,
}

impl ReserveUnits {
    fn new(active: &ActivePolicy, name: &[u8], cost: u64, ttl_ms: u64) -> Result<ReserveUnits> {
        let reserve = active.limiter.reserving(name, cost, ttl_ms)?;
        let [key, note, _] = reserve.keys();
        Ok(ReserveUnits { name: name.to_vec(), cost, ttl_ms, reserve, key, note })
    }
}

impl PolicyStep for ReserveUnits {
    type Output = Reserved;
    const WRITES: bool = true;

    fn key(&self) -> &Key {
        &self.key
    }

    fn second_key(&self) -> Option<&Key> {
        Some(&self.note)
    }

    fn run(self, state: &mut dyn Applies) -> Result<Reserved> {
        self.reserve.run(state)
    }

    async fn run_on(self, limiter: &Limiter<Arc<dyn Store>>) -> Result<Reserved> {
        limiter.reserve(&self.name, self.cost, self.ttl_ms).await
    }

    fn failed_open(decision: Decision, now: Millis) -> Option<Reserved> {
        Some(Reserved { decision, now, id: None })
    }
}

/// `POST /limit/{policy}/settle`
pub(in super::super) async fn settle(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    Parameters::of(&request.head, &[])?;
    let active = find_policy(context, name)?;
    let body: Bill<'_> = params::body(&request.body, r#"{"key":"ada","id":1,"cost":1500}"#)?;
    request.require_write()?;
    has_units(&active.definition.policy)?;
    question(&active, &body.key.0, 1)?;
    let id = whole(body.id)?;
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let cost = body.cost;
    let step = SettleUnits::new(&active, &body.key.0, id, cost)?;
    let response = move |settled: &Option<Decision>| match settled {
        Some(decision) => response::stored(decision, &[("settled", Value::from(cost))], StatusCode::OK),
        None => Ok(no_reservation().stored()),
    };
    match run::apply(context, &active, idempotency_key, step, response).await? {
        Ran::Stored(stored) => Ok(reply::stored(stored)),
        Ran::New(None) => Err(no_reservation()),
        // The decision is the state afterwards, so its status is never that of a denial.
        Ran::New(Some(decision)) => {
            let text = response::text(&decision, &[("settled", Value::from(cost))])?;
            Ok(reply::json(StatusCode::OK, text))
        }
    }
}

/// Settles a reservation.
struct SettleUnits {
    name: Vec<u8>,
    id: u64,
    cost: u64,
    settle: Settle,
    key: Key,
    note: Key,
}

impl SettleUnits {
    fn new(active: &ActivePolicy, name: &[u8], id: u64, cost: u64) -> Result<SettleUnits> {
        let settle = active.limiter.settling(name, id, cost)?;
        let [key, note, _] = settle.keys();
        Ok(SettleUnits { name: name.to_vec(), id, cost, settle, key, note })
    }
}

impl PolicyStep for SettleUnits {
    /// The state afterwards; nothing where there is no such reservation.
    type Output = Option<Decision>;
    const WRITES: bool = true;

    fn key(&self) -> &Key {
        &self.key
    }

    fn second_key(&self) -> Option<&Key> {
        Some(&self.note)
    }

    fn run(self, state: &mut dyn Applies) -> Result<Option<Decision>> {
        Ok(self.settle.run(state)?.map(|(decision, _)| decision))
    }

    async fn run_on(self, limiter: &Limiter<Arc<dyn Store>>) -> Result<Option<Decision>> {
        limiter.settle_reserved(&self.name, self.id, self.cost).await
    }

    fn failed_open(_: Decision, _: Millis) -> Option<Option<Decision>> {
        None
    }
}
