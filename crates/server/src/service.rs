//! An HTTP listener of a process without shards: accept, check host and token, read the body, call the handler, drain. Touches sockets.
//!
//! Invariant: nothing of a body is read before the token has been checked.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use keystead_core::{Code, Error, ShardId, Stopwatch};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::accept::{self, Acceptor, Rejections};
use crate::bounds::{AUTH_FAILURE_DELAY, AUTH_FAILURES_MAX, Bounds, DRAIN_TIMEOUT, REJECTION_TIMEOUT};
use crate::http::body::{self, Bodies};
use crate::http::reply::{self, Reply};
use crate::http::request::RequestError;
use crate::http::rights::{self, AuthError, Rights};
use crate::http::routes::Access;
use crate::http::{cors, upstash};
use crate::open_files;
use crate::settings::Settings;

/// What the connections of a process share.
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) bounds: Bounds,
    bodies: Arc<Bodies>,
    stop: watch::Sender<bool>,
}

impl Common {
    pub(crate) fn new(settings: Settings, body_bytes_max: usize) -> Common {
        open_files::raise_limit();
        let bounds = Bounds {
            connections_max: open_files::connections_max(0),
            drain_timeout: DRAIN_TIMEOUT,
            body_bytes_max,
            ..Bounds::default()
        };
        Common { settings, bounds, bodies: Arc::default(), stop: watch::Sender::new(false) }
    }

    /// Stops the listener.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    async fn stopping(&self) {
        // The sender is not dropped before.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

/// What a path is.
pub(crate) struct Found {
    pub(crate) access: Access,
    /// The methods that it takes, if the request has another.
    pub(crate) allow: Option<String>,
    /// Whether pages of browsers may send requests.
    pub(crate) is_for_pages: bool,
}

/// A request whose body has arrived.
pub(crate) struct Arrived {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    pub(crate) rights: Rights,
}

/// What a process serves.
pub(crate) trait Service: Send + Sync + 'static {
    fn common(&self) -> &Common;

    /// What is at a path.
    fn find(&self, method: &Method, path: &str) -> Found;

    /// Responds to a request that is authorised.
    fn respond(&self, request: Arrived) -> impl Future<Output = Reply> + Send;
}

/// Serves connections until the process stops, then drains.
pub(crate) async fn serve<S: Service>(listener: TcpListener, service: Arc<S>) {
    let bounds = &service.common().bounds;
    let slots = Arc::new(Semaphore::new(bounds.connections_max));
    let (connections_max, drain_timeout) = (bounds.connections_max, bounds.drain_timeout);
    let mut acceptor = Connections {
        service: Arc::clone(&service),
        slots,
        tasks: JoinSet::new(),
        rejections: Rejections::default(),
    };
    accept::until(service.common().stopping(), &listener, |shard| shard, &mut acceptor).await;
    // A client whose idle connection is drained must not be able to connect again.
    drop(listener);
    let Connections { mut tasks, slots, .. } = acceptor;
    let left = || connections_max - slots.available_permits();
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    accept::drain(all_ended, drain_timeout, left).await;
    tasks.shutdown().await;
}

struct Connections<S> {
    service: Arc<S>,
    slots: Arc<Semaphore>,
    tasks: JoinSet<()>,
    rejections: Rejections,
}

