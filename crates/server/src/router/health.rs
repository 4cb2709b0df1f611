//! `/healthz` and `/readyz` of a router, and the checks of its nodes. Calls nodes.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Request, StatusCode, Uri};
use serde_json::json;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::Router;
use super::follow::Follower;
use super::node::{Kind, Node, Outgoing};
use crate::bounds::{ROUTER_PART_BYTES_MAX, ROUTER_PROBE_EVERY};
use crate::http::reply::{self, Reply};

/// A router works while it runs; nodes that do not reply, and a table that cannot be read, are reasons to look.
pub(super) fn healthz(router: &Router) -> Reply {
    let map = router.map();
    let mut reasons: Vec<String> = map
        .nodes
        .iter()
        .filter(|node| node.is_broken())
        .map(|node| format!("{} does not reply", node.shown()))
        .collect();
    reasons.extend(router.follower.as_ref().and_then(Follower::trouble));
    let node = |(node, slots): (&Arc<Node>, usize)| {
        let mut shown = json!({ "id": node.id.as_str(), "http": node.http(), "slots": slots });
        if let Some(resp) = node.resp() {
            shown["resp"] = json!(resp);
        }
        shown
    };
    let nodes: Vec<_> = map.shares().map(node).collect();
    let mut body = match reasons.is_empty() {
        true => json!({ "status": "ok", "nodes": nodes }),
        false => json!({ "status": "degraded", "reasons": reasons, "nodes": nodes }),
    };
    if let Some(table) = &map.table {
        (body["cluster"], body["epoch"]) = (json!(table.cluster()), json!(table.epoch().0));
    }
    reply::json(StatusCode::OK, body)
}

/// Ready while a node replies: the others' keys are errors, and another router would have the same.
pub(super) fn readyz(router: &Router) -> Reply {
    let (status, word) = match router {
        router if router.is_stopping() => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        router if router.map().nodes.iter().all(|node| node.is_broken()) => {
            (StatusCode::SERVICE_UNAVAILABLE, "no node replies")
        }
        _ => (StatusCode::OK, "ready"),
    };
    reply::json(status, json!({ "status": word }))
}

/// Checks now and then whether the nodes reply, for as long as the router runs, and a node is in the map.
pub(super) async fn probe_all(router: Arc<Router>) {
    let mut changes = router.maps.changes();
    let mut probes: Vec<(Arc<Node>, AbortHandle)> = Vec::new();
    loop {
        let map = router.map();
        let is_in = |node: &Arc<Node>| map.nodes.iter().any(|other| Arc::ptr_eq(node, other));
        probes.retain(|(node, task)| {
            if !is_in(node) {
                task.abort();
            }
            is_in(node)
        });
        for node in &map.nodes {
            if !probes.iter().any(|(other, _)| Arc::ptr_eq(node, other)) {
                let task = tokio::spawn(probe(Arc::clone(&router), Arc::clone(node)));
                probes.push((Arc::clone(node), task.abort_handle()));
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn probe(router: Arc<Router>, node: Arc<Node>) {
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
}
