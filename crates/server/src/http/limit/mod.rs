//! Rate limits: the response to `POST /limit/{policy}` with `{"key":"ada"}` is a decision.
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
//! | responses                                        | `response`     |
//! | how a step reaches the state of its policy       | `run`        |
//! | their part of OpenAPI                            | `openapi`    |
//!
//! Touches the stores of the policies. `keystead_limit` decides; [`crate::policies`] knows which policies there are.

mod check;
mod combined;
mod lease;
mod list;
pub(super) mod openapi;
mod params;
mod reserve;
mod response;
mod run;

pub(super) use check::{check, check_many, peek, reset};
pub(super) use combined::combined;
pub(super) use lease::{acquire, release};
pub(super) use list::{list, policy};
pub(super) use reserve::{reserve, settle};

use std::sync::Arc;

use keystead_core::Code;
use keystead_http_api::limit::bodies::takes_cost;
use keystead_limit::Question;

use super::context::HttpContext;
use super::error::{ApiError, ApiResult};
use super::request::HttpRequest;
use crate::policies::active::ActivePolicy;

/// `POST /limit/{policy}/{action}` with an action that does not exist.
pub(super) async fn unknown_action(_: &HttpContext, request: &HttpRequest) -> ApiResult {
    let (_, action) = params::policy_and(request, "action")?;
    Err(ApiError::NotFound(format!(
        "there is no action '{action}': a policy can check, acquire, release, reserve and settle"
    )))
}

/// The policy of this name.
fn find_policy(context: &HttpContext, name: &str) -> Result<Arc<ActivePolicy>, ApiError> {
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

/// A question about a key of a request.
fn question(active: &ActivePolicy, key: &[u8], cost: u64) -> Result<Question, ApiError> {
    takes_cost(&active.definition.policy, cost)?;
    active.limiter.question(key, cost).map_err(|error| match error.code() {
        Code::TooLarge => {
            ApiError::TooLarge(format!("{}, with '{}:' before it", error.message(), active.prefix))
        }
        _ => error.into(),
    })
}
