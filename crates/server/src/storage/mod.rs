//! `keystead storage`: one SQLite file for compute services, which send it statements over HTTP.
//!
//! ```text
//! POST /statements -> token -> body -> queue -> one transaction per item -> rows
//! ```
//!
//! | To find                                          | open         |
//! |--------------------------------------------------|--------------|
//! | the file, what a statement may do, bounds of items | `database` |
//! | its schema, and what it reclaims                 | `executor`   |
//! | the thread that executes, and its queue          | `worker`     |
//!
//! It knows nothing of commands: those run on the compute side (`crate::compute`). Touches sockets and one directory. Invariant: a response
//! leaves when the transactions of its items are durable, by SQLite's own log at `synchronous` FULL.

mod database;
mod executor;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use hyper::http::HeaderValue;
use hyper::{Method, StatusCode};
use keystead_core::{Code, Error, Result};
use keystead_http_api::statements::{Failure, Outcome, Outcomes, Request};
use serde_json::json;

use crate::bounds::STORAGE_BODY_BYTES_MAX;
use crate::failure::failure;
use crate::http::reply::{self, Reply};
use crate::http::routes::Access;
use crate::http::status;
use crate::listen::reachable;
use crate::service::{self, Arrived, Common, Found, Service};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::{VERSION, server};
use worker::Worker;

/// What the connections of a storage service share.
struct Storage {
    common: Common,
    worker: Worker,
}

/// Runs a storage service until a signal has stopped it and it has drained.
///
/// # Errors
/// `config_invalid` with the one line for the user when it cannot start; another code when it cannot stop cleanly.
pub async fn run(settings: Settings, dir: PathBuf) -> Result<()> {
    // The address first: if a service runs already, that is found out before its file is touched.
    let bound = server::open_listener("--http", &settings.http, None, &settings).await?;
    let Some((listener, address)) = bound else {
        return Err(failure("--http is off", "open it, for example --http 127.0.0.1:8090"));
    };
    let shown = dir.display().to_string();
    let opened = tokio::task::spawn_blocking(move || Worker::open(&dir)).await;
    let worker = opened.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))?;
    let mut signals = Signals::listen()?;
    let storage = Arc::new(Storage { common: Common::new(settings, STORAGE_BODY_BYTES_MAX), worker });
    let mut serving = tokio::spawn(service::serve(listener, Arc::clone(&storage)));
    server::print(&format!(
        "keystead {VERSION} is ready\n  http        http://{address}\n  storage     {shown}\n  try         keystead serve --storage http://{}\n",
        reachable(address)
    ));
    server::warn_of_short_tokens(&storage.common.settings);
    tracing::info!(version = VERSION, "ready");
    tokio::select! {
        signal = signals.next() => tracing::info!(signal, "stopping"),
        _ = &mut serving => return Err(server::broken()),
    }
    storage.common.stop();
    // A second signal ends the process without waiting for the drain.
    tokio::spawn(signals.exit_at_next());
    serving.await.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    storage.worker.stop().await;
    tracing::info!("stopped");
    Ok(())
}

impl Service for Storage {
    fn common(&self) -> &Common {
        &self.common
    }

    fn find(&self, method: &Method, path: &str) -> Found {
        let (access, methods): (Access, &[Method]) = match path {
            "/healthz" | "/readyz" => (Access::Open, &[Method::GET, Method::HEAD]),
            "/metrics" => (Access::Token, &[Method::GET, Method::HEAD]),
            _ => (Access::Token, &[Method::POST]),
        };
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        let allow = (!methods.contains(method)).then(|| names.join(", "));
        Found { access, allow, is_for_pages: false }
    }

    async fn respond(&self, request: Arrived) -> Reply {
        match request.head.uri.path() {
            "/healthz" => self.health(),
            "/readyz" if self.common.is_stopping() => {
                reply::json(StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "stopping" }))
            }
            "/readyz" => reply::json(StatusCode::OK, json!({ "status": "ready" })),
            "/metrics" => {
                let media =
                    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
                reply::text(StatusCode::OK, media, self.worker.metrics())
            }
            "/statements" => self.statements(&request.body).await,
            path => {
                let words = format!(
                    "there is no {path}: a storage service has /statements, /healthz, /readyz and /metrics"
                );
                failed(StatusCode::NOT_FOUND, "not_found", &words)
            }
        }
    }
}

impl Storage {
    fn health(&self) -> Reply {
        match self.worker.trouble() {
            None => reply::json(StatusCode::OK, json!({ "status": "ok" })),
            Some(why) => {
                reply::json(StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "failing", "reasons": [why] }))
            }
        }
    }

    async fn statements(&self, body: &[u8]) -> Reply {
        let request = match Request::parse(body) {
            Ok(request) => request,
            Err(why) => return failed(StatusCode::BAD_REQUEST, Code::BadRequest.as_str(), &why),
        };
        let is_one = matches!(request, Request::One(_));
        let mut outcomes = match self.worker.execute(request).await {
            Ok(outcomes) => outcomes,
            Err(error) => return reply::error(&error),
        };
        let answered = match is_one {
            true => outcomes.pop().map(|outcome| (status_of(&outcome), serde_json::to_string(&outcome))),
            false => Some((StatusCode::OK, serde_json::to_string(&Outcomes { pipeline: outcomes }))),
        };
        match answered {
            Some((status, Ok(text))) => reply::json(status, text),
            _ => reply::error(&Error::new(Code::Internal, "a result has no JSON form")),
        }
    }
}

fn failed(status: StatusCode, code: &str, words: &str) -> Reply {
    reply::json(status, json!({ "error": { "code": code, "message": words } }))
}

fn status_of(outcome: &Outcome) -> StatusCode {
    match outcome {
        Outcome::Results(_) => StatusCode::OK,
        Outcome::Conflict(_) => StatusCode::CONFLICT,
        Outcome::Error(Failure { code, .. }) => match code.as_str() {
            "forbidden" => StatusCode::FORBIDDEN,
            "timed_out" => StatusCode::REQUEST_TIMEOUT,
            code => Code::ALL
                .iter()
                .find(|known| known.as_str() == code)
                .map_or(StatusCode::BAD_REQUEST, |known| status::of(*known)),
        },
    }
}
