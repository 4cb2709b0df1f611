//! `GET /limit` and `GET /limit/{policy}`: which policies are in force, and what was counted. Touches nothing.

use std::sync::PoisonError;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::super::context::HttpContext;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::{Done, policy};
use crate::bounds::DENIED_KEYS_TOLD;
use crate::policies::active::ActivePolicy;
use crate::written;

pub(super) fn list(context: &HttpContext, request: &HttpRequest) -> Done {
    Parameters::of(&request.head, &[])?;
    let set = context.app.policies.set();
    let policies: Vec<Value> = set.by_name.values().map(|active| described(active)).collect();
    Ok(reply::json(StatusCode::OK, json!({ "policies": policies, "problem": set.problem })))
}

pub(super) fn one(context: &HttpContext, request: &HttpRequest, policy_name: &str) -> Done {
    Parameters::of(&request.head, &[])?;
    let active = policy(context, policy_name)?;
    let mut told = described(&active);
    let top = active.denied.lock().unwrap_or_else(PoisonError::into_inner).top(DENIED_KEYS_TOLD);
    let top: Vec<Value> =
        top.iter().map(|(key, count)| json!({ "key": written::shown(key), "denied": count })).collect();
    if let Value::Object(told) = &mut told {
        told.insert("topDenied".to_owned(), Value::Array(top));
    }
    Ok(reply::json(StatusCode::OK, told))
}

fn described(active: &ActivePolicy) -> Value {
    let (definition, counts) = (&active.definition, &active.counts);
    json!({
        "name": definition.name,
        "kind": definition.policy.kind(),
        "limit": definition.policy.limit(),
        "windowMs": definition.policy.window_ms().ceil() as u64,
        "store": definition.store.shown(),
        "fail": definition.policy.fail().map(keystead_limit::Fail::as_str),
        "definition": definition.shown,
        "allowed": counts.allowed.get(),
        "denied": counts.denied.get(),
        "failedOpen": counts.failed_open.get(),
        "errors": counts.errors.get(),
        "storeBroken": active.is_store_broken(),
    })
}
