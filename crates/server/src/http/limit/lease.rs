//! `POST /limit/{policy}/acquire` and `.../release`: the leases of a `concurrency` policy. Touches the store of the policy.

use std::sync::Arc;

use hyper::StatusCode;
use keystead_core::{Applies, Key, Millis, Result, Store, StoreExt};
use keystead_limit::strategy::{AnyStrategy, Release};
use keystead_limit::{Decision, Limiter};
use serde::Deserialize;
use serde_json::json;

use super::super::context::HttpContext;
use super::super::error::{ApiError, ApiResult};
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params;
use super::run::{self, PolicyStep, Ran};
use super::{check, find_policy, question, response};
use crate::policies::active::ActivePolicy;
use crate::written::{self, KeyText};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acquire<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    /// A lease that is held and shall be renewed.
    #[serde(default, rename = "leaseId", deserialize_with = "written::whole_or_none")]
    lease_id: Option<u64>,
}

/// `POST /limit/{policy}/acquire`
pub(in super::super) async fn acquire(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    let denial = params::denial(&request.head)?;
    let active = find_policy(context, name)?;
    let body: Acquire<'_> = params::body(&request.body, r#"{"key":"export"}"#)?;
    request.require_write()?;
    has_leases(&active)?;
    let mut question = question(&active, &body.key.0, 1)?;
    if let Some(lease_id) = body.lease_id {
        question = question.renewing(whole(lease_id)?);
    }
    check::decide(context, request, &active, &body.key.0, question, denial).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(rename = "leaseId", deserialize_with = "written::whole")]
    lease_id: u64,
}

/// `POST /limit/{policy}/release`
pub(in super::super) async fn release(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    Parameters::of(&request.head, &[])?;
    let active = find_policy(context, name)?;
    let body: ReleaseBody<'_> = params::body(&request.body, r#"{"key":"export","leaseId":1}"#)?;
    request.require_write()?;
    has_leases(&active)?;
    let step = ReleaseLease {
        at: question(&active, &body.key.0, 1)?.key().clone(),
        lease_id: whole(body.lease_id)?,
    };
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let text = |released: &bool| json!({ "released": released });
    let response =
        move |released: &bool| Ok(response::stored_text(StatusCode::OK, &text(released).to_string()));
    match run::apply(context, &active, idempotency_key, step, response).await? {
        Ran::Stored(stored) => Ok(reply::stored(stored)),
        Ran::New(released) => Ok(reply::json(StatusCode::OK, text(&released))),
    }
}

/// Gives a lease back.
struct ReleaseLease {
    at: Key,
    lease_id: u64,
}

impl PolicyStep for ReleaseLease {
    /// Whether it was still held.
    type Output = bool;
    const WRITES: bool = true;

    fn key(&self) -> &Key {
        &self.at
    }

    fn run(self, state: &mut dyn Applies) -> Result<bool> {
        state.apply(&self.at, &Release { lease_id: self.lease_id })
    }

    async fn run_on(self, limiter: &Limiter<Arc<dyn Store>>) -> Result<bool> {
        limiter.store().apply(&self.at, &Release { lease_id: self.lease_id }).await
    }

    fn failed_open(_: Decision, _: Millis) -> Option<bool> {
        None
    }
}

fn has_leases(active: &ActivePolicy) -> Result<(), ApiError> {
    match active.definition.policy.strategy() {
        AnyStrategy::Concurrency(_) => Ok(()),
        _ => {
            let kind = active.definition.policy.kind();
            Err(ApiError::bad(format!("a {kind} policy has no leases: only concurrency has")))
        }
    }
}

/// Checks that a number is exact in every JSON implementation.
pub(super) fn whole(number: u64) -> Result<u64, ApiError> {
    match (1..=keystead_limit::bounds::WHOLE_MAX).contains(&number) {
        true => Ok(number),
        false => Err(ApiError::bad("an id is a whole number from 1 to 9007199254740991")),
    }
}
