//! `POST /limit/{policy}/acquire` and `.../release`: the leases of a `concurrency` policy. Touches the store of the policy.

use hyper::StatusCode;
use keystead_core::Applies;
use keystead_limit::strategy::{AnyStrategy, Release};
use serde::Deserialize;
use serde_json::json;

use super::super::here::Here;
use super::super::parameters::Parameters;
use super::super::refused::Refused;
use super::super::reply;
use super::super::request::Asked;
use super::asked;
use super::run::{self, Ran};
use super::{Done, answer, check, policy, question, writer};
use crate::policies::named::{Named, Place};
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

pub(super) async fn acquire(here: &Here, asked: &Asked, name: &str) -> Done {
    let denial = asked::denial(&asked.head)?;
    let named = policy(here, name)?;
    let body: Acquire<'_> = asked::body(&asked.body, r#"{"key":"export"}"#)?;
    writer(asked)?;
    has_leases(&named)?;
    let mut question = question(&named, &body.key.0, 1)?;
    if let Some(lease_id) = body.lease_id {
        question = question.renewing(whole(lease_id)?);
    }
    check::told(here, asked, &named, &body.key.0, question, denial).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Give<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(rename = "leaseId", deserialize_with = "written::whole")]
    lease_id: u64,
}

pub(super) async fn release(here: &Here, asked: &Asked, name: &str) -> Done {
    Parameters::of(&asked.head, &[])?;
    let named = policy(here, name)?;
    let body: Give<'_> = asked::body(&asked.body, r#"{"key":"export","leaseId":1}"#)?;
    writer(asked)?;
    has_leases(&named)?;
    let lease_id = whole(body.lease_id)?;
    let once = run::once_of(asked, [&*named])?;
    let at = question(&named, &body.key.0, 1)?.key().clone();
    let told = |released: &bool| json!({ "released": released });
    let released = match named.place {
        Place::Engine => {
            let key = at.clone();
            let release = move |held: &mut dyn Applies| held.apply(&key, &Release { lease_id });
            let tell =
                move |released: &bool| Ok(answer::kept_text(StatusCode::OK, &told(released).to_string()));
            match run::change(here, once, &at, release, tell).await? {
                Ran::Again(kept) => return Ok(reply::kept(kept)),
                Ran::New(released) => released,
            }
        }
        Place::Sync | Place::Elsewhere => named.limiter.release(&body.key.0, lease_id).await?,
    };
    Ok(reply::json(StatusCode::OK, told(&released)))
}

fn has_leases(named: &Named) -> Result<(), Refused> {
    match named.definition.policy.strategy() {
        AnyStrategy::Concurrency(_) => Ok(()),
        _ => {
            let kind = named.definition.policy.kind();
            Err(Refused::bad(format!("a {kind} policy has no leases: only concurrency has")))
        }
    }
}

/// A number that every reader of JSON keeps exactly.
pub(super) fn whole(number: u64) -> Result<u64, Refused> {
    match (1..=keystead_limit::limits::WHOLE_MAX).contains(&number) {
        true => Ok(number),
        false => Err(Refused::bad("an id is a whole number from 1 to 9007199254740991")),
    }
}
