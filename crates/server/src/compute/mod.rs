//! `keystead serve --storage URL`: the HTTP APIs on the keys of a storage service, which another process or a Durable Object has.
//!
//! ```text
//! request -> host, token -> commands -> queue -> batch, on keys that are held -> storage: compare and execute -> response
//! ```
//!
//! | To find                                            | open       |
//! |----------------------------------------------------|------------|
//! | calls of the storage service                       | `client`   |
//! | rows that were fetched, and what is to be written  | `rows`     |
//! | work that may run again, and its queue             | `work`     |
//! | batches: fetch, run, confirm, conflicts            | `lane`     |
//! | writes whose response was lost                     | `writer`   |
//! | the Upstash-compatible REST API                    | `upstash`  |
//! | versioned documents                                | `kv`       |
//! | rate limits                                        | `limit`    |
//!
//! Touches sockets. It keeps nothing: what is acknowledged is in the storage, and any number of these processes may share one. Invariant: a
//! reply depends only on keys that the storage has compared with their rows, so that all processes behave as one.

pub(crate) mod client;
mod kv;
mod lane;
mod limit;
mod rows;
mod upstash;
mod work;
mod writer;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::http::HeaderValue;
use hyper::{Method, StatusCode};
use keystead_commands::Random;
use keystead_commands::ctx::Publication;
use keystead_commands::hub::{Facts, Host, Hub};
use keystead_core::{Clock, Code, Error, Millis, Result, SystemClock};
use keystead_http_api::upstash::SYNC_TOKEN;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::bounds::{BODY_BYTES_MAX, COMPUTE_HELD_BYTES, COMPUTE_MESSAGES_BYTES_MAX};
use crate::failure::failure;
use crate::http::error as api_error;
use crate::http::reply::{self, Reply};
use crate::http::routes::{self, Access, Match};
use crate::listen::reachable;
use crate::service::{self, Arrived, Common, Found, Service};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::{VERSION, server};
use client::{SharedStorage, Storage};
use lane::Lane;
use limit::Policies;
use work::Database;

/// What the connections of a compute service share.
pub(super) struct Compute {
    common: Common,
    database: Database,
    hub: Arc<Hub>,
    policies: Policies,
    storage: SharedStorage,
    metrics: Registry,
    responses: AtomicU64,
}

/// The settings that have no effect with `--storage`.
pub(crate) const NO_EFFECT: [&str; 13] = [
    "resp",
    "resp-tls-cert",
    "resp-tls-key",
    "data",
    "durability",
    "shards",
    "sink-journal",
    "documents-store",
    "upstream",
    "cluster",
    "node-id",
    "advertise",
    "sync-secret",
];

/// The service, for commands that ask.
struct ComputeHost;

impl Host for ComputeHost {
    fn needs_token(&self) -> bool {
        true
    }

    fn is_token(&self, _: &[u8]) -> bool {
        false
    }

    fn shards(&self) -> usize {
        1
    }

    fn facts(&self) -> Facts {
        Facts {
            version: VERSION,
            durability: "fsync",
            log_level: "notice",
            shards: 1,
            process_id: std::process::id(),
            run_id: "0".repeat(40),
            ..Facts::default()
        }
    }
}

/// The current time.
fn now() -> Millis {
    SystemClock.now()
}

