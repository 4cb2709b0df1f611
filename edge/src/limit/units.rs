//! Leases of concurrency policies, and reservations of costs that are only known afterwards. Touches the database it is given.

use http::StatusCode;
use keystead_commands::ctx::Rights;
use keystead_core::Applies;
use keystead_http_api::bounds::{RESERVATION_MS, RESERVATION_MS_MAX};
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency;
use keystead_http_api::limit::bodies::{
    Acquire, Bill, Estimate, ReleaseBody, has_leases, has_units, no_reservation, whole,
};
use keystead_http_api::limit::params::{body, denial};
use keystead_http_api::limit::response::{stored, stored_text};
use keystead_http_api::parameters::Parameters;
use keystead_limit::strategy::Release;
use keystead_model::keyspace::Held;
use serde_json::{Value, json};

use super::{Active, question};
use crate::database::{Database, now};
use crate::kv::{ApiResult, at_most_once};
use crate::object::Arrived;

fn may_write(request: &Arrived<'_>) -> Result<(), ApiError> {
    if request.rights == Rights::ReadOnly { Err(ApiError::ReadOnly) } else { Ok(()) }
}

/// `POST /limit/{policy}/acquire`
pub(super) fn acquire(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    let denial = denial(request.head)?;
    let asked: Acquire<'_> = body(request.body, r#"{"key":"export"}"#)?;
    may_write(request)?;
    has_leases(active.limiter.policy())?;
    let mut question = question(active, &asked.key.0, 1)?;
    if let Some(lease_id) = asked.lease_id {
        question = question.renewing(whole(lease_id)?);
    }
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    let mut reply = at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let (decision, _) = question.check(&mut Held { keyspace, now })?;
        Ok(stored(&decision, &[], denial)?)
    })?;
    active.mark(&mut reply, now());
    Ok(reply)
}

/// `POST /limit/{policy}/release`
pub(super) fn release(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    Parameters::of(request.head, &[])?;
    let asked: ReleaseBody<'_> = body(request.body, r#"{"key":"export","leaseId":1}"#)?;
    may_write(request)?;
    has_leases(active.limiter.policy())?;
    let question = question(active, &asked.key.0, 1)?;
    let step = Release { lease_id: whole(asked.lease_id)? };
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let held: &mut dyn Applies = &mut Held { keyspace, now };
        let released = held.apply(question.key(), &step)?;
        Ok(stored_text(StatusCode::OK, &json!({ "released": released }).to_string()))
    })
}

/// `POST /limit/{policy}/reserve`
pub(super) fn reserve(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    let denial = denial(request.head)?;
    let asked: Estimate<'_> = body(request.body, r#"{"key":"ada","cost":4000,"ttlMs":60000}"#)?;
    may_write(request)?;
    has_units(active.limiter.policy())?;
    question(active, &asked.key.0, asked.cost)?;
    let ttl_ms = asked.ttl_ms.unwrap_or(RESERVATION_MS);
    if !(1..=RESERVATION_MS_MAX).contains(&ttl_ms) {
        return Err(ApiError::bad(format!("ttlMs is a whole number from 1 to {RESERVATION_MS_MAX}")));
    }
    let (cost, step) = (asked.cost, active.limiter.reserving(&*asked.key.0, asked.cost, ttl_ms)?);
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    let mut reply = at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let reserved = step.run(&mut Held { keyspace, now })?;
        let expires_at = reserved.now.plus_ms(ttl_ms).0;
        let note = reserved.id.map(|id| json!({ "id": id, "cost": cost, "expiresAt": expires_at }));
        let more = note.map(|note| ("reservation", note));
        Ok(stored(&reserved.decision, more.as_slice(), denial)?)
    })?;
    active.mark(&mut reply, now());
    Ok(reply)
}

/// `POST /limit/{policy}/settle`
pub(super) fn settle(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    Parameters::of(request.head, &[])?;
    let asked: Bill<'_> = body(request.body, r#"{"key":"ada","id":1,"cost":1500}"#)?;
    may_write(request)?;
    has_units(active.limiter.policy())?;
    question(active, &asked.key.0, 1)?;
    let step = active.limiter.settling(&*asked.key.0, whole(asked.id)?, asked.cost)?;
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let (decision, _) = step.run(&mut Held { keyspace, now })?.ok_or_else(no_reservation)?;
        Ok(stored(&decision, &[("settled", Value::from(asked.cost))], StatusCode::OK)?)
    })
}
