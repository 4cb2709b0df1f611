//! Counts what a connection receives, so that a reply that is larger than its bound ends the connection and not the process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::bounds::REPLY_LINE_BYTES;
use crate::net::Stream;

/// How much a connection may still receive.
pub(super) struct Meter {
    left: AtomicUsize,
    exceeded: AtomicBool,
}

impl Meter {
    /// Without a bound, until one is granted.
    pub(super) fn new() -> Meter {
        Meter { left: AtomicUsize::new(usize::MAX), exceeded: AtomicBool::new(false) }
    }

    /// Sets how much it may receive from now on.
    pub(super) fn grant(&self, bytes: usize) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// Whether it has received more than that. Then it receives nothing any more.
    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// Takes the cost of received bytes.
    fn take(&self, received: &[u8]) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Ok(());
        }
        // An element of a reply has a line of its own, and takes much more memory than that line.
        let lines = received.iter().filter(|byte| **byte == b'\n').count();
        match left.checked_sub(received.len() + lines * REPLY_LINE_BYTES) {
            Some(left) => {
                self.left.store(left, Ordering::Relaxed);
                Ok(())
            }
            None => {
                self.exceeded.store(true, Ordering::Relaxed);
                Err(io::Error::other("the reply is too large"))
            }
        }
    }
}

/// A connection whose received bytes are counted.
pub(super) struct Metered {
    stream: Box<dyn Stream>,
    meter: Arc<Meter>,
}

impl Metered {
    pub(super) fn new(stream: Box<dyn Stream>, meter: Arc<Meter>) -> Metered {
        Metered { stream, meter }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.meter.take(&buf.filled()[before..]))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_lines_are_counted_until_the_bound() {
        let meter = Meter::new();
        meter.take(&[0; 10_000]).unwrap();
        meter.grant(3 + 2 * (4 + REPLY_LINE_BYTES));
        meter.take(b":1\r\n").unwrap();
        meter.take(b":2\r\nabc").unwrap();
        assert!(!meter.is_exceeded());
        assert!(meter.take(b"d").is_err() && meter.is_exceeded());
    }
}
