//! Channels, and who listens to them. It touches nothing.
//!
//! Invariant: a name is there only while somebody listens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_model::Bytes;

use super::ClientId;
use super::mailbox::{Mailbox, Message};
use crate::ctx::Publication;
use crate::glob;

/// How a connection listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// To a channel (SUBSCRIBE).
    Channel,
    /// To all channels of a pattern (PSUBSCRIBE).
    Pattern,
    /// To a shard channel (SSUBSCRIBE).
    Shard,
}

type Listeners = HashMap<Bytes, HashMap<ClientId, Arc<Mailbox>, RandomState>, RandomState>;

/// Channels and who listens.
#[derive(Default)]
pub struct Bus {
    inner: Mutex<Inner>,
    /// Where nobody listens, publishing takes no lock.
    listening: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
}

impl Inner {
    fn of(&mut self, kind: Subscribed) -> &mut Listeners {
        match kind {
            Subscribed::Channel => &mut self.channels,
            Subscribed::Pattern => &mut self.patterns,
            Subscribed::Shard => &mut self.shards,
        }
    }
}

impl Bus {
    /// Begins to listen.
    pub fn subscribe(&self, kind: Subscribed, name: &Bytes, client: ClientId, mailbox: &Arc<Mailbox>) {
        let mut inner = self.lock();
        let listeners = inner.of(kind).entry(name.clone()).or_default();
        if listeners.insert(client, Arc::clone(mailbox)).is_none() {
            self.listening.fetch_add(1, Ordering::Release);
        }
    }

    /// Stops listening.
    pub fn unsubscribe(&self, kind: Subscribed, name: &[u8], client: ClientId) {
        let mut inner = self.lock();
        let names = inner.of(kind);
        let Some(listeners) = names.get_mut(name) else { return };
        if listeners.remove(&client).is_some() {
            self.listening.fetch_sub(1, Ordering::Release);
        }
        if listeners.is_empty() {
            names.remove(name);
        }
    }

    /// How many would get a message now.
    #[must_use]
    pub fn receivers(&self, channel: &[u8], sharded: bool) -> usize {
        if self.listening.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let inner = self.lock();
        if sharded {
            return inner.shards.get(channel).map_or(0, HashMap::len);
        }
        let by_pattern = inner.patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel));
        inner.channels.get(channel).map_or(0, HashMap::len)
            + by_pattern.map(|(_, listeners)| listeners.len()).sum::<usize>()
    }

    /// Sends a message to all who listen, each of whom may have `limit_bytes` waiting.
    pub fn publish(&self, publication: &Publication, limit_bytes: usize) {
        if self.listening.load(Ordering::Acquire) == 0 {
            return;
        }
        let message = |pattern: Option<&Bytes>| Message {
            channel: publication.channel.clone(),
            pattern: pattern.cloned(),
            content: publication.message.clone(),
            sharded: publication.sharded,
        };
        let inner = self.lock();
        let exact = if publication.sharded { &inner.shards } else { &inner.channels };
        for mailbox in exact.get(&publication.channel).into_iter().flat_map(HashMap::values) {
            mailbox.put(message(None), limit_bytes);
        }
        if publication.sharded {
            return;
        }
        for (pattern, listeners) in &inner.patterns {
            if glob::matches(pattern, &publication.channel) {
                for mailbox in listeners.values() {
                    mailbox.put(message(Some(pattern)), limit_bytes);
                }
            }
        }
    }

    /// Names of channels that somebody listens to, and how many do.
    #[must_use]
    pub fn channels(&self, kind: Subscribed) -> Vec<(Bytes, usize)> {
        let mut inner = self.lock();
        inner.of(kind).iter().map(|(name, listeners)| (name.clone(), listeners.len())).collect()
    }

    /// How many names somebody listens to.
    #[must_use]
    pub fn count(&self, kind: Subscribed) -> usize {
        self.lock().of(kind).len()
    }

    /// How many listen to one name.
    #[must_use]
    pub fn listeners(&self, kind: Subscribed, name: &[u8]) -> usize {
        self.lock().of(kind).get(name).map_or(0, HashMap::len)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
