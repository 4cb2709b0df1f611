//! Connections: a bounded number of them, each used by one call at a time. Opens sockets.
//!
//! A call that fails or is dropped closes its connection, unless the server has replied to all of it. So a reply that comes late is never
//! taken for that of another call, and no transaction is left open. Connecting goes on when the call that wanted it is given up, so that a slow login
//! (TLS, SCRAM) succeeds in the end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::connect::{Login, Target};
use super::failure;
use super::table::{PARAMETERS, Param, QUERIES, Query, Table};
use crate::bounds::{POSTGRES_CONNECT_WITHIN, POSTGRES_SWEEP_EVERY};

type Failed = tokio_postgres::Error;

pub(super) struct Pool {
    target: Target,
    pub(super) table: Table,
    /// Begins a transaction with the settings of this store, and sets them for a session.
    begin: String,
    set: String,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    /// How long a call waits for a login, or for the check that advisory locks exclude.
    patience: Duration,
    /// Whether advisory locks are needed.
    locks: bool,
    /// Set when the table is known to be there, and locks to exclude.
    checked: OnceCell<()>,
}

struct Connection {
    login: Login,
    /// Nothing is between it and the server, which so has what was prepared on it.
    is_direct: bool,
    prepared: [OnceCell<Statement>; QUERIES],
}

/// A connection that one call uses. It is closed, unless it is [returned](Lease::finish).
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    connection: Connection,
    _permit: OwnedSemaphorePermit,
}

impl Lease<'_> {
    pub(super) fn client(&self) -> &Client {
        &self.connection.login.client
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<(), Failed> {
        let begin = match self.connection.is_direct {
            true => "BEGIN",
            false => &self.pool.begin,
        };
        self.client().batch_execute(begin).await
    }

    /// Prepares all statements, so that those that are sent at once arrive in their order.
    pub(super) async fn ready(&self) -> Result<(), Failed> {
        for (query, _) in &PARAMETERS {
            self.prepared(*query).await?;
        }
        Ok(())
    }

    /// Runs a statement, and returns its rows.
    pub(super) async fn query(&self, query: Query, params: &[Param<'_>]) -> Result<Vec<Row>, Failed> {
        match self.prepared(query).await? {
            Some(statement) => self.client().query(statement, params).await,
            None => self.client().query_typed(self.pool.table.text(query), &typed(query, params)).await,
        }
    }

    /// The same for a statement that returns no rows: how many it has changed.
    pub(super) async fn execute(&self, query: Query, params: &[Param<'_>]) -> Result<u64, Failed> {
        match self.prepared(query).await? {
            Some(statement) => self.client().execute(statement, params).await,
            None => self.client().execute_typed(self.pool.table.text(query), &typed(query, params)).await,
        }
    }

    /// The statement with a name, where names last as long as the connection.
    async fn prepared(&self, query: Query) -> Result<Option<&Statement>, Failed> {
        let Connection { login, is_direct, prepared } = &self.connection;
        if !is_direct {
            return Ok(None);
        }
        let (text, (_, types)) = (self.pool.table.text(query), PARAMETERS[query as usize]);
        let prepare = || login.client.prepare_typed(text, types);
        prepared[query as usize].get_or_try_init(prepare).await.map(Some)
    }

    /// Keeps the connection for another call. The server must have replied to everything.
    pub(super) fn finish(self) {
        if !self.connection.login.client.is_closed() {
            self.pool.idle().push(self.connection);
        }
    }

    /// Keeps the connection after statements outside of a transaction, of which these failed, if the server will go on with it.
    pub(super) fn finish_after<'e>(self, errors: impl IntoIterator<Item = &'e Failed>) {
        if errors.into_iter().all(|error| error.as_db_error().is_some()) {
            self.finish();
        }
    }

    /// The error of a statement outside of a transaction.
    pub(super) fn failed(self, error: &Failed) -> Error {
        self.finish_after([error]);
        failure::of_call(error)
    }
}

/// Parameters with their types, which a statement without a name must state.
fn typed<'a>(query: Query, params: &[Param<'a>]) -> Vec<(Param<'a>, Type)> {
    let (_, types) = PARAMETERS[query as usize];
    params.iter().copied().zip(types.iter().cloned()).collect()
}

impl Pool {
    pub(super) fn new(
        target: Target,
        table: Table,
        connections: usize,
        deadline_ms: u64,
        patience: Duration,
        locks: bool,
    ) -> Pool {
        let (permits, idle, checked) =
            (Arc::new(Semaphore::new(connections)), Mutex::default(), OnceCell::new());
        // A connection that nobody reads any more must not keep a lock, or wait for one.
        let settings = [
            "default_transaction_isolation = 'read committed'".to_owned(),
            format!("lock_timeout = {deadline_ms}"),
            format!("idle_in_transaction_session_timeout = {deadline_ms}"),
        ];
        let set: String = settings.iter().map(|setting| format!("SET {setting}; ")).collect();
        let begin = settings[1..].iter().map(|setting| format!("; SET LOCAL {setting}"));
        let begin = std::iter::once("BEGIN ISOLATION LEVEL READ COMMITTED".to_owned()).chain(begin).collect();
        Pool { target, table, begin, set: set + PLANS, permits, idle, patience, locks, checked }
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
        let idle = std::iter::from_fn(|| self.idle().pop()).find(|idle| !idle.login.client.is_closed());
        if let Some(connection) = idle {
            return Ok(Lease { pool: self, connection, _permit: permit });
        }
        let (send, receive) = oneshot::channel();
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let connected = tokio::time::timeout(POSTGRES_CONNECT_WITHIN, pool.connect()).await;
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

    async fn connect(&self) -> Result<Connection> {
        let failed = |error| failure::to_connect(&self.target, &error);
        let login = self.target.connect().await?;
        let is_direct = match login.ends {
            Some(ends) => is_direct(&login.client, ends).await.map_err(failed)?,
            None => false,
        };
        if is_direct {
            login.client.batch_execute(&self.set).await.map_err(failed)?;
        }
        Ok(Connection { login, is_direct, prepared: Default::default() })
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

/// Whether the server sees the same two ends of the connection, so that no pooler is between. Then its session is ours: statements may have
/// names, and plans are chosen one time, of which only those by the index are good for a table that grows.
async fn is_direct(client: &Client, (local, peer): (SocketAddr, SocketAddr)) -> Result<bool, Failed> {
    let row = client.query_typed_one(ENDS, &[]).await?;
    let end = |column: usize| -> Result<Option<SocketAddr>, Failed> {
        let (host, port): (Option<&str>, Option<i32>) = (row.try_get(column)?, row.try_get(column + 1)?);
        let host = host.and_then(|host| host.parse().ok());
        let port = port.and_then(|port| port.try_into().ok());
        Ok(host.zip(port).map(|(host, port)| SocketAddr::new(host, port)))
    };
    let same = |seen: Option<SocketAddr>, own: SocketAddr| {
        seen.is_some_and(|seen| {
            (seen.ip().to_canonical(), seen.port()) == (own.ip().to_canonical(), own.port())
        })
    };
    Ok(same(end(0)?, local) && same(end(2)?, peer))
}

/// Both ends of a connection, as the server sees them.
const ENDS: &str =
    "SELECT host(inet_client_addr()), inet_client_port(), host(inet_server_addr()), inet_server_port()";

const PLANS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
                     SET plan_cache_mode = force_generic_plan";

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
