//! How a router processes one request: find its row, check the host and the token, find its slot, call the owner. Touches the
//! request's connection and nodes.
//!
//! Tokens: the router checks the client's token against its own settings before it reads anything, and passes it on. The nodes
//! have the same tokens, and decide what a read-only one may do.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use keystead_core::Stopwatch;
use keystead_core::key::slot;

use super::node::{Kind, Outgoing};
use super::redirect::Replay;
use super::reply::{failed, from_node, rejected, to_node};
use super::{Router, health, keys, list, streams, upstash as commands};
use crate::bounds::{AUTH_FAILURE_DELAY, AUTH_FAILURES_MAX, ROUTER_REPLAY_BYTES_MAX};
use crate::http::events::MEDIA;
use crate::http::reply::{self, Body, Reply};
use crate::http::request::RequestError;
use crate::http::rights::{self, AuthError, Rights};
use crate::http::routes::{self, Access, Match, Route, Takes, method_label};
use crate::http::{body, cors, upstash, url};

/// A client's connection.
pub(super) struct Connection {
    pub(super) router: Arc<Router>,
    /// Its local address.
    pub(super) at: IpAddr,
    pub(super) auth_failures: AtomicU32,
}

/// Responds to a request.
pub(super) async fn respond(connection: &Connection, request: Request<Incoming>) -> Reply {
    let stopwatch = Stopwatch::start();
    let router = &connection.router;
    let found = Match::find(request.method(), request.uri().path());
    let method = method_label(request.method());
    let is_page = cors::is_page(request.headers());
    let mut reply = match run(connection, found, request).await {
        Ok(reply) => reply,
        Err(error) => error_reply(connection, found, &error).await,
    };
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if router.is_stopping() {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if is_page && found.is_for_pages() {
        cors::finish(&mut reply);
    }
    let (route, status, took) = (found.label(), reply.status().as_u16(), stopwatch.elapsed());
    router.metrics.record_request(route, method, status, took);
    // The path is not logged: it contains keys and values.
    tracing::debug!(route, method, status, took_us = took.as_micros() as u64, "request");
    reply
}

async fn run(
    connection: &Connection,
    found: Match,
    request: Request<Incoming>,
) -> Result<Reply, RequestError> {
    let settings = &connection.router.settings;
    rights::check_host(settings, connection.at, request.uri(), request.headers())
        .map_err(RequestError::Host)?;
    let allow = || routes::allow(request.uri().path());
    if found.is_for_pages() && request.method() == Method::OPTIONS {
        return Ok(cors::preflight(request.headers(), &allow()));
    }
    if found.access() != Access::Open {
        let in_query = || match found.access() {
            Access::Upstash | Access::Documents | Access::Sync => upstash::token_in(request.uri().query()),
            Access::Open | Access::Token => None,
        };
        match (rights::of(settings, request.headers(), in_query), found.access()) {
            (Ok(Rights::ReadOnly), Access::Token) => {
                return Err(RequestError::Unauthorized(AuthError::MissingToken));
            }
            (Ok(_), _) => connection.auth_failures.store(0, Ordering::Relaxed),
            (Err(error), _) => return Err(RequestError::Unauthorized(error)),
        }
    }
    match found {
        Match::WrongMethod(_) => Err(RequestError::Method(allow())),
        Match::Route(route) => dispatch(&connection.router, route, request).await,
    }
}

/// What a router does with a route.
#[derive(Clone, Copy, Debug)]
enum Way {
    Healthz,
    Readyz,
    Metrics,
    List,
    /// To the owner of the key in the path.
    Key,
    /// To the owner of the keys in the body.
    Body(fn(&[u8]) -> keys::Slots),
    Command,
    Pipeline,
    Transaction,
    Subscribe,
    /// It concerns one node.
    Nowhere,
}

/// What becomes of a row of the route table.
fn way(route: &Route) -> Way {
    let is = |method: &Method| route.methods.contains(method);
    match route.path {
        "/healthz" => Way::Healthz,
        "/readyz" => Way::Readyz,
        "/metrics" => Way::Metrics,
        "/kv" => Way::List,
        "/kv:batch" => Way::Body(keys::of_operations),
        "/kv/{key...}" | "/limit/{policy}/{key...}" => Way::Key,
        "/limit" if is(&Method::POST) => Way::Body(keys::of_checks),
        "/limit/{policy}/check" => Way::Body(keys::of_keys),
        "/limit/{policy}" if is(&Method::POST) => Way::Body(keys::of_key),
        "/limit/{policy}/acquire"
        | "/limit/{policy}/release"
        | "/limit/{policy}/reserve"
        | "/limit/{policy}/settle" => Way::Body(keys::of_key),
        "/pipeline" => Way::Pipeline,
        "/multi-exec" => Way::Transaction,
        "/subscribe/{channel...}" | "/psubscribe/{pattern...}" => Way::Subscribe,
        "/{command...}" => Way::Command,
        _ => Way::Nowhere,
    }
}

async fn dispatch(
    router: &Arc<Router>,
    route: &'static Route,
    request: Request<Incoming>,
) -> Result<Reply, RequestError> {
    let way = way(route);
    let (head, incoming) = request.into_parts();
    let most = if route.takes == Takes::Body { router.bounds.body_bytes_max } else { 0 };
    if let Way::Key = way {
        // A client that announces the length gets the error before it sends the body.
        let announced = incoming.size_hint().lower();
        if announced > most as u64 {
            return Err(RequestError::TooLarge(most, announced));
        }
        // With a list of nodes nothing is sent again.
        let is_small =
            incoming.size_hint().upper().is_some_and(|upper| upper <= ROUTER_REPLAY_BYTES_MAX as u64);
        let body = match router.map().is_cluster() && is_small {
            true => {
                let body = body::read(&router.bodies, router.bounds.body_timeout, most, incoming).await?;
                Replay::Whole(body)
            }
            false => Replay::Streamed(Some(Outgoing::Streamed(incoming, most))),
        };
        return Ok(by_key(router, route, &head, body).await);
    }
    let body = body::read(&router.bodies, router.bounds.body_timeout, most, incoming).await?;
    Ok(match way {
        Way::Healthz => health::healthz(router),
        Way::Readyz => health::readyz(router),
        Way::Metrics => {
            let media =
                HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            reply::text(StatusCode::OK, media, router.metrics_text())
        }
        Way::List => list::list(router, &head).await,
        Way::Body(slots) => by_body(router, &head, body, slots).await,
        Way::Command => commands::command(router, &head, body).await,
        Way::Pipeline => commands::pipeline(router, &head, body).await,
        Way::Transaction => commands::transaction(router, &head, body).await,
        Way::Subscribe => streams::messages(router, &head).await,
        Way::Key | Way::Nowhere => {
            let why = "a router does not serve this path, which concerns one node: send it to a node";
            rejected(route.access, StatusCode::NOT_IMPLEMENTED, "unsupported", why)
        }
    })
}

/// A request with its key in the path. A large body is not held: it is passed on as it arrives.
async fn by_key(router: &Arc<Router>, route: &Route, head: &Parts, body: Replay) -> Reply {
    let text = route.parameter("key", head.uri.path()).unwrap_or_default();
    // A key that cannot be decoded is an error on every node.
    let slot = url::decoded(text, false).map_or(0, |key| slot(&key));
    let kind = if waits(head) { Kind::Stream } else { Kind::Call };
    send(router, slot, head, body, kind, route.access).await
}

/// Whether the response may come late: a long poll, or events.
fn waits(head: &Parts) -> bool {
    accepts_events(&head.headers) || url::parameters(head.uri.query()).any(|(name, _)| name == "wait")
}

pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains(MEDIA)))
}

