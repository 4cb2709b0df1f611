//! Connections: a bounded number of them, each used by one call at a time. Opens sockets.
//!
//! A call that fails or is dropped closes its connection, unless the server has replied to all of it. So a reply that comes late is never
//! taken for that of another call, and no transaction is left open. Connecting goes on when the call that wanted it is given up, so that a slow login
//! (TLS, SCRAM) succeeds in the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_postgres::Client;

use super::connect::{Connection, Target};
use super::failure;
use super::table::Table;
use crate::bounds::{POSTGRES_CONNECT_WITHIN, POSTGRES_SWEEP_EVERY};

pub(super) struct Pool {
    target: Target,
    pub(super) table: Table,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    /// How long a call waits for a login, or for the check that advisory locks exclude.
    patience: Duration,
    /// Whether advisory locks are needed.
    locks: bool,
    /// Set when the table is known to be there, and locks to exclude.
    checked: OnceCell<()>,
}

/// A connection that one call uses. It is closed, unless it is [returned](Lease::finish).
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    connection: Connection,
    _permit: OwnedSemaphorePermit,
}

impl Lease<'_> {
    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    /// Keeps the connection for another call. The server must have replied to everything.
    pub(super) fn finish(self) {
        if !self.connection.client.is_closed() {
            self.pool.idle().push(self.connection);
        }
    }

    /// The error of a statement outside a transaction. The connection is kept if the server will go on with it.
    pub(super) fn failed(self, error: &tokio_postgres::Error) -> Error {
        let converted = failure::of_call(error);
        if error.as_db_error().is_some() {
            self.finish();
        }
        converted
    }
}

impl Pool {
    pub(super) fn new(
        target: Target,
        table: Table,
        connections: usize,
        patience: Duration,
        locks: bool,
    ) -> Pool {
        let (permits, idle, checked) =
            (Arc::new(Semaphore::new(connections)), Mutex::default(), OnceCell::new());
        Pool { target, table, permits, idle, patience, locks, checked }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for one call, on a server that has been checked.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Lease<'_>> {
        self.checked
            .get_or_try_init(|| async {
                self.check().await?;
                tokio::spawn(sweep(Arc::downgrade(self)));
                Ok::<(), Error>(())
            })
            .await?;
        self.lease().await
    }

    async fn lease(self: &Arc<Self>) -> Result<Lease<'_>> {
        let closed = |_| Error::new(Code::StoreUnavailable, "the store is closed");
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let idle = std::iter::from_fn(|| self.idle().pop()).find(|idle| !idle.client.is_closed());
        if let Some(connection) = idle {
            return Ok(Lease { pool: self, connection, _permit: permit });
        }
        let (send, receive) = oneshot::channel();
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let connected = tokio::time::timeout(POSTGRES_CONNECT_WITHIN, pool.target.connect()).await;
            let slow =
                |_| Err(Error::new(Code::StoreUnavailable, "the PostgreSQL server accepts no login in time"));
            // Nobody may wait for it any more: then it is for the next call.
            if let Err((Ok(connection), _permit)) = send.send((connected.unwrap_or_else(slow), permit))
                && !pool.permits.is_closed()
            {
                pool.idle().push(connection);
            }
        });
        let stopped = |_| Error::new(Code::StoreUnavailable, "the runtime stopped before it was connected");
        // Servers of other protocols wait for more, and say nothing.
        let slow = |_| {
            let (address, patience) = (&self.target.address, self.patience);
            let message = format!("no login at {address} within {patience:?}: is it a PostgreSQL server?");
            Error::new(Code::StoreUnavailable, message)
        };
        let received = tokio::time::timeout(self.patience, receive).await.map_err(slow)?;
        let (connected, permit) = received.map_err(stopped)?;
        Ok(Lease { pool: self, connection: connected?, _permit: permit })
    }

    /// Creates the table where there is none, and rejects a server that cannot be used.
    async fn check(self: &Arc<Self>) -> Result<()> {
        let lease = self.lease().await?;
        self.table.check(lease.client()).await?;
        if self.locks {
            let other = self.lease().await?;
            super::lock::check(lease.client(), other.client(), self.patience).await?;
            other.finish();
        }
        lease.finish();
        Ok(())
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }
}

/// Deletes expired rows from time to time, until the store is dropped or closed.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(POSTGRES_SWEEP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        if pool.permits.is_closed() {
            return;
        }
        // Space is reclaimed later if it does not work now.
        let _ = pool.sweep().await;
    }
}

impl Pool {
    /// Deletes expired rows, a bounded number of them.
    async fn sweep(self: &Arc<Self>) -> Result<u64> {
        let lease = self.lease().await?;
        match self.table.sweep(lease.client()).await {
            Ok(deleted) => {
                lease.finish();
                Ok(deleted)
            }
            Err(error) => Err(lease.failed(&error)),
        }
    }
}
