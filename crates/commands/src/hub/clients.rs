//! The connected clients: what CLIENT LIST shows, and how one connection closes or unblocks another. It touches nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use keystead_core::Millis;

/// Client ids grow and are never reused.
pub type ClientId = u64;

/// All connected clients.
#[derive(Default)]
pub struct Clients {
    rows: Mutex<BTreeMap<ClientId, Arc<Client>>>,
    last_id: AtomicU64,
    /// Connections since the start.
    pub accepted: AtomicU64,
    /// Connections rejected because of `maxclients`.
    pub rejected: AtomicU64,
    /// Failed authentications since the start.
    pub auth_failures: AtomicU64,
    /// Commands that ran since the start.
    pub commands: AtomicU64,
    /// Bytes that were read.
    pub bytes_in: AtomicU64,
    /// Bytes that were written.
    pub bytes_out: AtomicU64,
    /// Until when commands are paused (CLIENT PAUSE), in ms; 0: not paused.
    pub paused_until: AtomicU64,
    /// Whether only commands that may write are paused.
    pub paused_writes_only: AtomicBool,
}

/// One connection, as others see it.
pub struct Client {
    /// The client id.
    pub id: ClientId,
    /// The remote address.
    pub address: String,
    /// The address of the listener.
    pub local_address: String,
    /// When it connected.
    pub since: Millis,
    /// What lists show of it; updated by its connection.
    pub shown: Mutex<Shown>,
    /// When its last command ran, in ms.
    pub last_ms: AtomicU64,
    /// The protocol: 2 or 3.
    pub protocol: AtomicU8,
    killed: AtomicBool,
    unblock: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

/// What a connection shows of itself.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO lib-name.
    pub lib_name: String,
    /// CLIENT SETINFO lib-ver.
    pub lib_version: String,
    /// Its last command.
    pub command: &'static str,
    /// The kind of connection.
    pub kind: Kind,
    /// Whether it is blocked on keys.
    pub blocked: bool,
    /// Whether it is in MONITOR mode.
    pub monitor: bool,
    /// Numbers of channels, patterns, shard channels and watched keys.
    pub counts: [usize; 4],
    /// Commands queued in MULTI; `None` outside.
    pub queued: Option<usize>,
    /// CLIENT NO-EVICT and NO-TOUCH.
    pub no_evict: bool,
    /// See `no_evict`.
    pub no_touch: bool,
}

/// The kind of a client's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// It sends commands.
    #[default]
    Normal,
    /// It receives messages.
    Pubsub,
}

/// How CLIENT UNBLOCK unblocks a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// As if the timeout had expired.
    Timeout,
    /// With an error.
    Error,
}

impl Clients {
    /// Adds a connection; `None` if there are `max` already.
    pub fn add(
        &self,
        address: String,
        local_address: String,
        now: Millis,
        max: usize,
    ) -> Option<Arc<Client>> {
        let mut rows = self.lock();
        if rows.len() >= max {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let client = self.client(address, local_address, now);
        rows.insert(client.id, Arc::clone(&client));
        Some(client)
    }

    /// A client that sends commands but is not listed as a connection: a request over HTTP.
    pub fn unlisted(&self, address: String, now: Millis) -> Arc<Client> {
        self.client(address, String::new(), now)
    }

    fn client(&self, address: String, local_address: String, now: Millis) -> Arc<Client> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Client::new(id, address, local_address, now))
    }

    /// Removes a connection.
    pub fn remove(&self, id: ClientId) {
        self.lock().remove(&id);
    }

    /// All connections, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// One connection.
    #[must_use]
    pub fn get(&self, id: ClientId) -> Option<Arc<Client>> {
        self.lock().get(&id).cloned()
    }

    /// Pauses commands (or only those that may write) until then. A pause that is longer, or covers more commands, stays.
    pub fn pause(&self, until: Millis, writes_only: bool, now: Millis) {
        let running = self.paused_until.load(Ordering::Acquire);
        let paused = running > now.0;
        let only_writes = writes_only && (!paused || self.paused_writes_only.load(Ordering::Acquire));
        self.paused_writes_only.store(only_writes, Ordering::Release);
        self.paused_until.store(if paused { running.max(until.0) } else { until.0 }, Ordering::Release);
    }

    /// Ends the pause and wakes all connections.
    pub fn unpause(&self) {
        self.paused_until.store(0, Ordering::Release);
        self.all().iter().for_each(|client| client.wake());
    }

    /// Until when such a command is paused; `None`: it may run.
    #[must_use]
    pub fn paused(&self, writes: bool, now: Millis) -> Option<Millis> {
        let until = self.paused_until.load(Ordering::Acquire);
        let held = until > now.0 && (writes || !self.paused_writes_only.load(Ordering::Acquire));
        held.then_some(Millis(until))
    }

    /// Resets the counters (CONFIG RESETSTAT).
    pub fn reset_counters(&self) {
        for count in [
            &self.accepted,
            &self.rejected,
            &self.auth_failures,
            &self.commands,
            &self.bytes_in,
            &self.bytes_out,
        ] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// The number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClientId, Arc<Client>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    fn new(id: ClientId, address: String, local_address: String, now: Millis) -> Client {
        Client {
            id,
            address,
            local_address,
            since: now,
            shown: Mutex::default(),
            last_ms: AtomicU64::new(now.0),
            protocol: AtomicU8::new(2),
            killed: AtomicBool::new(false),
            unblock: AtomicU8::new(0),
            waker: Mutex::new(None),
        }
    }

    /// A connection that is not listed: the one that a script's commands use.
    #[must_use]
    pub fn unlisted() -> Client {
        Client::new(0, String::new(), String::new(), Millis(0))
    }

    /// Requests that the connection be closed.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it must be closed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Unblocks it if it is blocked on keys, and returns whether it was.
    pub fn unblock(&self, how: Unblock) -> bool {
        let shown = self.shown();
        if !shown.blocked {
            return false;
        }
        // Set before the block can end, or it would apply to the next one.
        self.unblock.store(if how == Unblock::Timeout { 1 } else { 2 }, Ordering::Release);
        drop(shown);
        self.wake();
        true
    }

    /// How it was unblocked, if it was.
    #[must_use]
    pub fn take_unblock(&self) -> Option<Unblock> {
        match self.unblock.swap(0, Ordering::AcqRel) {
            1 => Some(Unblock::Timeout),
            2 => Some(Unblock::Error),
            _ => None,
        }
    }

    /// What it shows of itself.
    pub fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The waker of its connection.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Wakes its connection.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }
}
