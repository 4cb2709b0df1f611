//! How one request is processed: find its row, check the host and the token, read the body, run the handler, count. Touches the
//! request's connection, through its body.
//!
//! Nothing of a body is read before the token has been checked.

use std::net::IpAddr;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use keystead_core::{Code, Error, Stopwatch};

use super::context::HttpContext;
use super::error::{ApiError, RETURN_BODY, RETURNED_BODY};
use super::reply::{self, Body, Reply, TryAgain};
use super::rights::{self, AuthError, Rights};
use super::routes::{self, Access, Match, Route, Takes, method_label};
use super::{body, cors, health, upstash};
use crate::app::App;
use crate::bounds::{AUTH_FAILURE_DELAY, AUTH_FAILURES_MAX, PARKED_RETRY_INTERVAL};
use crate::starting::Starting;
use crate::sync_token::Scope;

/// A request whose body has arrived.
pub struct HttpRequest {
    /// The row that handles it.
    pub route: &'static Route,
    /// Its line and headers.
    pub head: Parts,
    /// All of its body.
    pub body: Bytes,
    /// Its rights.
    pub rights: Rights,
    /// What the token of an offline client allows, if it has one.
    pub scope: Option<Scope>,
}

impl HttpRequest {
    /// A parameter of the path, as it was sent; empty where the route has none of this name.
    #[must_use]
    pub fn path_parameter(&self, name: &str) -> &str {
        self.route.parameter(name, self.head.uri.path()).unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn for_test(head: Parts, body: &'static str) -> HttpRequest {
        let Match::Route(route) = Match::find(&head.method, head.uri.path()) else { panic!("no route") };
        HttpRequest { route, head, body: body.into(), rights: Rights::All, scope: None }
    }

    /// Fails for a read-only token.
    pub(super) fn require_write(&self) -> Result<(), ApiError> {
        match self.rights {
            Rights::All => Ok(()),
            Rights::ReadOnly => Err(ApiError::ReadOnly),
        }
    }
}

/// Why a request does not reach its handler. Each API has its own form for it.
#[derive(Clone, Debug)]
pub enum RequestError {
    /// It is not authorised.
    Unauthorized(AuthError),
    /// No token is set, and its `Host`, this one, is not this machine.
    Host(String),
    /// The path takes other methods: these.
    Method(String),
    /// The body is too large: the bound, and its length as far as that is known.
    TooLarge(usize, u64),
    /// The body is incomplete.
    Unreadable(String),
    /// The body did not arrive in time.
    TimedOut,
    /// The bodies of all requests together are too large.
    BodiesFull,
}

impl RequestError {
    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            RequestError::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            RequestError::Host(_) => StatusCode::FORBIDDEN,
            RequestError::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            RequestError::TooLarge(..) => StatusCode::PAYLOAD_TOO_LARGE,
            RequestError::Unreadable(_) => StatusCode::BAD_REQUEST,
            RequestError::TimedOut => StatusCode::REQUEST_TIMEOUT,
            RequestError::BodiesFull => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Responds to a request.
pub async fn respond(context: &HttpContext, request: Request<Incoming>) -> Reply {
    let stopwatch = Stopwatch::start();
    let found = Match::find(request.method(), request.uri().path());
    let method = method_label(request.method());
    let is_page = cors::is_page(request.headers());
    let is_read = request.method().is_safe();
    let mut reply = match run(context, found, request).await {
        Ok(reply) => reply,
        Err(error) => error_reply(context, found, &error).await,
    };
    match reply.body_mut().count_waiting(&context.app.hub.waiting) {
        // What was read can be read again. What was written cannot be undone here, so a write has checked this before
        // (idempotency.rs), and so has a command.
        Err(error) if is_read && found.access() != Access::Upstash => reply = reply::error(&error),
        _ => {}
    }
    // Stored data must not remain in the cache of a browser or a proxy.
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if context.app.is_stopping() {
        // Its connection may not have noticed yet.
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if found.access() == Access::Upstash {
        upstash::finish(context, &mut reply);
    }
    if is_page && found.is_for_pages() {
        cors::finish(&mut reply);
    }
    let (route, status, took) = (found.label(), reply.status().as_u16(), stopwatch.elapsed());
    context.app.metrics.record_request(route, method, status, took);
    // The path is not logged: it contains keys and values.
    tracing::debug!(route, method, status, took_us = took.as_micros() as u64, "request");
    reply
}

/// Why a request is not served by a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unserved {
    /// Its connection is over the bound.
    TooMany,
    /// The shard runs a long command.
    Busy,
}

/// The response to a request that is not served by a shard. It does not depend on the token, so it cannot be used to guess tokens.
///
/// `at`: the local address of the connection.
pub(super) fn without_shard(app: &App, at: IpAddr, why: Unserved, request: &Request<Incoming>) -> Reply {
    let mut reply = match rights::check_host(&app.settings, at, request.uri(), request.headers()) {
        Ok(()) => unserved(app, why, request),
        Err(host) => reply::request_error(&RequestError::Host(host)),
    };
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// The response to a request while the database loads. It does not depend on the token, either.
pub(super) fn while_loading(starting: &Starting, at: IpAddr, request: &Request<Incoming>) -> Reply {
    let found = Match::find(request.method(), request.uri().path());
    let mut reply = match rights::check_host(&starting.settings, at, request.uri(), request.headers()) {
        Err(host) => reply::request_error(&RequestError::Host(host)),
        Ok(()) => {
            let health = match found {
                Match::Route(route) => health::while_loading(starting, route.path),
                Match::WrongMethod(_) => None,
            };
            health.unwrap_or_else(|| match found.access() {
                Access::Upstash => upstash::loading(),
                Access::Open | Access::Token | Access::Documents | Access::Sync => reply::loading(),
            })
        }
    };
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

fn unserved(app: &App, why: Unserved, request: &Request<Incoming>) -> Reply {
    let found = Match::find(request.method(), request.uri().path());
    if let Match::Route(route) = found
        && let Some(reply) = health::without_shard(app, why, route.path)
    {
        return reply;
    }
    let words = match why {
        Unserved::TooMany => "too many connections are open: try again later",
        Unserved::Busy => "a long-running command blocks the shard: try again later",
    };
    let error = Error::new(Code::QueueFull, words);
    match found.access() {
        Access::Upstash => upstash::failed(error),
        Access::Open | Access::Token | Access::Documents | Access::Sync => reply::error(&error),
    }
}

async fn run(context: &HttpContext, found: Match, request: Request<Incoming>) -> Result<Reply, RequestError> {
    let settings = &context.app.settings;
    rights::check_host(settings, context.at, request.uri(), request.headers()).map_err(RequestError::Host)?;
    if found.is_for_pages() && request.method() == Method::OPTIONS {
        return Ok(cors::preflight(request.headers(), &routes::allow(request.uri().path())));
    }
    let (rights, scope) = rights_of(context, found.access(), &request).map_err(RequestError::Unauthorized)?;
    if found.access() != Access::Open {
        context.auth_failures.set(0);
    }
    match found {
        Match::WrongMethod(_) => Err(RequestError::Method(routes::allow(request.uri().path()))),
        Match::Route(route) => {
            let (head, body) = request.into_parts();
            let most = match route.takes {
                Takes::Body => context.bounds.body_bytes_max,
                Takes::Nothing => 0,
            };
            let body = body::read(&context.app.bodies, context.bounds.body_timeout, most, body).await?;
            Ok(handle(context, &HttpRequest { route, head, body, rights, scope }).await)
        }
    }
}

async fn handle(context: &HttpContext, request: &HttpRequest) -> Reply {
    let mut reply = request.route.handle(context, request).await;
    if let Some(TryAgain) = reply.extensions().get() {
        // Boxed: it is rare, and the future of every request would be as large.
        reply = Box::pin(handle_again(context, request, reply)).await;
    }
    let is_not_served =
        reply.status() == StatusCode::MISDIRECTED_REQUEST || reply.extensions().get::<TryAgain>().is_some();
    if is_not_served && request.head.headers.contains_key(&RETURN_BODY) {
        // A router passes large bodies on without keeping them, and needs this one again for the owner.
        *reply.body_mut() = Body::Whole(request.body.clone());
        reply.headers_mut().insert(RETURNED_BODY, HeaderValue::from_static("1"));
    }
    reply
}

/// The slot of its key was being handed over. It was not applied, and this node may serve it again, or know who does.
async fn handle_again(context: &HttpContext, request: &HttpRequest, reply: Reply) -> Reply {
    let Some(membership) = context.app.cluster.get() else { return reply };
    let again = async || {
        let reply = request.route.handle(context, request).await;
        reply.extensions().get::<TryAgain>().is_none().then_some(reply)
    };
    membership.retry(PARKED_RETRY_INTERVAL, again).await.unwrap_or(reply)
}

fn rights_of(
    context: &HttpContext,
    access: Access,
    request: &Request<Incoming>,
) -> Result<(Rights, Option<Scope>), AuthError> {
    let settings = &context.app.settings;
    let in_query = || upstash::token_in(request.uri().query());
    let rights = match access {
        Access::Sync => return rights::of_sync(settings, request.headers(), context.app.now(), in_query),
        Access::Open => Ok(Rights::All),
        Access::Upstash | Access::Documents => rights::of(settings, request.headers(), in_query),
        // Metrics and backups are not for a token that may only read keys.
        Access::Token => match rights::of(settings, request.headers(), || None)? {
            Rights::All => Ok(Rights::All),
            Rights::ReadOnly => Err(AuthError::MissingToken),
        },
    };
    rights.map(|rights| (rights, None))
}

async fn error_reply(context: &HttpContext, found: Match, error: &RequestError) -> Reply {
    let is_last = match error {
        // Boxed: the future of every request would be as large.
        RequestError::Unauthorized(AuthError::WrongToken) => Box::pin(delay_failure(context)).await,
        RequestError::Host(host) => {
            if let Some(more) = context.app.notices.foreign_host.pass(context.app.now()) {
                tracing::warn!(
                    host = rights::shown(host),
                    more,
                    "rejected a request for another host than this machine"
                );
            }
            false
        }
        // The rest of the body may still arrive, so the connection cannot carry another request.
        RequestError::TimedOut | RequestError::BodiesFull => true,
        _ => false,
    };
    let mut reply = match found.access() {
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

/// Delays the response to a wrong token, and returns whether it is the connection's last. Only this connection waits, and a correct
/// token is never delayed, so a client that guesses does not lock others out.
async fn delay_failure(context: &HttpContext) -> bool {
    let failures = context.auth_failures.get().saturating_add(1);
    context.auth_failures.set(failures);
    context.app.metrics.http_auth_failures.inc();
    if let Some(more) = context.app.notices.wrong_token.pass(context.app.now()) {
        let client = context.session.borrow().client.address.clone();
        tracing::warn!(client, more, "an HTTP request had a wrong token");
    }
    tokio::time::sleep(AUTH_FAILURE_DELAY).await;
    failures >= AUTH_FAILURES_MAX
}
