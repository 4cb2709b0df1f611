//! Versioned documents: `/kv/{key}` with compare-and-set by version, merge and watch.
//!
//! | Request                     | open       |
//! |-----------------------------|------------|
//! | `GET /kv/{key}`             | `read`     |
//! | `GET /kv`                   | `list`     |
//! | `PUT`, `PATCH`, `DELETE`    | `write`    |
//! | `POST /kv:batch`            | `batch`    |
//! | events, and waiting for one | `watch`    |
//! | parameters and conditions   | `request`    |
//! | answers and refusals        | `answer`   |
//! | what OpenAPI tells of it    | `openapi`|
//!
//! Touches the shard of the key. What a change means is in `keystead_commands::documents`.

pub(super) mod answer;
pub(super) mod batch;
mod list;
pub(super) mod openapi;
pub(super) mod params;
mod read;
mod watch;
mod write;

use super::context::HttpContext;
use super::error::ApiError;
use super::reply::Reply;
use super::request::HttpRequest;
use super::rights::Rights;

/// What a handler comes to.
type Done = Result<Reply, ApiError>;

pub(super) async fn get(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(read::get(context, request).await)
}

pub(super) async fn list(context: &HttpContext, request: &HttpRequest) -> Reply {
    finished(list::list(context, request).await)
}

pub(super) async fn put(context: &HttpContext, request: &HttpRequest) -> Reply {
    changing(request, write::put(context, request)).await
}

pub(super) async fn patch(context: &HttpContext, request: &HttpRequest) -> Reply {
    changing(request, write::patch(context, request)).await
}

pub(super) async fn delete(context: &HttpContext, request: &HttpRequest) -> Reply {
    changing(request, write::delete(context, request)).await
}

pub(super) async fn batch(context: &HttpContext, request: &HttpRequest) -> Reply {
    changing(request, batch::batch(context, request)).await
}

fn finished(done: Done) -> Reply {
    done.unwrap_or_else(|refused| refused.reply())
}

/// Runs what a token that only reads may not run.
async fn changing(request: &HttpRequest, run: impl Future<Output = Done>) -> Reply {
    finished(match request.rights {
        Rights::All => run.await,
        Rights::ReadOnly => Err(ApiError::ReadOnly),
    })
}
