//! The state of one connection between its commands. It touches nothing.
//!
//! Invariant: what other connections see of it (name, counts, protocol) is copied to its [`Client`] row on every change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keystead_model::Bytes;

use crate::args::Command;
use crate::hub::{Client, Hub, Kind, Mailbox, Subscribed};
use crate::spec::Spec;

/// The RESP version of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Strings, integers, lists.
    #[default]
    Resp2,
    /// Also maps, sets, doubles and push messages.
    Resp3,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None until CLIENT REPLY ON.
    Off,
    /// Skip the next one.
    SkipNext,
    /// Skip this one.
    Skip,
}

/// The state of one connection.
pub struct Session {
    /// Its row in the list of clients.
    pub client: Arc<Client>,
    /// Pub/Sub messages for it.
    pub mailbox: Arc<Mailbox>,
    /// Lines for it, in MONITOR mode.
    pub monitor: Option<Arc<Mailbox>>,
    /// Its RESP version.
    pub protocol: Protocol,
    /// Whether it is authenticated, or no token is needed.
    pub authenticated: bool,
    /// Failed authentications since the last success.
    pub auth_failures: u32,
    /// Whether the next reply is to a failed authentication, and is delayed.
    pub delay_reply: bool,
    /// Which replies it wants.
    pub replies: Replies,
    /// The transaction that is being queued.
    pub multi: Option<Multi>,
    /// The channels, patterns and shard channels it is subscribed to.
    pub channels: BTreeSet<Bytes>,
    /// See `channels`.
    pub patterns: BTreeSet<Bytes>,
    /// See `channels`.
    pub shard_channels: BTreeSet<Bytes>,
    /// Whether the connection is closed after this reply.
    pub closing: bool,
}

/// A transaction that is being queued.
#[derive(Default)]
pub struct Multi {
    /// The queued commands.
    pub queue: Vec<Queued>,
    /// Whether a command was rejected while queueing, so that EXEC fails.
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
    /// A new connection.
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

    /// Sets the RESP version.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.client.protocol.store(number, Ordering::Relaxed);
    }

    /// Whether the client wants the next reply (CLIENT REPLY).
    #[inline]
    pub fn wants_reply(&mut self) -> bool {
        match self.replies {
            Replies::On => true,
            Replies::Off => false,
            Replies::SkipNext => {
                self.replies = Replies::Skip;
                false
            }
            Replies::Skip => {
                self.replies = Replies::On;
                false
            }
        }
    }

    /// Unsubscribes from everything. A listener calls it when the connection ends.
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

    /// Its subscriptions.
    pub fn names(&mut self, kind: Subscribed) -> &mut BTreeSet<Bytes> {
        match kind {
            Subscribed::Channel => &mut self.channels,
            Subscribed::Pattern => &mut self.patterns,
            Subscribed::Shard => &mut self.shard_channels,
        }
    }

    /// Publishes the number of subscriptions to its client row.
    pub fn show_subscriptions(&self) {
        let mut shown = self.client.shown();
        let counts = [self.channels.len(), self.patterns.len(), self.shard_channels.len()];
        shown.counts[..3].copy_from_slice(&counts);
        shown.kind = if self.is_subscribed() { Kind::Pubsub } else { Kind::Normal };
    }

    /// The number of channels and patterns it is subscribed to, as SUBSCRIBE counts them.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Whether it is subscribed to anything.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions() + self.shard_channels.len() > 0
    }
}
