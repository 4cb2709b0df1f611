//! The HTTP listener of a router: accepts connections up to the bound, and drains when the router stops. Touches sockets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use keystead_core::{Code, Error, ShardId};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Router;
use super::request::{self, Connection};
use crate::accept::{self, Acceptor, Rejections};
use crate::bounds::REJECTION_TIMEOUT;
use crate::http::reply;

/// Serves connections until the router stops, then drains.
pub(super) async fn serve(listener: TcpListener, router: Arc<Router>) {
    let slots = Arc::new(Semaphore::new(router.bounds.connections_max));
    let mut acceptor = HttpAcceptor {
        router: Arc::clone(&router),
        slots,
        tasks: JoinSet::new(),
        rejections: Rejections::default(),
    };
    accept::until(router.stopping(), &listener, |shard| shard, &mut acceptor).await;
    // A client whose idle connection is drained must not be able to connect again.
    drop(listener);
    let HttpAcceptor { mut tasks, slots, .. } = acceptor;
    let left = || router.bounds.connections_max - slots.available_permits();
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    accept::drain(all_ended, router.bounds.drain_timeout, left).await;
    tasks.shutdown().await;
}

struct HttpAcceptor {
    router: Arc<Router>,
    slots: Arc<Semaphore>,
    tasks: JoinSet<()>,
    rejections: Rejections,
}

impl Acceptor for HttpAcceptor {
    fn admit(&mut self, stream: TcpStream, _: SocketAddr, _: ShardId) {
        match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => {
                self.tasks.spawn(connection(stream, Arc::clone(&self.router), slot));
            }
            Err(_) => {
                self.router.metrics.connections_refused.inc();
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

async fn connection(stream: TcpStream, router: Arc<Router>, _slot: OwnedSemaphorePermit) {
    let Ok(at) = stream.local_addr() else { return };
    router.metrics.connections.inc();
    let bounds = &router.bounds;
    let client = Connection { router: Arc::clone(&router), at: at.ip(), auth_failures: AtomicU32::new(0) };
    let service =
        service_fn(|request| async { Ok::<_, Infallible>(request::respond(&client, request).await) });
    let mut serving = Box::pin(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_header_size(bounds.header_bytes_max)
            .serve_connection(TokioIo::new(stream), service),
    );
    let ended = tokio::select! {
        biased;
        () = router.stopping() => None,
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
    router.metrics.connections.dec();
}

/// Responds to one request with 503, and closes the connection.
async fn reject(stream: TcpStream) {
    let service = service_fn(|_| async {
        let error = Error::new(Code::QueueFull, "too many connections are open: try again later");
        Ok::<_, Infallible>(reply::error(&error))
    });
    let one = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let _ = timeout(REJECTION_TIMEOUT, one).await;
}
