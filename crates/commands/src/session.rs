//! What one connection remembers between its commands. It touches nothing.
//!
//! Invariant: what others may see of it (name, counts, protocol) is copied to its [`Client`] row whenever it changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keystead_model::Bytes;

use crate::args::Command;
use crate::hub::{Client, Hub, Kind, Mailbox, Subscribed};
use crate::spec::Spec;

/// The version of RESP that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Strings, integers, lists.
    #[default]
    Resp2,
    /// Maps, sets, doubles, messages beside answers.
    Resp3,
}

/// Which answers a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None until further notice.
    Off,
    /// Not the next one.
    SkipNext,
    /// Not this one.
    Skip,
}

/// One connection's memory.
pub struct Session {
    /// Its row in the list of clients.
    pub client: Arc<Client>,
    /// Messages for it.
    pub mailbox: Arc<Mailbox>,
    /// Lines for it, while it sees every command (MONITOR).
    pub monitor: Option<Arc<Mailbox>>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Whether it brought the secret, or none is needed.
    pub authenticated: bool,
    /// Wrong secrets that it brought since the last right one.
    pub auth_failures: u32,
    /// Whether the answer that comes next is to a wrong secret, and is kept back for a while.
    pub delay_reply: bool,
    /// Whether answers are wanted.
    pub replies: Replies,
    /// The transaction that is being queued.
    pub multi: Option<Multi>,
    /// Channels, patterns and shard channels that it listens to.
    pub channels: BTreeSet<Bytes>,
    /// See `channels`.
    pub patterns: BTreeSet<Bytes>,
    /// See `channels`.
    pub shard_channels: BTreeSet<Bytes>,
    /// Whether the connection ends after this answer.
    pub closing: bool,
}

/// A transaction that is being queued.
#[derive(Default)]
pub struct Multi {
    /// What was queued.
    pub queue: Vec<Queued>,
    /// Whether something was refused while queueing, so that nothing will run.
    pub dirty: bool,
    /// Bytes of the queue.
    pub bytes: usize,
}

/// A command in a transaction.
pub struct Queued {
    /// Its row.
    pub spec: &'static Spec,
    /// Its arguments.
    pub command: Command,
}

impl Session {
    /// A connection that has just come.
    #[must_use]
    pub fn new(client: Arc<Client>, authenticated: bool) -> Self {
        Session {
            client,
            mailbox: Arc::default(),
            monitor: None,
            protocol: Protocol::Resp2,
            authenticated,
            auth_failures: 0,
            delay_reply: false,
            replies: Replies::On,
            multi: None,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            closing: false,
        }
    }

    /// Chooses what it speaks.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.client.protocol.store(number, Ordering::Relaxed);
    }

    /// Stops listening to everything. A door calls it when the connection ends.
    pub fn leave(&mut self, hub: &Hub) {
        if self.monitor.take().is_some() {
            hub.monitors.unsubscribe(self.client.id);
            self.client.shown().monitor = false;
        }
        for kind in [Subscribed::Channel, Subscribed::Pattern, Subscribed::Shard] {
            for name in std::mem::take(self.names(kind)) {
                hub.bus.unsubscribe(kind, &name, self.client.id);
            }
        }
        self.show_subscriptions();
    }

    /// What it listens to.
    pub fn names(&mut self, kind: Subscribed) -> &mut BTreeSet<Bytes> {
        match kind {
            Subscribed::Channel => &mut self.channels,
            Subscribed::Pattern => &mut self.patterns,
            Subscribed::Shard => &mut self.shard_channels,
        }
    }

    /// Lets others see how many names it listens to.
    pub fn show_subscriptions(&self) {
        let mut shown = self.client.shown();
        let counts = [self.channels.len(), self.patterns.len(), self.shard_channels.len()];
        shown.counts[..3].copy_from_slice(&counts);
        shown.kind = if self.is_subscribed() { Kind::Pubsub } else { Kind::Normal };
    }

    /// How many channels and patterns it listens to, as SUBSCRIBE counts them.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Whether it listens to anything.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions() + self.shard_channels.len() > 0
    }
}
