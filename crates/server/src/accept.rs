//! Accepts connections, for both listeners: in a loop that survives errors, until the server stops. Touches sockets.
//!
//! A listener decides what becomes of a connection. What happens around that is the same for both: connections go to the shards in
//! turn, an error of the system is followed by a pause, connections over the bound are rejected by a bounded number of tasks, and
//! the socket is closed before the connections are drained.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::ShardId;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::bounds::{ACCEPT_PAUSE, REJECTIONS_MAX};
use crate::handover;
use crate::starting::Starting;

/// What a listener does with connections.
pub(crate) trait Acceptor {
    /// Serves a connection on this shard's loop, or rejects it. Must not wait.
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr, shard: ShardId);

    /// What is to be done between connections. Dropped when a connection arrives.
    fn maintain(&mut self) -> impl Future<Output = ()> + Send;
}

/// Accepts connections until the app stops, and closes the socket: a client whose idle connection is drained must not be able to
/// connect again.
pub(crate) async fn until_stopping(listener: TcpListener, app: &App, acceptor: &mut impl Acceptor) {
    let next = |shard| handover::next_shard(&app.engine, shard);
    until(app.stopping(), &listener, next, acceptor).await;
}

/// Accepts connections until the database is open. There is no shard yet.
pub(crate) async fn until_open(
    listener: &TcpListener,
    starting: &Starting,
    acceptor: &mut impl Acceptor,
) -> Arc<App> {
    until(starting.opened(), listener, |shard| shard, acceptor).await
}

/// Accepts connections until something has happened.
pub(crate) async fn until<T>(
    end: impl Future<Output = T>,
    listener: &TcpListener,
    next_shard: impl Fn(ShardId) -> ShardId,
    acceptor: &mut impl Acceptor,
) -> T {
    let mut end = pin!(end);
    let mut shard = ShardId::default();
    loop {
        let accepted = tokio::select! {
            biased;
            end = end.as_mut() => return end,
            () = acceptor.maintain() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Replies are written whole, so waiting to fill a packet would only delay them.
                let _ = stream.set_nodelay(true);
                shard = next_shard(shard);
                acceptor.admit(stream, peer, shard);
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Without a pause, a listener that is out of file descriptors would spin.
async fn pause_after(error: &io::Error) {
    match error.kind() {
        // The client closed the connection before it was accepted.
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset => {}
        _ => {
            tracing::warn!(%error, "cannot accept a connection");
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Waits until all connections have ended, and returns whether they did in time. `left` counts the others for the log.
pub(crate) async fn drain(
    all_ended: impl Future<Output = ()>,
    limit: Duration,
    left: impl FnOnce() -> usize,
) -> bool {
    let in_time = timeout(limit, all_ended).await.is_ok();
    if !in_time {
        tracing::warn!(connections = left(), "closed connections that did not finish in time");
    }
    in_time
}

/// The tasks that reject connections over the bound, at most [`REJECTIONS_MAX`] of them.
#[derive(Default)]
pub(crate) struct Rejections(VecDeque<AbortHandle>);

impl Rejections {
    /// Adds a task. If there are too many, the oldest is aborted: a client that waits for a reply has sent its request by then.
    pub(crate) fn push(&mut self, task: AbortHandle) {
        if self.0.len() >= REJECTIONS_MAX {
            self.0.retain(|task| !task.is_finished());
        }
        if self.0.len() >= REJECTIONS_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(task);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    struct Sender(mpsc::UnboundedSender<ShardId>);

    impl Acceptor for Sender {
        fn admit(&mut self, _: TcpStream, _: SocketAddr, shard: ShardId) {
            self.0.send(shard).unwrap();
        }

        async fn maintain(&mut self) {
            std::future::pending::<()>().await;
        }
    }

    #[tokio::test]
    async fn connections_are_accepted_until_the_server_stops() {
        let app = Arc::new(App::for_test());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, mut admitted) = mpsc::unbounded_channel();
        let accepting = Arc::clone(&app);
        let task =
            tokio::spawn(async move { until_stopping(listener, &accepting, &mut Sender(sender)).await });
        for _ in 0..3 {
            let _stream = TcpStream::connect(address).await.unwrap();
            assert_eq!(admitted.recv().await, Some(ShardId(0)));
        }
        app.stop();
        task.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn an_error_of_the_client_needs_no_pause() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert!(timeout(ACCEPT_PAUSE / 2, pause_after(&reset)).await.is_ok());
        let exhausted = io::Error::from_raw_os_error(24);
        assert!(timeout(ACCEPT_PAUSE / 2, pause_after(&exhausted)).await.is_err());
    }

    #[tokio::test]
    async fn a_drain_has_an_end() {
        assert!(drain(std::future::ready(()), ACCEPT_PAUSE, || 0).await);
        assert!(!drain(std::future::pending(), ACCEPT_PAUSE, || 1).await);
    }

    #[tokio::test]
    async fn one_rejection_too_many_ends_the_oldest() {
        let mut rejections = Rejections::default();
        let tasks: Vec<_> =
            (0..=REJECTIONS_MAX).map(|_| tokio::spawn(std::future::pending::<()>())).collect();
        for task in &tasks {
            rejections.push(task.abort_handle());
        }
        let mut tasks = tasks.into_iter();
        assert!(tasks.next().unwrap().await.unwrap_err().is_cancelled());
        assert!(tasks.all(|task| !task.is_finished()));
        assert_eq!(rejections.0.len(), REJECTIONS_MAX);
    }
}
