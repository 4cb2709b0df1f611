//! `GET /limit` and `GET /limit/{policy}`: the active policies and their counts. Touches nothing.

use std::sync::PoisonError;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::super::context::HttpContext;
use super::super::error::ApiResult;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::{find_policy, params};
use crate::bounds::DENIED_KEYS_LISTED;
use crate::policies::active::ActivePolicy;
use crate::written;

pub(in super::super) async fn list(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    Parameters::of(&request.head, &[])?;
    let set = context.app.policies.set();
    let policies: Vec<Value> = set.by_name.values().map(|active| summary(active)).collect();
    Ok(reply::json(StatusCode::OK, json!({ "policies": policies, "problem": set.problem })))
}

pub(in super::super) async fn policy(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let name = params::policy_name(request)?;
    Parameters::of(&request.head, &[])?;
    let active = find_policy(context, name)?;
    let mut body = summary(&active);
    let top = active.denied.lock().unwrap_or_else(PoisonError::into_inner).top(DENIED_KEYS_LISTED);
    let top: Vec<Value> =
        top.iter().map(|(key, count)| json!({ "key": written::shown(key), "denied": count })).collect();
    if let Value::Object(body) = &mut body {
        body.insert("topDenied".to_owned(), Value::Array(top));
    }
    Ok(reply::json(StatusCode::OK, body))
}

fn summary(active: &ActivePolicy) -> Value {
    let (definition, counts) = (&active.definition, &active.counts);
    json!({
        "name": definition.name,
        "kind": definition.policy.kind(),
        "limit": definition.policy.limit(),
        "windowMs": definition.policy.window_ms().ceil() as u64,
        "store": definition.store.shown(),
        "fail": definition.policy.fail().map(keystead_limit::FailMode::as_str),
        "definition": definition.shown,
        "allowed": counts.allowed.get(),
        "denied": counts.denied.get(),
        "failedOpen": counts.failed_open.get(),
        "errors": counts.errors.get(),
        "storeBroken": active.is_store_broken(),
    })
}
