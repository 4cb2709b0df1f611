//! `POST /limit/{policy}/acquire` and `.../release`: the leases of a `concurrency` policy. Touches the store of the policy.

use std::sync::Arc;

use hyper::StatusCode;
use keystead_core::{Applies, Key, Millis, Result, Store, StoreExt};
use keystead_http_api::limit::bodies::{Acquire, ReleaseBody, has_leases, whole};
use keystead_limit::strategy::Release;
use keystead_limit::{Decision, Limiter};
use serde_json::json;

use super::super::context::HttpContext;
use super::super::error::ApiResult;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params;
use super::run::{self, PolicyStep, Ran};
use super::{check, find_policy, question, response};

/// `POST /limit/{policy}/acquire`
pub(in super::super) async fn acquire(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    let denial = params::denial(&request.head)?;
    let active = find_policy(context, name)?;
    let body: Acquire<'_> = params::body(&request.body, r#"{"key":"export"}"#)?;
    request.require_write()?;
    has_leases(&active.definition.policy)?;
    let mut question = question(&active, &body.key.0, 1)?;
    if let Some(lease_id) = body.lease_id {
        question = question.renewing(whole(lease_id)?);
    }
    check::decide(context, request, &active, &body.key.0, question, denial).await
}

/// `POST /limit/{policy}/release`
pub(in super::super) async fn release(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    Parameters::of(&request.head, &[])?;
    let active = find_policy(context, name)?;
    let body: ReleaseBody<'_> = params::body(&request.body, r#"{"key":"export","leaseId":1}"#)?;
    request.require_write()?;
    has_leases(&active.definition.policy)?;
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
