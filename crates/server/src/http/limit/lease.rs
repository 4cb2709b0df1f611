//! `POST /limit/{policy}/acquire` and `.../release`: the leases of a `concurrency` policy. Touches the store of the policy.

use hyper::StatusCode;
use keystead_core::Applies;
use keystead_limit::strategy::{AnyStrategy, Release};
use serde::Deserialize;
use serde_json::json;

use super::super::context::HttpContext;
use super::super::error::ApiError;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::params;
use super::run::{self, Ran};
use super::{Done, answer, check, policy, question, writer};
use crate::policies::active::{ActivePolicy, Backend};
use crate::written::{self, KeyText};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acquire<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    /// A lease that is held, to be renewed.
    #[serde(default, rename = "leaseId", deserialize_with = "written::whole_or_none")]
    lease_id: Option<u64>,
}

pub(super) async fn acquire(context: &HttpContext, request: &HttpRequest, name: &str) -> Done {
    let denial = params::denial(&request.head)?;
    let active = policy(context, name)?;
    let body: Acquire<'_> = params::body(&request.body, r#"{"key":"export"}"#)?;
    writer(request)?;
    has_leases(&active)?;
    let mut question = question(&active, &body.key.0, 1)?;
    if let Some(lease_id) = body.lease_id {
        question = question.renewing(whole(lease_id)?);
    }
    check::told(context, request, &active, &body.key.0, question, denial).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Give<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(rename = "leaseId", deserialize_with = "written::whole")]
    lease_id: u64,
}

pub(super) async fn release(context: &HttpContext, request: &HttpRequest, name: &str) -> Done {
    Parameters::of(&request.head, &[])?;
    let active = policy(context, name)?;
    let body: Give<'_> = params::body(&request.body, r#"{"key":"export","leaseId":1}"#)?;
    writer(request)?;
    has_leases(&active)?;
    let lease_id = whole(body.lease_id)?;
    let idempotency_key = run::idempotency_key_of(request, [&*active])?;
    let at = question(&active, &body.key.0, 1)?.key().clone();
    let told = |released: &bool| json!({ "released": released });
    let released = match active.backend {
        Backend::Engine => {
            let key = at.clone();
            let release = move |held: &mut dyn Applies| held.apply(&key, &Release { lease_id });
            let tell =
                move |released: &bool| Ok(answer::kept_text(StatusCode::OK, &told(released).to_string()));
            match run::change(context, idempotency_key, &at, release, tell).await? {
                Ran::Again(kept) => return Ok(reply::kept(kept)),
                Ran::New(released) => released,
            }
        }
        Backend::Sync | Backend::Elsewhere => active.limiter.release(&body.key.0, lease_id).await?,
    };
    Ok(reply::json(StatusCode::OK, told(&released)))
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

/// A number that every reader of JSON keeps exactly.
pub(super) fn whole(number: u64) -> Result<u64, ApiError> {
    match (1..=keystead_limit::bounds::WHOLE_MAX).contains(&number) {
        true => Ok(number),
        false => Err(ApiError::bad("an id is a whole number from 1 to 9007199254740991")),
    }
}
