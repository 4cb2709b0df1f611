//! `/healthz` and `/readyz` of a router, and the checks of its nodes. Calls nodes.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Request, StatusCode, Uri};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::Router;
use super::node::{Kind, Outgoing};
use crate::bounds::{ROUTER_PART_BYTES_MAX, ROUTER_PROBE_EVERY};
use crate::http::reply::{self, Reply};

/// A router works while it runs; nodes that do not reply are reasons to look.
pub(super) fn healthz(router: &Router) -> Reply {
    let broken: Vec<String> = router
        .nodes
        .iter()
        .filter(|node| node.is_broken())
        .map(|node| format!("{} does not reply", node.shown()))
        .collect();
    let body = match broken.is_empty() {
        true => json!({ "status": "ok" }),
        false => json!({ "status": "degraded", "reasons": broken }),
    };
    reply::json(StatusCode::OK, body)
}

/// Ready while a node replies: the others' keys are errors, and another router would have the same.
pub(super) fn readyz(router: &Router) -> Reply {
    let (status, word) = match router {
        router if router.is_stopping() => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        router if router.nodes.iter().all(|node| node.is_broken()) => {
            (StatusCode::SERVICE_UNAVAILABLE, "no node replies")
        }
        _ => (StatusCode::OK, "ready"),
    };
    reply::json(status, json!({ "status": word }))
}

/// Checks now and then whether the nodes reply, for as long as the router runs.
pub(super) fn start_probing(router: &Arc<Router>) {
    for node in &router.nodes {
        let (router, node) = (Arc::clone(router), Arc::clone(node));
        tokio::spawn(async move {
            loop {
                let mut request = Request::new(Outgoing::Whole(Bytes::new()));
                *request.uri_mut() = Uri::from_static("/healthz");
                let probe = async {
                    if let Ok(response) = router.call(&node, request, Kind::Call).await {
                        // Read to its end, so that the connection is kept.
                        drop(response.into_body().whole(ROUTER_PART_BYTES_MAX).await);
                    }
                };
                if timeout(ROUTER_PROBE_EVERY, probe).await.is_err() {
                    node.note_silent();
                }
                sleep(ROUTER_PROBE_EVERY).await;
            }
        });
    }
}
