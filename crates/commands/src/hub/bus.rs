//! Channels and their subscribers. It touches nothing.
//!
//! Invariant: a name exists only while it has subscribers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_model::Bytes;

use super::ClientId;
use super::mailbox::{Mailbox, Message, MessageKind};
use crate::ctx::Publication;
use crate::glob;

/// The kind of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// To a channel (SUBSCRIBE).
    Channel,
    /// To all channels of a pattern (PSUBSCRIBE).
    Pattern,
    /// To a shard channel (SSUBSCRIBE).
    Shard,
}

type Subscribers = HashMap<Bytes, HashMap<ClientId, Arc<Mailbox>, RandomState>, RandomState>;

fn kind_of(publication: &Publication) -> MessageKind {
    if publication.sharded { MessageKind::Sharded } else { MessageKind::Message }
}

/// Channels and their subscribers.
#[derive(Default)]
pub struct Bus {
    inner: Mutex<Inner>,
    /// When nobody is subscribed, publishing takes no lock.
    listening: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    channels: Subscribers,
    patterns: Subscribers,
    shards: Subscribers,
}

impl Inner {
    fn of(&mut self, kind: Subscribed) -> &mut Subscribers {
        match kind {
            Subscribed::Channel => &mut self.channels,
            Subscribed::Pattern => &mut self.patterns,
            Subscribed::Shard => &mut self.shards,
        }
    }
}

impl Bus {
    /// Subscribes.
    pub fn subscribe(&self, kind: Subscribed, name: &Bytes, client: ClientId, mailbox: &Arc<Mailbox>) {
        let mut inner = self.lock();
        let subscribers = inner.of(kind).entry(name.clone()).or_default();
        if subscribers.insert(client, Arc::clone(mailbox)).is_none() {
            self.listening.fetch_add(1, Ordering::Release);
        }
    }

    /// Unsubscribes.
    pub fn unsubscribe(&self, kind: Subscribed, name: &[u8], client: ClientId) {
        let mut inner = self.lock();
        let names = inner.of(kind);
        let Some(subscribers) = names.get_mut(name) else { return };
        if subscribers.remove(&client).is_some() {
            self.listening.fetch_sub(1, Ordering::Release);
        }
        if subscribers.is_empty() {
            names.remove(name);
        }
    }

    /// How many subscribers would receive a message now.
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
            + by_pattern.map(|(_, subscribers)| subscribers.len()).sum::<usize>()
    }

    /// Sends a message to all subscribers, each of which may have `limit_bytes` pending.
    pub fn publish(&self, publication: &Publication, limit_bytes: usize) {
        if self.listening.load(Ordering::Acquire) == 0 {
            return;
        }
        let message = |pattern: Option<&Bytes>| Message {
            channel: publication.channel.clone(),
            pattern: pattern.cloned(),
            content: publication.message.clone(),
            kind: kind_of(publication),
        };
        let inner = self.lock();
        let exact = if publication.sharded { &inner.shards } else { &inner.channels };
        for mailbox in exact.get(&publication.channel).into_iter().flat_map(HashMap::values) {
            mailbox.put(message(None), limit_bytes);
        }
        if publication.sharded {
            return;
        }
        for (pattern, subscribers) in &inner.patterns {
            if glob::matches(pattern, &publication.channel) {
                for mailbox in subscribers.values() {
                    mailbox.put(message(Some(pattern)), limit_bytes);
                }
            }
        }
    }

    /// Sends a message to the subscribers of one name, as another server has sent it for that name: those of a pattern get it from
    /// that server as well.
    pub fn pass_on(&self, kind: Subscribed, name: &[u8], publication: &Publication, limit_bytes: usize) {
        let mut inner = self.lock();
        let Some((name, subscribers)) = inner.of(kind).get_key_value(name) else { return };
        for mailbox in subscribers.values() {
            let message = Message {
                channel: publication.channel.clone(),
                pattern: (kind == Subscribed::Pattern).then(|| name.clone()),
                content: publication.message.clone(),
                kind: kind_of(publication),
            };
            mailbox.put(message, limit_bytes);
        }
    }

    /// Ends the subscriptions to the shard channels that are not wanted, and sends that to their subscribers.
    pub fn end_shard_channels(&self, is_wanted: impl Fn(&[u8]) -> bool, limit_bytes: usize) {
        if self.listening.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut inner = self.lock();
        for (channel, subscribers) in inner.shards.extract_if(|channel, _| !is_wanted(channel)) {
            self.listening.fetch_sub(subscribers.len(), Ordering::Release);
            for mailbox in subscribers.values() {
                let (channel, content) = (channel.clone(), Bytes::default());
                mailbox
                    .put(Message { channel, pattern: None, content, kind: MessageKind::Ended }, limit_bytes);
            }
        }
    }

    /// The channels with subscribers, and their numbers of subscribers.
    #[must_use]
    pub fn channels(&self, kind: Subscribed) -> Vec<(Bytes, usize)> {
        let mut inner = self.lock();
        inner.of(kind).iter().map(|(name, subscribers)| (name.clone(), subscribers.len())).collect()
    }

    /// The number of names with subscribers.
    #[must_use]
    pub fn count(&self, kind: Subscribed) -> usize {
        self.lock().of(kind).len()
    }

    /// The number of subscribers of one name.
    #[must_use]
    pub fn subscribers(&self, kind: Subscribed, name: &[u8]) -> usize {
        self.lock().of(kind).get(name).map_or(0, HashMap::len)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
