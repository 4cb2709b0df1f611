//! One Redis server: a multiplexed connection for most calls, and exclusive ones for transactions. Opens sockets.
//!
//! A connection is opened when it is needed and given up at the first sign of trouble. Nothing is sent twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, Value};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::task::AbortHandle;

use super::failure::Failure;
use super::metered::{Meter, Metered};
use super::target::Login;
use crate::net::{self, Address};

/// The bounds of the calls to one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeBounds {
    /// How long one call may take.
    pub(super) patience: Duration,
    /// Most exclusive connections. More calls wait for one.
    pub(super) exclusive_max: usize,
    /// Most bytes of the replies to one call on an exclusive connection. After more, the connection is closed.
    pub(super) reply_bytes_max: usize,
}

/// One server.
pub(super) struct Node {
    pub(super) address: Address,
    login: Arc<Login>,
    bounds: NodeBounds,
    shared: Mutex<Option<Connection>>,
    connecting: tokio::sync::Mutex<()>,
    idle: Mutex<Vec<Connection>>,
    exclusive: Semaphore,
}

#[derive(Clone)]
pub(super) struct Connection {
    connection: MultiplexedConnection,
    driver: Arc<Driver>,
}

impl Connection {
    fn is_open(&self) -> bool {
        !self.driver.closed.load(Ordering::SeqCst)
    }
}

/// The task that moves the requests and replies of a connection. It is stopped with the last user of the connection: by itself it
/// would wait for replies that nobody reads, for as long as the server is stuck.
struct Driver {
    task: AbortHandle,
    /// Set when the task has ended.
    closed: Arc<AtomicBool>,
    meter: Arc<Meter>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub(super) fn new(address: Address, login: Arc<Login>, bounds: NodeBounds) -> Node {
        Node {
            address,
            login,
            bounds,
            shared: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            idle: Mutex::default(),
            exclusive: Semaphore::new(bounds.exclusive_max),
        }
    }

    /// Sends one command on the shared connection.
    pub(super) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut connection = self.shared().await?;
        let reply =
            tokio::time::timeout(self.bounds.patience, connection.connection.send_packed_command(command))
                .await;
        self.checked(&connection, reply.map(|reply| reply.and_then(Value::extract_error)))
    }

    /// Sends commands one after the other, without others in between, and returns the reply of the last.
    pub(super) async fn call_all(&self, commands: &Pipeline) -> Result<Value, Failure> {
        let mut connection = self.shared().await?;
        let count = commands.len();
        let replies = connection.connection.send_packed_commands(commands, count - 1, 1);
        let reply = tokio::time::timeout(self.bounds.patience, replies).await;
        let last =
            |replies: Vec<Value>| replies.into_iter().next_back().unwrap_or(Value::Nil).extract_error();
        self.checked(&connection, reply.map(|reply| reply.and_then(last)))
    }

    /// Sends commands at once, and returns the reply of each. Commands of others may come in between.
    pub(super) async fn call_each(
        &self,
        commands: &Pipeline,
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let mut connection = self.shared().await?;
        let replies = connection.connection.send_packed_commands(commands, 0, commands.len());
        let replies = tokio::time::timeout(self.bounds.patience, replies).await;
        let replies = self.checked(&connection, replies)?;
        Ok(replies
            .into_iter()
            .map(|reply| reply.extract_error().map_err(|error| Failure::of(&error)))
            .collect())
    }

    fn checked<T>(
        &self,
        connection: &Connection,
        reply: Result<redis::RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, Failure> {
        let failure = match reply {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => Failure::of(&error),
            Err(_) => {
                Failure::Lost(format!("the Redis server did not reply within {:?}", self.bounds.patience))
            }
        };
        if matches!(failure, Failure::Lost(_)) {
            // A connection that is stuck would delay the next call too.
            let mut shared = lock(&self.shared);
            if shared.as_ref().is_some_and(|current| Arc::ptr_eq(&current.driver, &connection.driver)) {
                *shared = None;
            }
        }
        Err(failure)
    }

    async fn shared(&self) -> Result<Connection, Failure> {
        let current = || lock(&self.shared).clone().filter(Connection::is_open);
        if let Some(connection) = current() {
            return Ok(connection);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(connection) = current() {
            return Ok(connection);
        }
        let connection = self.connect().await?;
        *lock(&self.shared) = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let connecting = async {
            let stream =
                net::connect(&self.address, self.login.tls.as_ref()).await.map_err(Failure::NotSent)?;
            let (send, receive) = oneshot::channel();
            let (closed, meter) = (Arc::new(AtomicBool::new(false)), Arc::new(Meter::new()));
            let stream = Metered::new(stream, Arc::clone(&meter));
            let task = tokio::spawn(serve(self.login.info(), stream, send, Closes(Arc::clone(&closed))));
            let driver = Driver { task: task.abort_handle(), closed, meter };
            match receive.await {
                Ok(Ok(connection)) => Ok(Connection { connection, driver: Arc::new(driver) }),
                Ok(Err(error)) => Err(Failure::to_connect(&self.address.to_string(), &error)),
                Err(_) => Err(Failure::NotSent("the runtime stopped".to_owned())),
            }
        };
        tokio::time::timeout(self.bounds.patience, connecting)
            .await
            .unwrap_or_else(|_| Err(self.no_connection()))
    }

    /// A connection that no other call uses.
    pub(super) async fn exclusive(&self) -> Result<Exclusive<'_>, Failure> {
        let permit =
            self.exclusive.acquire().await.map_err(|_| Failure::NotSent("the store is closed".into()))?;
        let idle = loop {
            match lock(&self.idle).pop() {
                Some(connection) if !connection.is_open() => {}
                idle => break idle,
            }
        };
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Exclusive { node: self, connection, _permit: permit })
    }

    /// A connection for messages, and what counts their bytes.
    pub(super) async fn pubsub(&self) -> Result<(PubSub, Arc<Meter>), Failure> {
        let meter = Arc::new(Meter::new());
        let connecting = async {
            let stream =
                net::connect(&self.address, self.login.tls.as_ref()).await.map_err(Failure::NotSent)?;
            let stream = Metered::new(stream, Arc::clone(&meter));
            let pubsub = PubSub::new(&self.login.info(), stream).await;
            pubsub.map_err(|error| Failure::to_connect(&self.address.to_string(), &error))
        };
        match tokio::time::timeout(self.bounds.patience, connecting).await {
            Ok(pubsub) => Ok((pubsub?, meter)),
            Err(_) => Err(self.no_connection()),
        }
    }

    fn no_connection(&self) -> Failure {
        // A Redis server without TLS waits for the end of what it takes for a line.
        let advice = match self.login.tls {
            Some(_) => ": if it does not speak TLS on this port, write redis:// (tls=false for a cluster)",
            None => "",
        };
        let patience = self.bounds.patience;
        Failure::NotSent(format!("no connection to {} within {patience:?}{advice}", self.address))
    }

    /// Closes all connections.
    pub(super) fn close(&self) {
        *lock(&self.shared) = None;
        lock(&self.idle).clear();
    }
}

