//! `keystead router`: one address for several nodes. Stateless: any number of routers with the same list route alike.
//!
//! ```text
//! bytes -> listener -> request -> host, token -> keys -> slot -> owner -> node -> response, as it arrives
//! ```
//!
//! | To find                                        | open         |
//! |------------------------------------------------|--------------|
//! | `--nodes`, and the slot table                  | `nodes`    |
//! | accept, connection bound, drain                | `listener` |
//! | how one request is processed                   | `request`  |
//! | which slot a request belongs to                | `keys`     |
//! | commands, pipelines, transactions              | `upstash`  |
//! | `GET /kv` over all nodes                       | `list`     |
//! | connections to a node, deadlines               | `node`     |
//! | the body of a node's response                  | `incoming` |
//! | headers, and the errors of calls               | `reply`    |
//! | health, and whether nodes reply                | `health`   |
//! | metrics                                        | `metrics`  |
//!
//! The nodes are servers that know nothing of each other. A router holds no data, so a request is as durable as on its node.

mod health;
mod incoming;
mod keys;
mod list;
mod listener;
mod metrics;
mod node;
mod nodes;
mod reply;
mod request;
mod upstash;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::{Request, Response};
use keystead_core::{Code, Error, Result};
use tokio::sync::watch;

use crate::bounds::{Bounds, DRAIN_TIMEOUT};
use crate::failure::failure;
use crate::http::body::Bodies;
use crate::listen::reachable;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::{VERSION, open_files, reload, server};
use incoming::NodeBody;
use metrics::Metrics;
use node::{CallError, Deadlines, Kind, Node, Outgoing};
pub use nodes::NodeList;

/// What the connections of a router share.
struct Router {
    settings: Settings,
    bounds: Bounds,
    nodes: Vec<Arc<Node>>,
    /// For each slot, the index of its owner.
    owners: Box<[usize]>,
    bodies: Arc<Bodies>,
    metrics: Metrics,
    stop: watch::Sender<bool>,
}

impl Router {
    fn new(settings: Settings, list: &NodeList, bounds: Bounds) -> Result<Router> {
        let owners = list.owners()?;
        let slots_of = |index: usize| owners.iter().filter(|owner| **owner == index).count();
        let node = |(index, listed)| Arc::new(Node::new(listed, slots_of(index), Deadlines::default()));
        let nodes = list.nodes().iter().enumerate().map(node).collect();
        let (stop, metrics, bodies) = (watch::Sender::new(false), Metrics::new(), Arc::default());
        Ok(Router { settings, bounds, nodes, owners, bodies, metrics, stop })
    }

    /// The owner of a slot.
    fn owner(&self, slot: u16) -> &Arc<Node> {
        &self.nodes[self.owners[usize::from(slot)]]
    }

    /// A node for what is the same on all: one that replies, if there is one.
    fn any(&self) -> &Arc<Node> {
        self.nodes.iter().find(|node| !node.is_broken()).unwrap_or(&self.nodes[0])
    }

    /// Calls a node, and counts the call.
    async fn call(
        &self,
        node: &Arc<Node>,
        request: Request<Outgoing>,
        kind: Kind,
    ) -> std::result::Result<Response<NodeBody>, CallError> {
        let called = node.call(request, kind).await;
        self.metrics.record_call(node, called.as_ref().err());
        called
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the router stops.
    async fn stopping(&self) {
        // The sender is not dropped before.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Runs a router until a signal has stopped it and it has drained.
///
/// # Errors
/// `config_invalid` with the one line for the user when it cannot start.
pub async fn run(settings: Settings, list: NodeList) -> Result<()> {
    let mut hangups = signals::hangups()?;
    server::check_tokens(&settings)?;
    let opened = server::open_listener("--http", &settings.http, None, &settings).await?;
    let Some((listener, address)) = opened else {
        return Err(failure(
            "--http is off, and a router has no other listener",
            "name an address, for example --http 127.0.0.1:8080",
        ));
    };
    open_files::raise_limit();
    let bounds = Bounds {
        connections_max: open_files::connections_max(0),
        drain_timeout: DRAIN_TIMEOUT,
        ..Bounds::default()
    };
    let router = Arc::new(Router::new(settings, &list, bounds)?);
    let mut signals = Signals::listen()?;
    health::start_probing(&router);
    let mut serving = tokio::spawn(listener::serve(listener, Arc::clone(&router)));
    server::print(&block(&router, address));
    server::warn_of_short_tokens(&router.settings);
    tracing::info!(version = VERSION, "ready");
    loop {
        tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "stopping");
                break;
            }
            _ = hangups.recv() => {
                let router = Arc::clone(&router);
                // A disk may be slow. A panic is logged by the hook.
                let _ = tokio::task::spawn_blocking(move || reload::reload(&router.settings, None)).await;
            }
            _ = &mut serving => return Err(server::broken()),
        }
    }
    router.stop.send_replace(true);
    // A second signal ends the process without waiting for the drain.
    tokio::spawn(signals.exit_at_next());
    serving.await.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    tracing::info!("stopped");
    Ok(())
}

/// The ready block, in the form of the server's.
fn block(router: &Router, address: SocketAddr) -> String {
    let mut text = format!("keystead {VERSION} is ready\n");
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<10}  {value}\n"));
    line("http", &format!("http://{address}"));
    for node in &router.nodes {
        line("node", &format!("{} owns {} slots", node.shown(), node.slots));
    }
    line("try", &format!("curl -s http://{}/healthz", reachable(address)));
    text
}
