//! Rate limits on the keys of an object: `/limit/{policy}`. Touches the database it is given.
//!
//! | Request                                        | open      |
//! |------------------------------------------------|-----------|
//! | many keys; several policies and a write        | `several` |
//! | leases and reservations                        | `units`   |

mod several;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use keystead_commands::ctx::Rights;
use keystead_core::{Code, Error, ManualClock, MemoryStore, Millis, Result};
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency;
use keystead_http_api::limit::bodies::{One, takes_cost};
use keystead_http_api::limit::params::{body, denial};
use keystead_http_api::limit::response::stored;
use keystead_http_api::parameters::{Parameters, decoded};
use keystead_limit::lease::LeaseIds;
use keystead_limit::{Decision, FailMode, HeaderStyles, Headers, Limiter, Policy, Question};
use keystead_model::keyspace::Held;
use keystead_model::value::Kind;
use serde_json::json;
use worker::Env;

use crate::database::{Completion, Database};
use crate::exchange::{JSON, Reply};
use crate::kv::{ApiResult, at_most_once};
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
        // Each life of the object has leases of its own: there is no counter that outlives it.
        let life = (js_sys::Math::random() * f64::from(1 << 21)) as u32;
        let active = |(name, policy): (String, Policy)| {
            let prefix = prefix_of(&name, &policy);
            let limiter = Limiter::new(policy.clone(), Arc::new(MemoryStore::new()), FailMode::Closed)
                .prefix(&prefix)
                .clock(ManualClock::default())
                .lease_ids(LeaseIds::of_node(life));
            let headers = headers_of(&policy);
            (name, Active { limiter, prefix, headers })
        };
        Ok(Policies(settings::policies(env)?.into_iter().map(active).collect()))
    }
}

impl Policies {
    fn find(&self, name: &str) -> std::result::Result<&Active, ApiError> {
        self.0.get(name).ok_or_else(|| unknown(name))
    }
}

/// The prefix of the keys of a policy.
pub(crate) fn prefix_of(name: &str, policy: &Policy) -> String {
    format!("limit:{name}:{}", policy.strategy().word())
}

pub(crate) fn headers_of(policy: &Policy) -> Headers {
    Headers::new(policy, HeaderStyles::default())
}

/// The error for a policy that there is not.
pub(crate) fn unknown(name: &str) -> ApiError {
    ApiError::NotFound(format!("there is no policy '{name}': set it in the variable LIMITS"))
}

/// A question about a key of a request.
fn question(active: &Active, key: &[u8], cost: u64) -> std::result::Result<Question, ApiError> {
    takes_cost(active.limiter.policy(), cost)?;
    active.limiter.question(key, cost).map_err(|error| invalid(&active.prefix, error))
}

pub(crate) fn respond(database: &mut Database, policies: &Policies, request: &Arrived<'_>) -> ApiResult {
    let path = request.head.uri.path().strip_prefix("/limit").unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
    if key == Some("") || request.head.uri.path() == "/limit/" {
        return Err(ApiError::bad("the path is /limit/POLICY, or /limit/POLICY/KEY"));
    }
    if key.is_some_and(|key| key.contains('/')) {
        return Err(ApiError::bad("a '/' in a key is written %2F"));
    }
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
            _ => several::combine(database, policies, request),
        };
    }
    let active = policies.find(name)?;
    match (&request.head.method, key) {
        (&Method::POST, None) => check(database, active, request),
        (&Method::GET | &Method::HEAD, Some(key)) => {
            peek(database, active, request, &decoded(key, false)?, 1)
        }
        (&Method::DELETE, Some(key)) => reset(database, active, request, &decoded(key, false)?),
        (&Method::POST, Some("check")) => several::check_many(database, active, request),
        (&Method::POST, Some("acquire")) => units::acquire(database, active, request),
        (&Method::POST, Some("release")) => units::release(database, active, request),
        (&Method::POST, Some("reserve")) => units::reserve(database, active, request),
        (&Method::POST, Some("settle")) => units::settle(database, active, request),
        (&Method::POST, Some(action)) => Err(ApiError::NotFound(format!(
            "there is no action '{action}': a policy can check, acquire, release, reserve and settle"
        ))),
        _ => Err(ApiError::bad("the path is /limit/POLICY, or /limit/POLICY/KEY")),
    }
}

fn check(database: &mut Database, active: &Active, request: &Arrived<'_>) -> ApiResult {
    let denial = denial(request.head)?;
    let one: One<'_> = body(request.body, r#"{"key":"ada","cost":1,"peek":false}"#)?;
    if one.peek {
        return peek(database, active, request, &one.key.0, one.cost);
    }
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let question = question(active, &one.key.0, one.cost)?;
    let idempotency_key = idempotency::of(request.head, request.body, &[])?;
    let mut reply = at_most_once(database, idempotency_key.as_ref(), |keyspace, now| {
        let (decision, _) = question.check(&mut Held { keyspace, now })?;
        Ok(stored(&decision, &[], denial)?)
    })?;
    active.mark(&mut reply, crate::database::now());
    Ok(reply)
}

fn peek(database: &mut Database, active: &Active, request: &Arrived<'_>, key: &[u8], cost: u64) -> ApiResult {
    let denial = denial(request.head)?;
    let question = question(active, key, cost)?;
    let (decision, now) = database.transact(|open| {
        let (keyspace, now) = (&mut *open.keys, open.now);
        (question.peek(&mut Held { keyspace, now }), Completion::Commit)
    })??;
    let mut reply = Reply::stored(stored(&decision, &[], denial)?);
    active.mark(&mut reply, now);
    Ok(reply)
}

fn reset(database: &mut Database, active: &Active, request: &Arrived<'_>, key: &[u8]) -> ApiResult {
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    Parameters::of(request.head, &[])?;
    let question = question(active, key, 1)?;
    let existed = database.transact(|open| {
        let key = question.key().as_bytes();
        let existed = match open.keys.kind(key, open.now) {
            Ok(None) => Ok(false),
            Ok(Some(Kind::State)) => open.keys.delete(key, open.now),
            Ok(Some(kind)) => {
                let words = format!("the key holds a {}, not the state of a step", kind.redis_name());
                Err(Error::new(Code::WrongType, words))
            }
            Err(error) => Err(error),
        };
        let completion = Completion::commit_if(existed.is_ok());
        (existed, completion)
    })??;
    Ok(Reply::new(StatusCode::OK, JSON, format!("{}\n", json!({ "reset": existed })).into_bytes()))
}

pub(crate) fn invalid(prefix: &str, error: keystead_core::Error) -> ApiError {
    match error.code() {
        keystead_core::Code::TooLarge => {
            ApiError::TooLarge(format!("{}, with '{prefix}:' before it", error.message()))
        }
        _ => error.into(),
    }
}

impl Active {
    fn mark(&self, reply: &mut Reply, now: Millis) {
        mark(&self.headers, reply, now);
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
