//! `GET /limit` and `GET /limit/{policy}`: which policies are in force, and what was counted. Touches nothing.

use std::sync::PoisonError;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::super::here::Here;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::Asked;
use super::{Done, policy};
use crate::limits::DENIED_KEYS_TOLD;
use crate::policies::named::Named;
use crate::written;

pub(super) fn list(here: &Here, asked: &Asked) -> Done {
    Parameters::of(&asked.head, &[])?;
    let set = here.app.policies.set();
    let policies: Vec<Value> = set.by_name.values().map(|named| described(named)).collect();
    Ok(reply::json(StatusCode::OK, json!({ "policies": policies, "problem": set.problem })))
}

pub(super) fn one(here: &Here, asked: &Asked, policy_name: &str) -> Done {
    Parameters::of(&asked.head, &[])?;
    let named = policy(here, policy_name)?;
    let mut told = described(&named);
    let top = named.denied.lock().unwrap_or_else(PoisonError::into_inner).top(DENIED_KEYS_TOLD);
    let top: Vec<Value> =
        top.iter().map(|(key, count)| json!({ "key": written::shown(key), "denied": count })).collect();
    if let Value::Object(told) = &mut told {
        told.insert("topDenied".to_owned(), Value::Array(top));
    }
    Ok(reply::json(StatusCode::OK, told))
}

fn described(named: &Named) -> Value {
    let (definition, counts) = (&named.definition, &named.counts);
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
        "storeBroken": named.is_store_broken(),
    })
}
