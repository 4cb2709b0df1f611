//! `/admin/cluster`: what nodes of a cluster and `keystead cluster` ask each other while slots move. Touches the shards and the store of the
//! slot table, through the cluster's modules.
//!
//! `GET /admin/cluster` reports the migrations of this node, and sets how fast it takes slots in, if the operator says that; `sizes` is how
//! many keys and bytes its slots have; `POST .../refresh` reads the slot table now; `copy`, `tail` and `hand-over` of a migration are asked of
//! its source. All need the token, and the name of the cluster in a header.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use keystead_cluster::MigrationId;
use keystead_core::{Code, Error, Result};
use serde_json::json;

use super::context::HttpContext;
use super::reply::{self, Reply};
use super::request::HttpRequest;
use crate::cluster::migration::Mover;
use crate::cluster::migration::call::{CLUSTER_HEADER, FORMAT, FORMAT_HEADER, MESSAGE_HEADER, RATE_HEADER};
use crate::cluster::migration::target::{Ask, Sent};

const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

pub(super) async fn report(context: &HttpContext, request: &HttpRequest) -> Reply {
    match mover(context, request) {
        Ok(mover) => {
            let rate =
                request.head.headers.get(RATE_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
            if let Some(rate) = rate {
                mover.set_rate(rate);
            }
            reply::json(StatusCode::OK, mover.report(&context.app).await)
        }
        Err(error) => reply::error(&error),
    }
}

pub(super) async fn sizes(context: &HttpContext, request: &HttpRequest) -> Reply {
    let sizes = async { mover(context, request)?.sizes(&context.app).await };
    match sizes.await {
        Ok(sizes) => reply::json(StatusCode::OK, sizes),
        Err(error) => reply::error(&error),
    }
}

pub(super) async fn refresh(context: &HttpContext, request: &HttpRequest) -> Reply {
    let mover = match mover(context, request) {
        Ok(mover) => mover,
        Err(error) => return reply::error(&error),
    };
    // On the server's runtime: the store of the table is used there.
    let app = Arc::clone(&context.app);
    let read = mover.runtime().spawn(async move {
        if let Some(membership) = app.cluster.get() {
            membership.poll(&app).await;
        }
    });
    let _ = read.await;
    report(context, request).await
}

pub(super) async fn copy(context: &HttpContext, request: &HttpRequest) -> Reply {
    let copied = async {
        let (mover, id, ask) = asked(context, request)?;
        let page = ask.page.ok_or_else(|| Error::new(Code::BadRequest, "'page' is missing"))?;
        let (part, message) = mover.copy(&context.app, id, page).await?;
        Ok((Sent { message }, part.bytes))
    };
    sent(copied.await)
}

pub(super) async fn tail(context: &HttpContext, request: &HttpRequest) -> Reply {
    let tailed = async {
        let (mover, id, ask) = asked(context, request)?;
        let after = ask.after.ok_or_else(|| Error::new(Code::BadRequest, "'after' is missing"))?;
        let (message, data) = mover.tail(&context.app, id, after, ask.waits).await?;
        Ok((Sent { message: Some(message) }, data))
    };
    sent(tailed.await)
}

pub(super) async fn hand_over(context: &HttpContext, request: &HttpRequest) -> Reply {
    let handed = async {
        let mover = mover(context, request)?;
        mover.hand_over(&context.app, id_of(request)?).await
    };
    match handed.await {
        Ok(()) => reply::json(StatusCode::OK, json!({})),
        Err(error) => reply::error(&error),
    }
}

fn sent(result: Result<(Sent, Vec<u8>)>) -> Reply {
    let made = result.and_then(|(sent, data)| {
        let message = serde_json::to_string(&sent).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        let message =
            HeaderValue::try_from(message).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        Ok((message, data))
    });
    match made {
        Ok((message, data)) => {
            let mut reply = reply::bytes(StatusCode::OK, BYTES, data);
            reply.headers_mut().insert(MESSAGE_HEADER, message);
            reply
        }
        Err(error) => reply::error(&error),
    }
}

fn asked<'a>(context: &'a HttpContext, request: &HttpRequest) -> Result<(&'a Arc<Mover>, MigrationId, Ask)> {
    let mover = mover(context, request)?;
    let ask = serde_json::from_slice(&request.body)
        .map_err(|error| Error::new(Code::BadRequest, format!("the body cannot be read: {error}")))?;
    Ok((mover, id_of(request)?, ask))
}

fn id_of(request: &HttpRequest) -> Result<MigrationId> {
    let text = request.path_parameter("id");
    let id = text.parse().map_err(|_| Error::new(Code::BadRequest, "a migration has a number"))?;
    Ok(MigrationId(id))
}

/// The migrations of this node, for a caller of the same cluster.
fn mover<'a>(context: &'a HttpContext, request: &HttpRequest) -> Result<&'a Arc<Mover>> {
    let app = &context.app;
    let joined = app.hub.cluster.get().zip(app.cluster.get().and_then(|membership| membership.mover()));
    let Some((cluster, mover)) = joined else {
        return Err(Error::new(Code::Unsupported, "this server is not a node of a cluster"));
    };
    let format = request.head.headers.get(FORMAT_HEADER).and_then(|value| value.to_str().ok());
    if let Some(other) = format.filter(|format| *format != FORMAT) {
        let message = format!(
            "slots are moved in format {FORMAT} by this node, and in {other} by the other: run the same version on both"
        );
        return Err(Error::new(Code::Unsupported, message));
    }
    let table = cluster.table();
    let named = request.head.headers.get(CLUSTER_HEADER).and_then(|value| value.to_str().ok());
    match named {
        Some(name) if name == table.cluster() => Ok(mover),
        _ => {
            let message = format!(
                "this node is of cluster '{}': name it in the header {CLUSTER_HEADER}",
                table.cluster()
            );
            Err(Error::new(Code::BadRequest, message))
        }
    }
}
