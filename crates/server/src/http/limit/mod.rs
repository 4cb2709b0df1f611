//! Rate limits: `POST /limit/{policy}` with `{"key":"ada"}` answers a decision.
//!
//! | Request                                          | open         |
//! |--------------------------------------------------|--------------|
//! | `POST /limit/{policy}`, `.../check`              | `check`      |
//! | `POST /limit`: several policies, and a write     | `combined`   |
//! | `POST /limit/{policy}/acquire`, `.../release`    | `lease`      |
//! | `POST /limit/{policy}/reserve`, `.../settle`     | `reserve`    |
//! | `GET /limit`, `GET /limit/{policy}`              | `told`       |
//! | `GET` and `DELETE /limit/{policy}/{key}`         | `check`      |
//! | paths and bodies                                 | `asked`      |
//! | answers                                          | `answer`     |
//! | how a step reaches the shard of its key          | `run`        |
//! | what OpenAPI tells of all this                   | `described`  |
//!
//! Touches the stores of the policies. What a decision is, is in `keystead_limit`; which policies there are, in
//! [`crate::policies`].

mod answer;
mod asked;
mod check;
mod combined;
pub(super) mod described;
mod lease;
mod reserve;
mod run;
mod told;

use std::sync::Arc;

use hyper::header::{ALLOW, HeaderValue};
use keystead_core::Code;
use keystead_limit::Question;
use keystead_limit::strategy::AnyStrategy;

use super::here::Here;
use super::refused::Refused;
use super::reply::{self, Reply};
use super::request::{Asked, Refusal};
use super::rights::Rights;
use crate::policies::named::Named;
use asked::Path;

/// What a handler comes to.
type Done = Result<Reply, Refused>;

pub(super) async fn list(here: &Here, asked: &Asked) -> Reply {
    finished(told::list(here, asked))
}

pub(super) async fn combined(here: &Here, asked: &Asked) -> Reply {
    finished(match asked.rights {
        Rights::All => combined::combined(here, asked).await,
        Rights::ReadOnly => Err(Refused::ReadOnly),
    })
}

pub(super) async fn get(here: &Here, asked: &Asked) -> Reply {
    finished(match Path::of(&asked.head) {
        Err(refused) => Err(refused),
        Ok(Path { policy, rest: None }) => told::one(here, asked, policy),
        Ok(Path { policy, rest: Some(key) }) => check::look(here, asked, policy, key).await,
    })
}

pub(super) async fn post(here: &Here, asked: &Asked) -> Reply {
    finished(posted(here, asked).await)
}

async fn posted(here: &Here, asked: &Asked) -> Done {
    let Path { policy, rest } = Path::of(&asked.head)?;
    match rest {
        None => check::check(here, asked, policy).await,
        Some("check") => check::many(here, asked, policy).await,
        Some("acquire") => lease::acquire(here, asked, policy).await,
        Some("release") => lease::release(here, asked, policy).await,
        Some("reserve") => reserve::reserve(here, asked, policy).await,
        Some("settle") => reserve::settle(here, asked, policy).await,
        Some(other) => Err(Refused::NotFound(format!(
            "there is no action '{other}': a policy can check, acquire, release, reserve and settle"
        ))),
    }
}

pub(super) async fn delete(here: &Here, asked: &Asked) -> Reply {
    finished(match Path::of(&asked.head) {
        Err(refused) => Err(refused),
        Ok(Path { rest: None, .. }) => return not_of_policies(),
        Ok(Path { policy, rest: Some(key) }) => match asked.rights {
            Rights::All => check::reset(here, asked, policy, key).await,
            Rights::ReadOnly => Err(Refused::ReadOnly),
        },
    })
}

/// The row is that of keys, too; a policy is deleted in the settings file.
fn not_of_policies() -> Reply {
    const ALLOWED: &str = "GET, POST, HEAD";
    let mut reply = reply::refused(&Refusal::Method(ALLOWED.to_owned()));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
    reply
}

fn finished(done: Done) -> Reply {
    done.unwrap_or_else(|refused| refused.reply())
}

/// The policy of this name.
fn policy(here: &Here, name: &str) -> Result<Arc<Named>, Refused> {
    here.app.policies.find(name).ok_or_else(|| {
        let set = here.app.policies.set();
        Refused::NotFound(match set.by_name.is_empty() {
            true => format!("there is no policy '{name}': write [limit.{name}] into the settings file"),
            false => {
                let names: Vec<&str> = set.by_name.keys().take(20).map(String::as_str).collect();
                format!("there is no policy '{name}': there are {}", names.join(", "))
            }
        })
    })
}

/// A question to a policy about a key of a request.
fn question(named: &Named, key: &[u8], cost: u64) -> Result<Question, Refused> {
    if cost != 1 && matches!(named.definition.policy.strategy(), AnyStrategy::Concurrency(_)) {
        return Err(Refused::bad(
            "a concurrency policy counts what is under way, one lease at a time: leave cost out, or ask for each",
        ));
    }
    named.limiter.question(key, cost).map_err(|error| match error.code() {
        Code::TooLarge => {
            Refused::TooLarge(format!("{}, with '{}:' before it", error.message(), named.prefix))
        }
        _ => error.into(),
    })
}

/// Refuses those who may only look.
fn writer(asked: &Asked) -> Result<(), Refused> {
    match asked.rights {
        Rights::All => Ok(()),
        Rights::ReadOnly => Err(Refused::ReadOnly),
    }
}