/// A request with its keys in the body.
async fn by_body(router: &Arc<Router>, head: &Parts, body: Bytes, slots: fn(&[u8]) -> keys::Slots) -> Reply {
    let bad = |why: &str| rejected(Access::Documents, StatusCode::BAD_REQUEST, "bad_request", why);
    let Some(slots) = slots(&body) else {
        return bad(
            "the body is invalid: the router finds no keys in it, see docs/documents.md and docs/limit-api.md",
        );
    };
    match keys::one_slot(slots) {
        Ok(Some(slot)) => send(router, slot, head, Replay::Whole(body), Kind::Call, Access::Documents).await,
        Ok(None) => bad("the body names no key"),
        Err(keys::CrossSlot) => bad("the keys of the request must be in one slot: give them the same {tag}"),
    }
}

async fn send(
    router: &Arc<Router>,
    slot: u16,
    head: &Parts,
    body: Replay,
    kind: Kind,
    access: Access,
) -> Reply {
    match router.call_owner(slot, body, kind, |body| to_node(head, body)).await {
        Ok((node, response)) if kind == Kind::Stream => {
            let stopping = Arc::clone(router);
            from_node(&node, response.map(|body| body.until(async move { stopping.stopping().await })))
        }
        Ok((node, response)) => from_node(&node, response),
        Err(error) => failed(access, &error, !head.method.is_safe()),
    }
}