impl<S: Service> Acceptor for Connections<S> {
    fn admit(&mut self, stream: TcpStream, _: SocketAddr, _: ShardId) {
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => {
                self.tasks.spawn(connection(stream, Arc::clone(&self.service), slot));
            }
            Err(_) => {
                let rejection = self.tasks.spawn(reject(stream));
                self.rejections.push(rejection);
            }
        }
    }

    async fn maintain(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn connection<S: Service>(stream: TcpStream, service: Arc<S>, _slot: OwnedSemaphorePermit) {
    let Ok(at) = stream.local_addr() else { return };
    let bounds = &service.common().bounds;
    let failures = AtomicU32::new(0);
    let handler = service_fn(|request| async {
        Ok::<_, Infallible>(process(&*service, at.ip(), &failures, request).await)
    });
    let mut serving = Box::pin(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_header_size(bounds.header_bytes_max)
            .serve_connection(TokioIo::new(stream), handler),
    );
    let ended = tokio::select! {
        biased;
        () = service.common().stopping() => None,
        ended = serving.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Responds to one request with 503, and closes the connection.
async fn reject(stream: TcpStream) {
    let handler = service_fn(|_| async {
        let error = Error::new(Code::QueueFull, "too many connections are open: try again later");
        Ok::<_, Infallible>(reply::error(&error))
    });
    let one = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), handler);
    let _ = timeout(REJECTION_TIMEOUT, one).await;
}

async fn process<S: Service>(
    service: &S,
    at: IpAddr,
    failures: &AtomicU32,
    request: Request<Incoming>,
) -> Reply {
    let stopwatch = Stopwatch::start();
    let found = service.find(request.method(), request.uri().path());
    let is_page = cors::is_page(request.headers());
    let mut reply = match run(service, at, failures, &found, request).await {
        Ok(reply) => reply,
        Err(error) => rejection(failures, &found, &error).await,
    };
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if service.common().is_stopping() {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if is_page && found.is_for_pages {
        cors::finish(&mut reply);
    }
    // The path is not logged: it may contain keys and values.
    tracing::debug!(
        status = reply.status().as_u16(),
        took_us = stopwatch.elapsed().as_micros() as u64,
        "request"
    );
    reply
}

async fn run<S: Service>(
    service: &S,
    at: IpAddr,
    failures: &AtomicU32,
    found: &Found,
    request: Request<Incoming>,
) -> Result<Reply, RequestError> {
    let Common { settings, bounds, bodies, .. } = service.common();
    rights::check_host(settings, at, request.uri(), request.headers()).map_err(RequestError::Host)?;
    if let (true, &Method::OPTIONS) = (found.is_for_pages, request.method()) {
        return Ok(cors::preflight(request.headers(), found.allow.as_deref().unwrap_or_default()));
    }
    let mut granted = Rights::ReadOnly;
    if found.access != Access::Open {
        let in_query = || match found.access {
            Access::Upstash | Access::Documents | Access::Sync => upstash::token_in(request.uri().query()),
            Access::Open | Access::Token => None,
        };
        granted = match (rights::of(settings, request.headers(), in_query), found.access) {
            (Ok(Rights::ReadOnly), Access::Token) => {
                return Err(RequestError::Unauthorized(AuthError::MissingToken));
            }
            (Ok(granted), _) => granted,
            (Err(error), _) => return Err(RequestError::Unauthorized(error)),
        };
        failures.store(0, Ordering::Relaxed);
    }
    if let Some(allow) = &found.allow {
        return Err(RequestError::Method(allow.clone()));
    }
    let (head, incoming) = request.into_parts();
    let most = if found.access == Access::Open { 0 } else { bounds.body_bytes_max };
    let body = body::read(bodies, bounds.body_timeout, most, incoming).await?;
    Ok(service.respond(Arrived { head, body, rights: granted }).await)
}

/// The response to a request that does not reach its handler.
async fn rejection(failures: &AtomicU32, found: &Found, error: &RequestError) -> Reply {
    let is_last = match error {
        RequestError::Unauthorized(AuthError::WrongToken) => {
            tokio::time::sleep(AUTH_FAILURE_DELAY).await;
            failures.fetch_add(1, Ordering::Relaxed) + 1 >= AUTH_FAILURES_MAX
        }
        // The rest of the body may still arrive, so the connection cannot carry another request.
        RequestError::TimedOut | RequestError::BodiesFull => true,
        _ => false,
    };
    let mut reply = match found.access {
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
