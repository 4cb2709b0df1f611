//! `keystead router`: one address for several nodes. Stateless: any number of routers with the same list route alike.
//!
//! ```text
//! bytes -> listener -> request -> host, token -> keys -> slot -> owner -> node -> response, as it arrives
//! ```
//!
//! | To find                                        | open         |
//! |------------------------------------------------|--------------|
//! | `--nodes`                                      | `nodes`    |
//! | who owns which slot                            | `map`      |
//! | `--cluster`: following the table of a store    | `follow`   |
//! | requests for slots that move                   | `redirect` |
//! | accept, connection bound, drain                | `listener` |
//! | how one request is processed                   | `request`  |
//! | which slot a request belongs to                | [`keystead_http_api::keys`] |
//! | commands, pipelines, transactions              | `upstash`  |
//! | SCAN over REST                                 | `scan`     |
//! | `GET /kv` over all nodes                       | `list`     |
//! | subscriptions and events of all nodes          | `streams`  |
//! | connections to a node, deadlines               | `node`     |
//! | the body of a node's response                  | `incoming` |
//! | headers, and the errors of calls               | `reply`    |
//! | health, and whether nodes reply                | `health`   |
//! | metrics                                        | `metrics`  |
//! | Redis clients                                  | `resp`     |
//!
//! The nodes of a list are servers that know nothing of each other; those of a slot table reject what is not their own. A router holds no data, so a request is as durable as on its node.

mod follow;
mod health;
mod incoming;
mod list;
mod listener;
mod map;
mod metrics;
mod node;
mod nodes;
mod redirect;
mod reply;
mod request;
mod resp;
mod scan;
mod streams;
mod upstash;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hyper::{Request, Response};
use keystead_core::{Code, Error, Result};
use keystead_http_api::keys;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bounds::{Bounds, DRAIN_TIMEOUT};
use crate::failure::failure;
use crate::http::body::Bodies;
use crate::listen::reachable;
use crate::resp::tls::Tls;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::stores::StoreName;
use crate::{VERSION, open_files, reload, server};
use follow::Follower;
use incoming::NodeBody;
use map::{Map, Maps};
use metrics::Metrics;
use node::{CallError, Kind, Node, Outgoing};
pub use nodes::NodeList;
use resp::Resp;

/// What the connections of a router share.
struct Router {
    settings: Settings,
    bounds: Bounds,
    maps: Maps,
    /// With `--cluster`.
    follower: Option<Follower>,
    /// The listener of Redis clients, if there is one. Set before the router is ready.
    resp: OnceLock<Arc<Resp>>,
    bodies: Arc<Bodies>,
    metrics: Metrics,
    stop: watch::Sender<bool>,
}

/// Where a router knows the nodes from.
pub enum Nodes {
    /// A list that does not change.
    List(NodeList),
    /// The slot table in a store, and the directory of the copy, if there is one.
    Cluster(StoreName, Option<PathBuf>),
}

impl Router {
    async fn new(settings: Settings, nodes: Nodes, bounds: Bounds) -> Result<Router> {
        let (map, follower) = match nodes {
            Nodes::List(list) => (Map::of_list(&list.table()?, list.nodes()), None),
            Nodes::Cluster(url, dir) => {
                let (follower, table) = Follower::open(url, dir).await?;
                (Map::of_table(&table, None), Some(follower))
            }
        };
        let (stop, metrics, bodies) = (watch::Sender::new(false), Metrics::new(), Arc::default());
        let resp = OnceLock::new();
        Ok(Router { settings, bounds, maps: Maps::new(map), follower, resp, bodies, metrics, stop })
    }

    /// Who owns which slot now.
    fn map(&self) -> Arc<Map> {
        self.maps.current()
    }

    /// Follows another table.
    fn learn(&self, map: Map) {
        self.maps.replace(map);
    }

    /// A node for what is the same on all: one that replies, if there is one.
    fn any(&self) -> std::result::Result<Arc<Node>, CallError> {
        let nobody = || CallError::Unserved("the cluster has no nodes".to_owned());
        self.map().any().cloned().ok_or_else(nobody)
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

    fn metrics_text(&self) -> String {
        if let Some(resp) = self.resp.get() {
            let set = |gauge: &Gauge, value: usize| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            set(&self.metrics.resp_connections, resp.clients());
            set(&self.metrics.resp_waiting_bytes, resp.waiting_bytes());
        }
        self.metrics.text(&self.map())
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
pub async fn run(settings: Settings, nodes: Nodes) -> Result<()> {
    let mut hangups = signals::hangups()?;
    server::check_tokens(&settings)?;
    let http = server::open_listener("--http", &settings.http, None, &settings).await?;
    let cert = settings.resp_tls_cert.clone();
    let resp = server::open_listener("--resp", &settings.resp, cert.as_deref(), &settings).await?;
    if http.is_none() && resp.is_none() {
        return Err(failure(
            "--http is off, and --resp is not set",
            "open one, for example --http 127.0.0.1:8080",
        ));
    }
    let tls = Tls::new(&settings)?;
    open_files::raise_limit();
    let bounds = Bounds {
        connections_max: open_files::connections_max(0),
        drain_timeout: DRAIN_TIMEOUT,
        ..Bounds::default()
    };
    let router = Arc::new(Router::new(settings, nodes, bounds).await?);
    let mut signals = Signals::listen()?;
    tokio::spawn(health::probe_all(Arc::clone(&router)));
    tokio::spawn(follow::follow(Arc::clone(&router)));
    let mut listeners = JoinSet::new();
    let block = block(&router, http.as_ref().map(|bound| bound.1), resp.as_ref().map(|bound| bound.1));
    if let Some((listener, address)) = resp {
        let resp = Arc::new(Resp::start(&router, address.port(), tls)?);
        // It is set once.
        let _ = router.resp.set(Arc::clone(&resp));
        listeners.spawn(resp::serve(listener, resp));
    }
    if let Some((listener, _)) = http {
        listeners.spawn(listener::serve(listener, Arc::clone(&router)));
    }
    server::print(&block);
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
                let _ = tokio::task::spawn_blocking(move || {
                    reload::reload(&router.settings, router.resp.get().and_then(|resp| resp.tls()));
                })
                .await;
            }
            _ = listeners.join_next() => return Err(server::broken()),
        }
    }
    router.stop.send_replace(true);
    // A second signal ends the process without waiting for the drain.
    tokio::spawn(signals.exit_at_next());
    while let Some(ended) = listeners.join_next().await {
        ended.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    }
    tracing::info!("stopped");
    Ok(())
}

/// The ready block, in the form of the server's.
fn block(router: &Router, http: Option<SocketAddr>, resp: Option<SocketAddr>) -> String {
    let mut text = format!("keystead {VERSION} is ready\n");
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<10}  {value}\n"));
    if let Some(address) = resp {
        let scheme = if router.settings.resp_tls_cert.is_some() { "rediss" } else { "redis" };
        line("resp", &format!("{scheme}://{address}"));
    }
    if let Some(address) = http {
        line("http", &format!("http://{address}"));
    }
    let map = router.map();
    if let Some(table) = &map.table {
        line("cluster", &format!("{}, epoch {}", table.cluster(), table.epoch()));
    }
    for (node, slots) in map.shares() {
        line("node", &format!("{} owns {slots} slots", node.shown()));
    }
    match (http, resp) {
        (Some(address), _) => line("try", &format!("curl -s http://{}/healthz", reachable(address))),
        (None, Some(address)) => line("try", &format!("redis-cli -u redis://{} PING", reachable(address))),
        (None, None) => {}
    }
    text
}
