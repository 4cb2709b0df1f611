//! The HTTP listener: accepts connections up to the bound, hands each to a shard's loop, and drains when the server stops.
//! Touches sockets.
//!
//! A connection is served on a shard's loop, so that a command whose keys are on that shard runs without a hop. The listener itself
//! responds to health checks when all connections are in use, or while the loop runs a long command. When [`serve`] returns, all
//! connections of the listener are closed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use keystead_core::ShardId;
use keystead_engine::Local;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::context::HttpContext;
use super::health;
use super::request::{self, Unserved};
use crate::accept::{self, Acceptor, Rejections};
use crate::app::App;
use crate::bounds::{ACCEPT_PAUSE, Bounds, HEALTH_PEEK_BYTES, REJECTION_TIMEOUT};
use crate::handover::{self, OnLoop};

/// The phase of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It serves its connections.
    Open,
    /// Each connection finishes the request in flight.
    Draining,
    /// All connections end at once.
    Cut,
}

/// The state that all connections share.
#[derive(Clone)]
pub(super) struct Shared {
    app: Arc<App>,
    bounds: Arc<Bounds>,
    stage: watch::Receiver<Stage>,
}

/// Serves connections until the app stops, then drains.
pub async fn serve(listener: TcpListener, app: Arc<App>, bounds: Bounds) {
    HttpListener::new(bounds).serve(listener, app).await;
}

/// The state of the listener, which it has before there is an app.
pub(super) struct HttpListener {
    bounds: Arc<Bounds>,
    stage: watch::Sender<Stage>,
    slots: Arc<Semaphore>,
    /// Connections that no loop has yet, or that are being rejected.
    pub(super) tasks: JoinSet<()>,
    pub(super) rejections: Rejections,
}

impl HttpListener {
    pub(super) fn new(bounds: Bounds) -> Self {
        HttpListener {
            slots: Arc::new(Semaphore::new(bounds.connections_max)),
            bounds: Arc::new(bounds),
            stage: watch::Sender::new(Stage::Open),
            tasks: JoinSet::new(),
            rejections: Rejections::default(),
        }
    }

    /// Serves connections until the app stops, then drains.
    pub(super) async fn serve(self, listener: TcpListener, app: Arc<App>) {
        let shared = self.sharing()(Arc::clone(&app));
        let mut http = HttpAcceptor { shared, http: self };
        accept::until_stopping(listener, &app, &mut http).await;
        http.http.drain().await;
    }

    pub(super) fn bounds(&self) -> Arc<Bounds> {
        Arc::clone(&self.bounds)
    }

    /// What connections share, once there is an app.
    pub(super) fn sharing(&self) -> impl FnOnce(Arc<App>) -> Shared + Send + 'static {
        let (bounds, stage) = (Arc::clone(&self.bounds), self.stage.subscribe());
        |app| Shared { app, bounds, stage }
    }

    /// A slot for a connection, if one is free.
    pub(super) fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    /// Removes tasks that have ended. Waits for ever when there is none.
    pub(super) async fn reap(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

struct HttpAcceptor {
    shared: Shared,
    http: HttpListener,
}

impl Acceptor for HttpAcceptor {
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, shard: ShardId) {
        if let Some(slot) = self.http.slot() {
            self.http.tasks.spawn(admit(stream, peer, slot, self.shared.clone(), shard));
            return;
        }
        let app = Arc::clone(&self.shared.app);
        app.metrics.http_connections_rejected.inc();
        let rejection = self.http.tasks.spawn(reject(stream, app, Unserved::TooMany));
        self.http.rejections.push(rejection);
    }

    async fn maintain(&mut self) {
        self.http.reap().await;
    }
}

impl HttpListener {
    async fn drain(mut self) {
        self.stage.send_replace(Stage::Draining);
        let connections_max = self.bounds.connections_max;
        let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
        let (tasks, slots) = (&mut self.tasks, &self.slots);
        let all_ended = async {
            while tasks.join_next().await.is_some() {}
            // All slots are free, so no connection is left.
            let _ = slots.acquire_many(all).await;
        };
        let left = || connections_max - slots.available_permits();
        if accept::drain(all_ended, self.bounds.drain_timeout, left).await {
            return;
        }
        self.stage.send_replace(Stage::Cut);
        self.tasks.shutdown().await;
        // A loop that hangs does not notice; its connections end with the process.
        let _ = timeout(CUT_TIMEOUT, self.slots.acquire_many(all)).await;
    }
}

