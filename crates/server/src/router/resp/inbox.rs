//! What arrived from a node and is not passed on yet. Touches nothing.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::frame::{Malformed, Scanner};
use crate::bounds::{ROUTER_BUFFER_KEPT_BYTES, ROUTER_READ_BYTES};

/// Bytes of a connection, and where its replies end.
#[derive(Default)]
pub(super) struct Inbox {
    /// Initialised to its end; what was read ends at `filled`.
    bytes: Vec<u8>,
    start: usize,
    filled: usize,
    scanner: Scanner,
}

impl Inbox {
    /// Reads what is there. Nothing was read: the other end has closed the connection.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        if self.start > 0 && (self.start == self.filled || self.filled == self.bytes.len()) {
            self.bytes.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled == 0 && self.bytes.len() > ROUTER_BUFFER_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.filled == self.bytes.len() {
            self.bytes.resize((2 * self.filled).max(ROUTER_READ_BYTES), 0);
        }
        let mut space = ReadBuf::new(&mut self.bytes[self.filled..]);
        ready!(Pin::new(stream).poll_read(cx, &mut space))?;
        let count = space.filled().len();
        self.filled += count;
        Poll::Ready(Ok(count))
    }

    /// The length of the next reply, if it is complete.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<usize>, Malformed> {
        self.scanner.read(&self.bytes[self.start..self.filled])
    }

    /// Its bytes.
    #[inline]
    pub(super) fn front(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    /// Forgets it.
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.start += len;
    }

    /// The beginning of a reply that is not complete.
    pub(super) fn begun(&self) -> &[u8] {
        let len = self.scanner.scanned().min(self.filled - self.start);
        &self.bytes[self.start..self.start + len]
    }

    /// Forgets so many bytes of the beginning, which were passed on.
    pub(super) fn passed(&mut self, len: usize) {
        self.start += len;
        self.scanner.passed(len);
    }
}
