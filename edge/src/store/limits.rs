//! Rate limits on a store of records: `/limit/{policy}?store=d1`. Touches that store.

use http::Method;
use keystead_commands::ctx::Rights;
use keystead_core::ManualClock;
use keystead_http_api::error::ApiError;
use keystead_http_api::limit::bodies::{One, takes_cost};
use keystead_http_api::limit::params::{body, denial, one};
use keystead_http_api::limit::response::stored;
use keystead_http_api::parameters::{Parameters, decoded};
use keystead_http_api::written::KeyText;
use keystead_limit::{FailMode, Limiter};
use serde_json::json;
use worker::Env;

use super::documents::{missing, without_idempotency};
use super::steps::RecordStore;
use crate::database::now;
use crate::exchange::{JSON, Reply};
use crate::kv::ApiResult;
use crate::limit;
use crate::object::Arrived;
use crate::settings;

pub(super) async fn respond(env: &Env, store: RecordStore, request: &Arrived<'_>) -> ApiResult {
    let path = request.head.uri.path().strip_prefix("/limit").unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
    if name.is_empty() {
        return Err(missing(&store, "listing or combining policies"));
    }
    let policy = settings::policies(env)?.remove(name).ok_or_else(|| limit::unknown(name))?;
    if request.head.method == Method::POST && key.is_some() {
        return Err(missing(&store, "leases, reservations and checks of many keys"));
    }
    if request.head.method == Method::POST {
        without_idempotency(&store, request)?;
    }
    let prefix = limit::prefix_of(name, &policy);
    // The clock is read only where the store has failed and the policy then allows.
    let limiter = Limiter::new(policy, store, FailMode::Closed).prefix(&prefix).clock(ManualClock::at(now()));
    match (&request.head.method, key) {
        (&Method::POST, None) => {
            let one: One<'_> = body(request.body, r#"{"key":"ada","cost":1,"peek":false}"#)?;
            if !one.peek && request.rights == Rights::ReadOnly {
                return Err(ApiError::ReadOnly);
            }
            decide(&limiter, &prefix, request, &one).await
        }
        (&Method::GET | &Method::HEAD, Some(key)) => {
            let one = One { key: KeyText(decoded(key, false)?), cost: one(), peek: true };
            decide(&limiter, &prefix, request, &one).await
        }
        (&Method::DELETE, Some(_)) if request.rights == Rights::ReadOnly => Err(ApiError::ReadOnly),
        (&Method::DELETE, Some(key)) => {
            Parameters::of(request.head, &[])?;
            let existed = limiter.reset(decoded(key, false)?).await?;
            let body = format!("{}\n", json!({ "reset": existed })).into_bytes();
            Ok(Reply::new(http::StatusCode::OK, JSON, body))
        }
        _ => Err(ApiError::bad("the path is /limit/POLICY, or /limit/POLICY/KEY")),
    }
}

async fn decide(
    limiter: &Limiter<RecordStore>,
    prefix: &str,
    request: &Arrived<'_>,
    one: &One<'_>,
) -> ApiResult {
    let denial = denial(request.head)?;
    takes_cost(limiter.policy(), one.cost)?;
    let question = limiter.question(&*one.key.0, one.cost).map_err(|error| limit::invalid(prefix, error))?;
    let (decision, now) = if one.peek {
        limiter.peek_question(&question).await?
    } else {
        // A counter would begin anew with each request, and a lease would be taken for that of another.
        let lease_id = (js_sys::Math::random() * 9_007_199_254_740_991.0) as u64;
        let question = match limiter.policy().kind() {
            "concurrency" => question.renewing(lease_id.max(1)),
            _ => question,
        };
        limiter.check_question(&question).await?
    };
    let mut reply = Reply::stored(stored(&decision, &[], denial)?);
    limit::mark(&limit::headers_of(limiter.policy()), &mut reply, now);
    Ok(reply)
}