/// Logs in, and then moves requests and replies until the connection ends.
async fn serve(
    info: RedisConnectionInfo,
    stream: Metered,
    send: oneshot::Sender<redis::RedisResult<MultiplexedConnection>>,
    _closes: Closes,
) {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    match MultiplexedConnection::new_with_config(&info, stream, config).await {
        Ok((connection, driver)) => {
            if send.send(Ok(connection)).is_ok() {
                driver.await;
            }
        }
        // The caller may have given up.
        Err(error) => drop(send.send(Err(error))),
    }
}

/// Sets a flag when it is dropped, also if its task is aborted.
struct Closes(Arc<AtomicBool>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection of one call. It is closed with the call unless it is given back.
pub(super) struct Exclusive<'a> {
    node: &'a Node,
    connection: Connection,
    _permit: SemaphorePermit<'a>,
}

impl Exclusive<'_> {
    /// Sends commands and returns the replies of all.
    pub(super) async fn call_all(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let meter = &self.connection.driver.meter;
        meter.grant(self.node.bounds.reply_bytes_max);
        let replies = self.connection.connection.send_packed_commands(commands, 0, commands.len());
        match tokio::time::timeout(self.node.bounds.patience, replies).await {
            Ok(replies) => replies.map_err(|error| Failure::of(&error)),
            Err(_) => Err(Failure::Lost(format!(
                "the Redis server did not reply within {:?}",
                self.node.bounds.patience
            ))),
        }
    }

    /// Whether the last call had more bytes of replies than it may.
    pub(super) fn is_exceeded(&self) -> bool {
        self.connection.driver.meter.is_exceeded()
    }

    /// Keeps the connection for another call. It must have no open transaction.
    pub(super) fn give_back(self) {
        lock(&self.node.idle).push(self.connection.clone());
    }
}

impl Login {
    fn info(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default().set_db(self.db);
        if let Some(username) = &self.username {
            info = info.set_username(username);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        info
    }
}
