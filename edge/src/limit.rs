//! Rate limits on the keys of an object: `/limit/{policy}`. Touches the database it is given.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use keystead_commands::ctx::Rights;
use keystead_commands::idempotency::StoredResponse;
use keystead_core::{ManualClock, MemoryStore, Millis, Result};
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency;
use keystead_http_api::parameters::{Parameters, decoded};
use keystead_http_api::written::{self, KeyText, Object};
use keystead_limit::lease::LeaseIds;
use keystead_limit::{Decision, FailMode, HeaderStyles, Headers, Limiter, Policy};
use keystead_model::keyspace::Held;
use serde::Deserialize;
use serde_json::json;
use worker::Env;

use crate::database::{Completion, Database};
use crate::exchange::{JSON, Reply};
use crate::kv::{ApiResult, at_most_once, missing};
use crate::object::Arrived;
use crate::settings;

/// The active policies.
pub(crate) struct Policies(BTreeMap<String, Active>);

/// One of them. Its questions run on the object's keys: the limiter's own store is never used.
struct Active {
    limiter: Limiter<Arc<MemoryStore>>,
    prefix: String,
    headers: Headers,
}

impl Policies {
    pub(crate) fn of(env: &Env) -> Result<Policies> {
        let active = |(name, policy): (String, Policy)| {
            let prefix = prefix_of(&name, &policy);
            let limiter = Limiter::new(policy.clone(), Arc::new(MemoryStore::new()), FailMode::Closed)
                .prefix(&prefix)
                .clock(ManualClock::default())
                .lease_ids(LeaseIds::of_node(0));
            let headers = headers_of(&policy);
            (name, Active { limiter, prefix, headers })
        };
        Ok(Policies(settings::policies(env)?.into_iter().map(active).collect()))
    }
}

/// The prefix of the keys of a policy.
pub(crate) fn prefix_of(name: &str, policy: &Policy) -> String {
    format!("limit:{name}:{}", policy.strategy().word())
}

pub(crate) fn headers_of(policy: &Policy) -> Headers {
    Headers::new(policy, HeaderStyles::default())
}

/// The body of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct One<'a> {
    #[serde(borrow)]
    pub(crate) key: KeyText<'a>,
    #[serde(default = "one", deserialize_with = "written::whole")]
    pub(crate) cost: u64,
    #[serde(default)]
    pub(crate) peek: bool,
}

impl<'a> One<'a> {
    /// A peek at one unit of this key.
    pub(crate) fn peek(key: Cow<'a, [u8]>) -> One<'a> {
        One { key: KeyText(key), cost: one(), peek: true }
    }
}

/// The check that a body asks for.
pub(crate) fn one_of<'a>(request: &Arrived<'a>) -> std::result::Result<One<'a>, ApiError> {
    let read: std::result::Result<Object<One<'_>>, _> = serde_json::from_slice(request.body);
    let Object(one) = read.map_err(|error| {
        ApiError::bad(format!("invalid body: {error}: send {{\"key\":\"ada\",\"cost\":1,\"peek\":false}}"))
    })?;
    Ok(one)
}

/// The error for a policy that there is not.
pub(crate) fn unknown(name: &str) -> ApiError {
    ApiError::NotFound(format!("there is no policy '{name}': set it in the variable LIMITS"))
}

fn one() -> u64 {
    1
}

pub(crate) fn respond(database: &mut Database, policies: &Policies, request: &Arrived<'_>) -> ApiResult {
    let path = request.head.uri.path().strip_prefix("/limit").unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
    if name.is_empty() {
        return match request.head.method {
            Method::GET | Method::HEAD => {
                let names: Vec<&String> = policies.0.keys().collect();
                Ok(Reply::new(
                    StatusCode::OK,
                    JSON,
                    format!("{}\n", json!({ "policies": names })).into_bytes(),
                ))
            }
            _ => Err(missing("combining limits in one request")),
        };
    }
    let active = policies.0.get(name).ok_or_else(|| unknown(name))?;
    match (&request.head.method, key) {
        (&Method::POST, None) => check(database, active, request),
        (&Method::GET | &Method::HEAD, Some(key)) => {
            peek(database, active, request, &decoded(key, false)?, 1)
        }
        (&Method::DELETE, Some(key)) => reset(database, active, request, &decoded(key, false)?),
        (&Method::POST, Some(_)) => Err(missing("leases, reservations and checks of many keys")),
        _ => Err(ApiError::bad("the path is /limit/POLICY, or /limit/POLICY/KEY")),
    }
}

/// The status of a denial: 200, or 429 if the query says so.
pub(crate) fn denial(request: &Arrived<'_>) -> std::result::Result<StatusCode, ApiError> {
    match Parameters::of(request.head, &["status"])?.text("status")? {
        None | Some("200") => Ok(StatusCode::OK),
        Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some(_) => Err(ApiError::bad("the parameter 'status' is 200 or 429: the status of a denial")),
    }
}

fn check(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    let denial = denial(request)?;
    let one = one_of(request)?;
    if one.peek {
        return peek(database, active, request, &one.key.0, one.cost);
    }
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let question =
        active.limiter.question(&*one.key.0, one.cost).map_err(|error| invalid(&active.prefix, error))?;
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    let mut reply = at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let (decision, _) = question.check(&mut Held { keyspace, now })?;
        Ok(stored(&decision, denial)?)
    })?;
    mark(&active.headers, &mut reply, crate::database::now());
    Ok(reply)
}

fn peek(database: &mut Database, active: &Active, request: &Arrived<'_>, key: &[u8], cost: u64) -> ApiResult {
    let denial = denial(request)?;
    let question = active.limiter.question(key, cost).map_err(|error| invalid(&active.prefix, error))?;
    let (decision, now) = database.transact(|open| {
        let (keyspace, now) = (&mut *open.keys, open.now);
        (question.peek(&mut Held { keyspace, now }), Completion::Commit)
    })??;
    let mut reply = Reply::stored(stored(&decision, denial)?);
    mark(&active.headers, &mut reply, now);
    Ok(reply)
}

fn reset(database: &mut Database, active: &Active, request: &Arrived<'_>, key: &[u8]) -> ApiResult {
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    Parameters::of(request.head, &[])?;
    let question = active.limiter.question(key, 1).map_err(|error| invalid(&active.prefix, error))?;
    let existed = database.transact(|open| {
        let existed = open.keys.delete(question.key().as_bytes(), open.now);
        let completion = Completion::commit_if(existed.is_ok());
        (existed, completion)
    })??;
    Ok(Reply::new(StatusCode::OK, JSON, format!("{}\n", json!({ "reset": existed })).into_bytes()))
}

pub(crate) fn stored(decision: &Decision, denial: StatusCode) -> Result<StoredResponse> {
    let status = if decision.allowed { StatusCode::OK } else { denial };
    let body = format!("{}\n", decision.to_json()?).into_bytes();
    Ok(StoredResponse { status: status.as_u16(), version: None, body })
}

pub(crate) fn invalid(prefix: &str, error: keystead_core::Error) -> ApiError {
    match error.code() {
        keystead_core::Code::TooLarge => {
            ApiError::TooLarge(format!("{}, with '{prefix}:' before it", error.message()))
        }
        _ => error.into(),
    }
}

/// Adds the headers of the decision in a response.
pub(crate) fn mark(headers: &Headers, reply: &mut Reply, now: Millis) {
    let crate::exchange::Body::Whole(body) = &reply.body else { return };
    let Ok(decision) = serde_json::from_slice::<Decision>(body) else { return };
    for (name, value) in headers.of(&decision, now) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            reply.headers.insert(name, value);
        }
    }
}
