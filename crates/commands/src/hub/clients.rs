//! Who is connected: what CLIENT LIST shows, and how one connection ends or wakes another. It touches nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use keystead_core::Millis;

/// Numbers of connections grow and are never used again.
pub type ClientId = u64;

/// Everyone who is connected.
#[derive(Default)]
pub struct Clients {
    rows: Mutex<BTreeMap<ClientId, Arc<Client>>>,
    last_id: AtomicU64,
    /// Connections since the start.
    pub accepted: AtomicU64,
    /// Connections that were refused because there were too many.
    pub refused: AtomicU64,
    /// Wrong secrets that were brought since the start.
    pub auth_failures: AtomicU64,
    /// Commands that ran since the start.
    pub commands: AtomicU64,
    /// Bytes that were read and written.
    pub bytes_in: AtomicU64,
    /// Bytes that were written.
    pub bytes_out: AtomicU64,
    /// Until when nobody's commands run (CLIENT PAUSE), in ms; 0: they run.
    pub paused_until: AtomicU64,
    /// Whether only commands that may write are paused.
    pub paused_writes_only: AtomicBool,
}

/// One connection, as others see it.
pub struct Client {
    /// Its number.
    pub id: ClientId,
    /// Where it comes from.
    pub address: String,
    /// The address of the door.
    pub local_address: String,
    /// When it came.
    pub since: Millis,
    /// What it looks like in lists; kept by its connection.
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
    /// What kind of connection it is.
    pub kind: Kind,
    /// Whether it waits for keys.
    pub blocked: bool,
    /// Whether it sees every command.
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

/// What kind of connection a client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// It sends commands.
    #[default]
    Normal,
    /// It listens to messages.
    Pubsub,
}

/// How CLIENT UNBLOCK wakes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// As if the time were up.
    Timeout,
    /// With an error.
    Error,
}

impl Clients {
    /// Adds a connection; `None` when there are `max` already.
    pub fn add(
        &self,
        address: String,
        local_address: String,
        now: Millis,
        max: usize,
    ) -> Option<Arc<Client>> {
        let mut rows = self.lock();
        if rows.len() >= max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let client = self.client(address, local_address, now);
        rows.insert(client.id, Arc::clone(&client));
        Some(client)
    }

    /// Somebody who sends commands but is no connection that lists show: a request over HTTP.
    pub fn unlisted(&self, address: String, now: Millis) -> Arc<Client> {
        self.client(address, String::new(), now)
    }

    fn client(&self, address: String, local_address: String, now: Millis) -> Arc<Client> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Client::new(id, address, local_address, now))
    }

    /// Takes a connection out.
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

    /// Pauses commands (or only those that may write) until then. A pause that lasts longer, or holds more back, stays.
    pub fn pause(&self, until: Millis, writes_only: bool, now: Millis) {
        let running = self.paused_until.load(Ordering::Acquire);
        let paused = running > now.0;
        let only_writes = writes_only && (!paused || self.paused_writes_only.load(Ordering::Acquire));
        self.paused_writes_only.store(only_writes, Ordering::Release);
        self.paused_until.store(if paused { running.max(until.0) } else { until.0 }, Ordering::Release);
    }

    /// Ends the pause and wakes everybody.
    pub fn unpause(&self) {
        self.paused_until.store(0, Ordering::Release);
        self.all().iter().for_each(|client| client.wake());
    }

    /// Until when such a command has to wait; `None`: it may run.
    #[must_use]
    pub fn paused(&self, writes: bool, now: Millis) -> Option<Millis> {
        let until = self.paused_until.load(Ordering::Acquire);
        let held = until > now.0 && (writes || !self.paused_writes_only.load(Ordering::Acquire));
        held.then_some(Millis(until))
    }

    /// Begins to count anew (CONFIG RESETSTAT).
    pub fn reset_counters(&self) {
        for count in [
            &self.accepted,
            &self.refused,
            &self.auth_failures,
            &self.commands,
            &self.bytes_in,
            &self.bytes_out,
        ] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
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

    /// A connection that is in no list: the one that a script's commands come from.
    #[must_use]
    pub fn unlisted() -> Client {
        Client::new(0, String::new(), String::new(), Millis(0))
    }

    /// Ends the connection as soon as it looks.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it must end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Wakes it if it waits for keys, and tells whether it did.
    pub fn unblock(&self, how: Unblock) -> bool {
        let shown = self.shown();
        if !shown.blocked {
            return false;
        }
        // Before the wait can end, or it would be meant for the next one.
        self.unblock.store(if how == Unblock::Timeout { 1 } else { 2 }, Ordering::Release);
        drop(shown);
        self.wake();
        true
    }

    /// How it was woken, if it was.
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

    /// Whom to wake when others want something of it.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Lets its connection look around.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }
}