/// How long connections may take to notice that they are cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that no loop has yet.
struct Accepted {
    /// Bare: a socket belongs to the loop that it was registered with.
    stream: std::net::TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    shared: Shared,
}

/// Hands a connection to a shard's loop. It waits for a busy shard, and others are accepted meanwhile.
pub(super) async fn admit(
    stream: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    shared: Shared,
    mut shard: ShardId,
) {
    let Ok(stream) = stream.into_std() else { return };
    let engine = shared.app.engine.clone();
    let mut accepted = Accepted { stream, peer, slot, shared };
    while let Some(back) = handover::offer(&engine, shard, accepted, begin).await {
        shard = handover::next_shard(&engine, shard);
        let Some(held) = hold(back, shard).await else { return };
        accepted = held;
    }
}

fn begin(accepted: Accepted, local: Local) -> OnLoop {
    Box::pin(connection(accepted, local))
}

/// Holds a connection until the shard's loop continues. Health checks are served meanwhile, and all requests get an error once the
/// shard has been busy for too long.
async fn hold(accepted: Accepted, shard: ShardId) -> Option<Accepted> {
    let Accepted { stream, peer, slot, shared } = accepted;
    let stream = TcpStream::from_std(stream).ok()?;
    let app = &shared.app;
    let goes_on = tokio::select! {
        biased;
        () = app.stopping() => return None,
        () = handover::loop_is_free(&app.engine, shard) => true,
        () = asks_for_health(&stream) => false,
        () = handover::until_busy(app, shard) => false,
    };
    if goes_on {
        return Some(Accepted { stream: stream.into_std().ok()?, peer, slot, shared });
    }
    reject(stream, Arc::clone(app), Unserved::Busy).await;
    None
}

/// Waits for the first bytes of a health check, without consuming them. It never returns for other requests.
async fn asks_for_health(stream: &TcpStream) {
    let mut start = [0; HEALTH_PEEK_BYTES];
    loop {
        match stream.peek(&mut start).await {
            Ok(count) if health::is_health_check(&start[..count]) => return,
            Ok(count) if 0 < count && count < HEALTH_PEEK_BYTES => sleep(ACCEPT_PAUSE).await,
            _ => return std::future::pending().await,
        }
    }
}

