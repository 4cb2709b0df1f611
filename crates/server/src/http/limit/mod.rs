//! Rate limits: `POST /limit/{policy}` with `{"key":"ada"}` answers a decision.
//!
//! | Request                                          | open         |
//! |--------------------------------------------------|--------------|
//! | `POST /limit/{policy}`, `.../check`              | `check`      |
//! | `POST /limit`: several policies, and a write     | `combined`   |
//! | `POST /limit/{policy}/acquire`, `.../release`    | `lease`      |
//! | `POST /limit/{policy}/reserve`, `.../settle`     | `reserve`    |
//! | `GET /limit`, `GET /limit/{policy}`              | `list`       |
//! | `GET` and `DELETE /limit/{policy}/{key}`         | `check`      |
//! | paths and bodies                                 | `params`     |
//! | answers                                          | `answer`     |
//! | how a step reaches the shard of its key          | `run`        |
//! | what OpenAPI tells of all this                   | `openapi`  |
//!
//! Touches the stores of the policies. What a decision is, is in `keystead_limit`; which policies there are, in
//! [`crate::policies`].

mod answer;
mod check;
mod combined;
mod lease;
mod list;
pub(super) mod openapi;
mod params;
mod reserve;
mod run;

use std::sync::Arc;

use hyper::header::{ALLOW, HeaderValue};
use keystead_core::Code;
use keystead_limit::Question;
use keystead_limit::strategy::AnyStrategy;

use super::context::HttpContext;
use super::error::ApiError;
use super::reply::{self, Reply};
use super::request::{HttpRequest, RequestError};
use super::rights::Rights;
use crate::policies::active::ActivePolicy;
use params::Path;

/// What a handler comes to.
type Done = Result<Reply, ApiError>;

pub(super) async fn list(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(list::list(context, request))
}

pub(super) async fn combined(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(match request.rights {
        Rights::All => combined::combined(context, request).await,
        Rights::ReadOnly => Err(ApiError::ReadOnly),
    })
}

pub(super) async fn get(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(match Path::of(&request.head) {
        Err(refused) => Err(refused),
        Ok(Path { policy, rest: None }) => list::one(context, request, policy),
        Ok(Path { policy, rest: Some(key) }) => check::look(context, request, policy, key).await,
    })
}

pub(super) async fn post(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(posted(context, request).await)
}

async fn posted(context: &HttpContext, request: &HttpRequest) -> Done {
    let Path { policy, rest } = Path::of(&request.head)?;
    match rest {
        None => check::check(context, request, policy).await,
        Some("check") => check::many(context, request, policy).await,
        Some("acquire") => lease::acquire(context, request, policy).await,
        Some("release") => lease::release(context, request, policy).await,
        Some("reserve") => reserve::reserve(context, request, policy).await,
        Some("settle") => reserve::settle(context, request, policy).await,
        Some(other) => Err(ApiError::NotFound(format!(
            "there is no action '{other}': a policy can check, acquire, release, reserve and settle"
        ))),
    }
}

pub(super) async fn delete(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(match Path::of(&request.head) {
        Err(refused) => Err(refused),
        Ok(Path { rest: None, .. }) => return not_of_policies(),
        Ok(Path { policy, rest: Some(key) }) => match request.rights {
            Rights::All => check::reset(context, request, policy, key).await,
            Rights::ReadOnly => Err(ApiError::ReadOnly),
        },
    })
}

/// The row is that of keys, too; a policy is deleted in the settings file.
fn not_of_policies() -> Reply {
    const ALLOWED: &str = "GET, POST, HEAD";
    let mut reply = reply::refused(&RequestError::Method(ALLOWED.to_owned()));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
    reply
}

fn finished(done: Done) -> Reply {
    done.unwrap_or_else(|refused| refused.reply())
}

/// The policy of this name.
fn policy(context: &HttpContext, name: &str) -> Result<Arc<ActivePolicy>, ApiError> {
    context.app.policies.find(name).ok_or_else(|| {
        let set = context.app.policies.set();
        ApiError::NotFound(match set.by_name.is_empty() {
            true => format!("there is no policy '{name}': write [limit.{name}] into the settings file"),
            false => {
                let names: Vec<&str> = set.by_name.keys().take(20).map(String::as_str).collect();
                format!("there is no policy '{name}': there are {}", names.join(", "))
            }
        })
    })
}

/// A question to a policy about a key of a request.
fn question(active: &ActivePolicy, key: &[u8], cost: u64) -> Result<Question, ApiError> {
    if cost != 1 && matches!(active.definition.policy.strategy(), AnyStrategy::Concurrency(_)) {
        return Err(ApiError::bad(
            "a concurrency policy counts what is under way, one lease at a time: leave cost out, or ask for each",
        ));
    }
    active.limiter.question(key, cost).map_err(|error| match error.code() {
        Code::TooLarge => {
            ApiError::TooLarge(format!("{}, with '{}:' before it", error.message(), active.prefix))
        }
        _ => error.into(),
    })
}

/// Refuses those who may only look.
fn writer(request: &HttpRequest) -> Result<(), ApiError> {
    match request.rights {
        Rights::All => Ok(()),
        Rights::ReadOnly => Err(ApiError::ReadOnly),
    }
}
