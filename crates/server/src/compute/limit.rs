//! Rate limits on the keys of a storage service: `/limit/{policy}`. Touches the queue of the keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use keystead_commands::idempotency::StoredResponse;
use keystead_core::{Code, Error, ManualClock, MemoryStore, Result};
use keystead_http_api::error::ApiError;
use keystead_http_api::idempotency;
use keystead_http_api::parameters::{Parameters, decoded};
use keystead_http_api::written::{self, KeyText, Object};
use keystead_limit::lease::LeaseIds;
use keystead_limit::{Decision, FailMode, Headers, Limiter};
use keystead_model::Bytes;
use keystead_model::keyspace::Held;
use serde::Deserialize;
use serde_json::json;

use super::Compute;
use super::kv::{ApiResult, at_most_once, missing};
use super::work::{Completion, Scope};
use crate::failure::failure;
use crate::http::reply::{self, Reply};
use crate::http::rights::Rights;
use crate::policies::ENGINE;
use crate::policies::file::Definition;
use crate::service::Arrived;

/// The active policies.
pub(super) struct Policies(BTreeMap<String, Active>);

/// One of them. Its questions run on the fetched keys: the limiter's own store is never used.
struct Active {
    limiter: Limiter<Arc<MemoryStore>>,
    prefix: String,
    headers: Headers,
}

impl Policies {
    /// The policies of the settings file, whose state is in the storage.
    ///
    /// # Errors
    /// `config_invalid` for a policy on a store of its own.
    pub(super) fn new(definitions: &[Definition]) -> Result<Policies> {
        let active = |Definition { location, name, policy, store, headers, .. }: &Definition| {
            if store.as_str() != ENGINE {
                return Err(failure(
                    format_args!(
                        "{location}: limit.{name}: store: '{}' has no effect with --storage",
                        store.shown()
                    ),
                    "leave it out: the state is in the storage",
                ));
            }
            let prefix = format!("limit:{name}:{}", policy.strategy().word());
            let limiter = Limiter::new(policy.clone(), Arc::new(MemoryStore::new()), FailMode::Closed)
                .prefix(&prefix)
                .clock(ManualClock::default())
                .lease_ids(LeaseIds::of_node(0));
            let headers = Headers::new(policy, *headers);
            Ok((name.clone(), Active { limiter, prefix, headers }))
        };
        definitions.iter().map(active).collect::<Result<_>>().map(Policies)
    }
}

/// The body of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    #[serde(default = "one", deserialize_with = "written::whole")]
    cost: u64,
    #[serde(default)]
    peek: bool,
}

fn one() -> u64 {
    1
}

pub(super) async fn respond(compute: &Compute, request: &Arrived) -> ApiResult {
    let path = request.head.uri.path().strip_prefix("/limit").unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
    if name.is_empty() {
        return match request.head.method {
            Method::GET | Method::HEAD => {
                let names: Vec<&String> = compute.policies.0.keys().collect();
                Ok(reply::json(StatusCode::OK, json!({ "policies": names })))
            }
            _ => Err(missing("combining limits in one request")),
        };
    }
    let unknown = || {
        ApiError::NotFound(format!("there is no policy '{name}': add [limit.{name}] to the settings file"))
    };
    let active = compute.policies.0.get(name).ok_or_else(unknown)?;
    match (&request.head.method, key) {
        (&Method::POST, None) => check(compute, active, request).await,
        (&Method::GET | &Method::HEAD, Some(key)) => {
            peek(compute, active, request, &decoded(key, false)?, 1).await
        }
        (&Method::DELETE, Some(key)) => reset(compute, active, request, &decoded(key, false)?).await,
        (&Method::POST, Some(_)) => Err(missing("leases, reservations and checks of many keys")),
        _ => Err(ApiError::bad("the path is /limit/POLICY, or /limit/POLICY/KEY")),
    }
}

/// The status of a denial: 200, or 429 if the query says so.
fn denial(request: &Arrived) -> std::result::Result<StatusCode, ApiError> {
    match Parameters::of(&request.head, &["status"])?.text("status")? {
        None | Some("200") => Ok(StatusCode::OK),
        Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some(_) => Err(ApiError::bad("the parameter 'status' is 200 or 429: the status of a denial")),
    }
}

async fn check(compute: &Compute, active: &Active, request: &Arrived) -> ApiResult {
    let denial = denial(request)?;
    let read: std::result::Result<Object<One<'_>>, _> = serde_json::from_slice(&request.body);
    let Object(one) = read.map_err(|error| {
        ApiError::bad(format!("invalid body: {error}: send {{\"key\":\"ada\",\"cost\":1,\"peek\":false}}"))
    })?;
    if one.peek {
        return peek(compute, active, request, &one.key.0, one.cost).await;
    }
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let question = active.limiter.question(&*one.key.0, one.cost).map_err(|error| invalid(active, error))?;
    let names = vec![Bytes::from(question.key().as_bytes())];
    let idempotency_key = idempotency::of(&request.head, &request.body, &[])?;
    let reply = at_most_once(compute, names, idempotency_key, move |keyspace, now| {
        let (decision, _) = question.check(&mut Held { keyspace, now })?;
        Ok(stored(&decision, denial)?)
    });
    Ok(active.mark(reply.await?))
}

async fn peek(compute: &Compute, active: &Active, request: &Arrived, key: &[u8], cost: u64) -> ApiResult {
    let denial = denial(request)?;
    let question = active.limiter.question(key, cost).map_err(|error| invalid(active, error))?;
    let names = vec![Bytes::from(question.key().as_bytes())];
    let read = compute.database.transact(names, Scope::Names, move |open| {
        let (keyspace, now) = (&mut *open.keys, open.now);
        (question.peek(&mut Held { keyspace, now }), Completion::Commit)
    });
    let (decision, _) = read.await??;
    Ok(active.mark(reply::stored(stored(&decision, denial)?)))
}

async fn reset(compute: &Compute, active: &Active, request: &Arrived, key: &[u8]) -> ApiResult {
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    Parameters::of(&request.head, &[])?;
    let question = active.limiter.question(key, 1).map_err(|error| invalid(active, error))?;
    let key = Bytes::from(question.key().as_bytes());
    let existed = compute.database.transact(vec![key.clone()], Scope::Names, move |open| {
        let existed = open.keys.delete(&key, open.now);
        let completion = Completion::commit_if(existed.is_ok());
        (existed, completion)
    });
    let existed = existed.await??;
    Ok(reply::json(StatusCode::OK, json!({ "reset": existed })))
}

fn stored(decision: &Decision, denial: StatusCode) -> Result<StoredResponse> {
    let status = if decision.allowed { StatusCode::OK } else { denial };
    let body = format!("{}\n", decision.to_json()?).into_bytes();
    Ok(StoredResponse { status: status.as_u16(), version: None, body })
}

fn invalid(active: &Active, error: Error) -> ApiError {
    match error.code() {
        Code::TooLarge => {
            ApiError::TooLarge(format!("{}, with '{}:' before it", error.message(), active.prefix))
        }
        _ => error.into(),
    }
}

impl Active {
    /// Adds the headers of the decision in a response.
    fn mark(&self, mut reply: Reply) -> Reply {
        let reply::Body::Whole(body) = reply.body() else { return reply };
        let Ok(decision) = serde_json::from_slice::<Decision>(body) else { return reply };
        for (name, value) in self.headers.of(&decision, super::now()) {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                reply.headers_mut().insert(name, value);
            }
        }
        reply
    }
}