async fn error_reply(connection: &Connection, found: Match, error: &RequestError) -> Reply {
    let is_last = match error {
        RequestError::Unauthorized(AuthError::WrongToken) => {
            connection.router.metrics.auth_failures.inc();
            tokio::time::sleep(AUTH_FAILURE_DELAY).await;
            connection.auth_failures.fetch_add(1, Ordering::Relaxed) + 1 >= AUTH_FAILURES_MAX
        }
        // The rest of the body may still arrive, so the connection cannot carry another request.
        RequestError::TimedOut | RequestError::BodiesFull => true,
        _ => false,
    };
    let mut reply: hyper::Response<Body> = match found.access() {
        Access::Upstash => upstash::request_error(error),
        Access::Open | Access::Token | Access::Documents | Access::Sync => reply::request_error(error),
    };
    if is_last {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if let RequestError::Method(allow) = error
        && let Ok(allow) = HeaderValue::from_str(allow)
    {
        reply.headers_mut().insert(ALLOW, allow);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes::ROUTES;

    /// A new route fails here until it is decided what a router does with it.
    #[test]
    fn every_route_is_served_or_deliberately_not() {
        let not_served: Vec<String> = ROUTES
            .iter()
            .filter(|route| matches!(way(route), Way::Nowhere))
            .map(|route| format!("{} {}", route.methods[0], route.path))
            .collect();
        let expected = [
            "GET /openapi.json",
            "POST /admin/backup",
            // Nodes of a cluster have no sinks.
            "GET /sinks",
            "GET /sinks/{sink}",
            "POST /sinks/{sink}/flush",
            "GET /sinks/{sink}/quarantine",
            "POST /sinks/{sink}/retry",
            "POST /sinks/{sink}/skip",
            "POST /sinks/{sink}/resync",
            "POST /sinks/{sink}/compact",
            "POST /sinks/{sink}/verify",
            "GET /events/{prefix...}",
            // Nodes and operators talk to a node by its own address.
            "GET /admin/cluster",
            "GET /admin/cluster/sizes",
            "POST /admin/cluster/refresh",
            "POST /admin/cluster/migrations/{id}/copy",
            "POST /admin/cluster/migrations/{id}/tail",
            "POST /admin/cluster/migrations/{id}/hand-over",
            "POST /sync",
            "GET /sync",
            "GET /limit",
            "GET /limit/{policy}",
            "POST /limit/{policy}/{action...}",
            "GET /monitor",
        ];
        assert_eq!(not_served, expected);
    }
}
