//! Versioned documents: `/kv/{key}` with compare-and-set by version, merge and watch.
//!
//! | Request                     | open       |
//! |-----------------------------|------------|
//! | `GET /kv/{key}`             | `read`     |
//! | `GET /kv`                   | `list`     |
//! | `PUT`, `PATCH`, `DELETE`    | `write`    |
//! | `POST /kv:batch`            | `batch`    |
//! | events, and waiting for one | `watch`    |
//! | parameters and conditions   | `asked`    |
//! | answers and refusals        | `answer`   |
//! | what OpenAPI tells of it    | `described`|
//!
//! Touches the shard of the key. What a change means is in `keystead_commands::documents`.

pub(super) mod answer;
pub(super) mod asked;
pub(super) mod batch;
pub(super) mod described;
mod list;
mod read;
mod watch;
mod write;

use super::here::Here;
use super::refused::Refused;
use super::reply::Reply;
use super::request::Asked;
use super::rights::Rights;

/// What a handler comes to.
type Done = Result<Reply, Refused>;

pub(super) async fn get(here: &Here, asked: &Asked) -> Reply {
    finished(read::get(here, asked).await)
}

pub(super) async fn list(here: &Here, asked: &Asked) -> Reply {
    finished(list::list(here, asked).await)
}

pub(super) async fn put(here: &Here, asked: &Asked) -> Reply {
    changing(asked, write::put(here, asked)).await
}

pub(super) async fn patch(here: &Here, asked: &Asked) -> Reply {
    changing(asked, write::patch(here, asked)).await
}

pub(super) async fn delete(here: &Here, asked: &Asked) -> Reply {
    changing(asked, write::delete(here, asked)).await
}

pub(super) async fn batch(here: &Here, asked: &Asked) -> Reply {
    changing(asked, batch::batch(here, asked)).await
}

fn finished(done: Done) -> Reply {
    done.unwrap_or_else(|refused| refused.reply())
}

/// Runs what a token that only reads may not run.
async fn changing(asked: &Asked, run: impl Future<Output = Done>) -> Reply {
    finished(match asked.rights {
        Rights::All => run.await,
        Rights::ReadOnly => Err(Refused::ReadOnly),
    })
}