/// Runs a compute service until a signal has stopped it and it has drained.
///
/// # Errors
/// `config_invalid` with the one line for the user when it cannot start.
pub async fn run(settings: Settings, url: String) -> Result<()> {
    server::check_tokens(&settings)?;
    if !settings.sinks.is_empty() {
        return Err(failure(
            "[sink.*] has no effect with --storage",
            "remove it: sinks follow the database of a server",
        ));
    }
    let policies = Policies::new(&settings.policies)?;
    let storage = Arc::new(Storage::new(&settings, &url)?);
    let bound = server::open_listener("--http", &settings.http, None, &settings).await?;
    let Some((listener, address)) = bound else {
        return Err(failure("--http is off", "open it: with --storage there is no other listener"));
    };
    let mut signals = Signals::listen()?;
    let hub = Arc::new(Hub::new(Box::new(ComputeHost)));
    let (database, waiting) = Database::new();
    let random = Random::new(RandomState::new().hash_one(0));
    let held_bytes = settings.memory_bytes.unwrap_or(COMPUTE_HELD_BYTES);
    let lane = Lane::new(Arc::clone(&storage), Arc::clone(&hub), random, held_bytes);
    tokio::spawn(lane.serve(waiting));
    let mut metrics = Registry::with_prefix("keystead_compute");
    metrics.register("storage_calls", "Requests to the storage service", storage.calls.clone());
    let common = Common::new(settings, BODY_BYTES_MAX);
    // Above those of earlier starts.
    let responses = AtomicU64::new(now().0 << 10);
    let compute = Arc::new(Compute { common, database, hub, policies, storage, metrics, responses });
    let mut serving = tokio::spawn(service::serve(listener, Arc::clone(&compute)));
    server::print(&format!(
        "keystead {VERSION} is ready\n  http        http://{address}\n  storage     {}\n  try         curl -s http://{}/healthz\n",
        compute.storage.shown(),
        reachable(address)
    ));
    server::warn_of_short_tokens(&compute.common.settings);
    tracing::info!(version = VERSION, "ready");
    tokio::select! {
        signal = signals.next() => tracing::info!(signal, "stopping"),
        _ = &mut serving => return Err(server::broken()),
    }
    compute.common.stop();
    // A second signal ends the process without waiting for the drain.
    tokio::spawn(signals.exit_at_next());
    serving.await.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    tracing::info!("stopped");
    Ok(())
}

impl Service for Compute {
    fn common(&self) -> &Common {
        &self.common
    }

    fn find(&self, method: &Method, path: &str) -> Found {
        let found = Match::find(method, path);
        let allow = matches!(found, Match::WrongMethod(_)) || method == Method::OPTIONS;
        Found {
            access: found.access(),
            allow: allow.then(|| routes::allow(path)),
            is_for_pages: found.is_for_pages(),
        }
    }

    async fn respond(&self, request: Arrived) -> Reply {
        let path = request.head.uri.path();
        let first = path.strip_prefix('/').unwrap_or(path).split('/').next().unwrap_or_default();
        match first {
            "healthz" => self.health(),
            "readyz" if self.common.is_stopping() => {
                reply::json(StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "stopping" }))
            }
            "readyz" => reply::json(StatusCode::OK, json!({ "status": "ready" })),
            "metrics" => self.metrics(),
            "kv" | "kv:batch" => {
                kv::respond(self, &request).await.unwrap_or_else(|error| api_error::reply(&error))
            }
            "limit" => limit::respond(self, &request).await.unwrap_or_else(|error| api_error::reply(&error)),
            _ if self.find(&request.head.method, path).access != Access::Upstash => {
                let words = "this path is not served in split mode: send it to a server";
                reply::error(&Error::new(Code::Unsupported, words))
            }
            _ => {
                let mut reply = upstash::respond(self, &request).await;
                let token = self.responses.fetch_add(1, Ordering::Relaxed);
                reply.headers_mut().insert(SYNC_TOKEN, HeaderValue::from(token));
                reply
            }
        }
    }
}

impl Compute {
    fn health(&self) -> Reply {
        reply::json(StatusCode::OK, json!({ "status": "ok", "storage": self.storage.shown() }))
    }

    fn metrics(&self) -> Reply {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.metrics);
        let media = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        reply::text(StatusCode::OK, media, text)
    }

    /// Sends messages to subscribers of this process.
    fn publish(&self, publications: &[Publication]) {
        publications
            .iter()
            .for_each(|publication| self.hub.bus.publish(publication, COMPUTE_MESSAGES_BYTES_MAX));
    }
}
