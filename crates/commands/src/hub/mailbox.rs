//! Messages that are pending for a connection. It touches nothing.
//!
//! Invariant: it never holds more than its limit; a reader that is too slow is marked and its connection closed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use keystead_model::Bytes;

/// A message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: Bytes,
    /// The pattern that matched, for a pattern subscription.
    pub pattern: Option<Bytes>,
    /// The payload.
    pub content: Bytes,
    /// What it is.
    pub kind: MessageKind,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// It was published to a channel, or is a line of MONITOR.
    Message,
    /// It was published to a shard channel.
    Sharded,
    /// The subscription to the shard channel has ended: another node of the cluster has its slot.
    Ended,
}

impl Message {
    fn mem_bytes(&self) -> usize {
        size_of::<Message>() + self.channel.len() + self.content.len()
    }
}

/// The messages of one connection.
#[derive(Default)]
pub struct Mailbox {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Message>,
    bytes: usize,
    overflown: bool,
    ended: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    /// Adds a message and wakes the connection. A message beyond `limit_bytes` is dropped, and marks the mailbox as overflowed.
    pub fn put(&self, message: Message, limit_bytes: usize) {
        let mut inner = self.lock();
        if inner.overflown {
            return;
        }
        let bytes = message.mem_bytes();
        if limit_bytes > 0 && inner.bytes + bytes > limit_bytes {
            inner.overflown = true;
            inner.waiting.clear();
            inner.bytes = 0;
        } else {
            inner.bytes += bytes;
            inner.waiting.push_back(message);
        }
        if let Some(waker) = &inner.waker {
            waker.wake_by_ref();
        }
    }

    /// No more messages follow. The connection is woken.
    pub fn end(&self) {
        let mut inner = self.lock();
        inner.ended = true;
        if let Some(waker) = &inner.waker {
            waker.wake_by_ref();
        }
    }

    /// Takes all messages. `None` when it overflowed, or no more follow: the connection must be closed.
    pub fn take(&self, waker: &Waker) -> Option<VecDeque<Message>> {
        let mut inner = self.lock();
        if inner.overflown || inner.ended && inner.waiting.is_empty() {
            return None;
        }
        if !inner.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            inner.waker = Some(waker.clone());
        }
        inner.bytes = 0;
        Some(std::mem::take(&mut inner.waiting))
    }

    /// Whether it overflowed: the connection must be closed.
    #[must_use]
    pub fn is_overflown(&self) -> bool {
        self.lock().overflown
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
