//! Bytes of replies that clients have not read yet, over all connections. It touches nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bounds::{REPLIES_WAITING_BYTES_MAX, REPLY_SMALL_BYTES};

/// Pending bytes.
#[derive(Debug, Default)]
pub struct Waiting(AtomicUsize);

impl Waiting {
    /// The number of bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether there are more than [`REPLIES_WAITING_BYTES_MAX`]: nothing large may be added.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.bytes() > REPLIES_WAITING_BYTES_MAX
    }

    /// A share of so many bytes; nothing if they do not fit. A small share always fits.
    #[must_use]
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<WaitingBytes> {
        let mut share = WaitingBytes::new(Arc::clone(self));
        share.set(bytes);
        (share.counted == 0 || !self.is_over()).then_some(share)
    }
}

/// The share of one connection, or of one reply, until it is dropped. A small share is not counted, so that ordinary replies
/// do not contend for a cache line.
#[derive(Debug)]
pub struct WaitingBytes {
    of: Arc<Waiting>,
    counted: usize,
}

impl WaitingBytes {
    /// An empty share.
    #[must_use]
    pub fn new(of: Arc<Waiting>) -> Self {
        WaitingBytes { of, counted: 0 }
    }

    /// Sets the number of bytes.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes > REPLY_SMALL_BYTES || self.counted > 0 {
            self.count(bytes);
        }
    }

    #[cold]
    fn count(&mut self, bytes: usize) {
        let bytes = if bytes > REPLY_SMALL_BYTES { bytes } else { 0 };
        if bytes >= self.counted {
            self.of.0.fetch_add(bytes - self.counted, Ordering::Relaxed);
        } else {
            self.of.0.fetch_sub(self.counted - bytes, Ordering::Relaxed);
        }
        self.counted = bytes;
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_replies_are_counted_while_pending() {
        let waiting = Arc::new(Waiting::default());
        let (mut a, mut b) =
            (WaitingBytes::new(Arc::clone(&waiting)), WaitingBytes::new(Arc::clone(&waiting)));
        a.set(REPLY_SMALL_BYTES);
        assert_eq!(waiting.bytes(), 0);
        a.set(3 * REPLY_SMALL_BYTES);
        b.set(2 * REPLY_SMALL_BYTES);
        assert_eq!(waiting.bytes(), 5 * REPLY_SMALL_BYTES);
        b.set(4 * REPLY_SMALL_BYTES);
        a.set(1);
        assert_eq!(waiting.bytes(), 4 * REPLY_SMALL_BYTES);
        drop((a, b));
        assert_eq!(waiting.bytes(), 0);
    }

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let waiting = Arc::new(Waiting::default());
        let most = waiting.take(REPLIES_WAITING_BYTES_MAX).unwrap();
        assert!(waiting.take(REPLY_SMALL_BYTES).is_some() && waiting.take(REPLY_SMALL_BYTES + 1).is_none());
        assert_eq!(waiting.bytes(), REPLIES_WAITING_BYTES_MAX, "what was not taken does not count");
        drop(most);
        assert!(waiting.take(REPLY_SMALL_BYTES + 1).is_some());
    }
}