/// Counts an open connection until it is dropped.
struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn connection(accepted: Accepted, local: Local) {
    let Accepted { stream, peer, slot, shared } = accepted;
    let Shared { app, bounds, mut stage } = shared;
    let counted = Counted::new(&app.metrics.http_connections);
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let Ok(at) = stream.local_addr() else { return };
    let context = Rc::new(HttpContext::new(Arc::clone(&app), Arc::clone(&bounds), local, peer, at.ip()));
    let reader = Rc::clone(&context);
    let service = service_fn(move |request| {
        let context = Rc::clone(&context);
        async move { Ok::<_, Infallible>(request::respond(&context, request).await) }
    });
    let mut connection = Box::pin(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_header_size(bounds.header_bytes_max)
            .serve_connection(TokioIo::new(stream), service),
    );
    let ended = tokio::select! {
        // The drain first, so that every response after its start announces that the connection closes.
        biased;
        () = reached(&mut stage, Stage::Draining) => None,
        () = reader.too_slow() => Some(Ok(())),
        ended = connection.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = reached(&mut stage, Stage::Cut) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    // The permit is free once nothing of the connection is left.
    drop(connection);
    drop(counted);
    drop(slot);
}

/// Waits until the listener has reached this phase, or is dropped.
async fn reached(stage: &mut watch::Receiver<Stage>, wanted: Stage) {
    let _ = stage.wait_for(|stage| *stage >= wanted).await;
}

/// Responds to one request without a shard: a health check, or 503. Closing at once would be cheaper, but most clients would report that
/// as a network failure.
async fn reject(stream: TcpStream, app: Arc<App>, why: Unserved) {
    let Ok(at) = stream.local_addr() else { return };
    let service = service_fn(|request| {
        let response = request::without_shard(&app, at.ip(), why, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let one_answer = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let _ = timeout(REJECTION_TIMEOUT, one_answer).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    struct Open {
        app: Arc<App>,
        address: SocketAddr,
        served: JoinHandle<()>,
    }

    async fn open(bounds: Bounds) -> Open {
        let app = Arc::new(App::for_test());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(serve(listener, Arc::clone(&app), bounds));
        Open { app, address, served }
    }

    async fn send(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Everything that is sent until the connection is closed.
    async fn read_all(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        // A connection that is cut off may end in a reset.
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }

    /// The first bytes of a response, which prove that this connection is served.
    async fn first(stream: &mut TcpStream) -> String {
        let mut buffer = [0; 1024];
        let n = stream.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    }

    const GET: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const GET_AND_CLOSE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const HALF_A_BODY: &str = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab";

    #[tokio::test]
    async fn a_connection_over_the_limit_hears_no_until_another_ends() {
        let listener = open(Bounds { connections_max: 1, ..Bounds::default() }).await;
        let mut kept_alive = send(listener.address, GET).await;
        assert!(first(&mut kept_alive).await.starts_with("HTTP/1.1 200"));
        let rejected = read_all(send(listener.address, &GET.replace("/healthz", "/metrics")).await).await;
        assert!(rejected.starts_with("HTTP/1.1 503") && rejected.contains("retry-after: 1"), "{rejected}");
        assert!(rejected.contains(r#""code":"queue_full""#), "{rejected}");
        let rejected = read_all(send(listener.address, &GET.replace("/healthz", "/get/k")).await).await;
        assert!(rejected.starts_with("HTTP/1.1 503") && rejected.contains(r#"{"error":"ERR "#), "{rejected}");
        let health = read_all(send(listener.address, GET).await).await;
        assert!(health.starts_with("HTTP/1.1 200") && health.contains("connection: close"), "{health}");
        let ready = read_all(send(listener.address, &GET.replace("/healthz", "/readyz")).await).await;
        assert!(ready.starts_with("HTTP/1.1 503") && ready.contains(r#"{"status":"busy"}"#), "{ready}");
        drop(kept_alive);
        let openapi = GET_AND_CLOSE.replace("/healthz", "/openapi.json");
        while !read_all(send(listener.address, &openapi).await).await.starts_with("HTTP/1.1 200") {}
        assert!(listener.app.metrics.http_connections_rejected.get() >= 1);
    }

    #[tokio::test]
    async fn a_connection_on_a_poisoned_shard_still_gets_the_error() {
        let listener = open(Bounds::default()).await;
        let panics = |_: &mut _, _| -> keystead_core::Result<()> { panic!("as ordered") };
        let _ = listener.app.engine.write(b"k", panics).await;
        let reply = read_all(send(listener.address, GET_AND_CLOSE).await).await;
        assert!(reply.starts_with("HTTP/1.1 503") && reply.contains("failing"), "{reply}");
        let get = GET_AND_CLOSE.replace("/healthz", "/get/k");
        let reply = read_all(send(listener.address, &get).await).await;
        assert!(reply.starts_with("HTTP/1.1 503") && reply.contains(r#"{"error":"ERR "#), "{reply}");
    }

    #[tokio::test]
    async fn a_client_that_never_finishes_its_headers_is_cut_off() {
        let listener = open(Bounds { header_timeout: SOON, ..Bounds::default() }).await;
        let slow = send(listener.address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
        assert_eq!(read_all(slow).await, "");
    }

    #[tokio::test]
    async fn headers_over_the_limit_are_answered_431() {
        let listener = open(Bounds { header_bytes_max: 1024, ..Bounds::default() }).await;
        let request =
            format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(1024));
        assert!(read_all(send(listener.address, &request).await).await.starts_with("HTTP/1.1 431"));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_answered_413() {
        let listener = open(Bounds { body_bytes_max: 3, ..Bounds::default() }).await;
        let chunked =
            "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
        for request in [HALF_A_BODY, chunked] {
            let reply = first(&mut send(listener.address, request).await).await;
            assert!(
                reply.starts_with("HTTP/1.1 413") && reply.contains("max request size exceeded"),
                "{reply}"
            );
        }
    }

    #[tokio::test]
    async fn a_body_that_never_comes_is_answered_408() {
        let listener = open(Bounds { body_timeout: SOON, ..Bounds::default() }).await;
        let reply = read_all(send(listener.address, HALF_A_BODY).await).await;
        assert!(reply.starts_with("HTTP/1.1 408") && reply.contains("connection: close"), "{reply}");
    }

    #[tokio::test]
    async fn a_drain_that_takes_too_long_cuts_off_what_is_left() {
        let listener = open(Bounds { drain_timeout: SOON, ..Bounds::default() }).await;
        let mut stuck = send(listener.address, GET).await;
        assert!(first(&mut stuck).await.starts_with("HTTP/1.1 200"));
        stuck.write_all(HALF_A_BODY.as_bytes()).await.unwrap();
        listener.app.stop();
        listener.served.await.unwrap();
        assert_eq!(listener.app.metrics.http_connections.get(), 0);
        assert_eq!(read_all(stuck).await, "");
    }
}
