//! Requests that were read and not run yet. Touches nothing.
//!
//! Buffers are shared by the connections of a loop: a connection without unread input keeps none.

use std::cell::RefCell;

use keystead_commands::Args;
use keystead_commands::wire::request::{Bounds, Parser, ProtocolError, second_words};
use keystead_core::table::PREFETCH_MAX;

use crate::bounds::{RESP_BUFFERS_KEPT, RESP_READ_BYTES};

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The input of a connection.
#[derive(Default)]
pub(crate) struct Input {
    /// Initialised to its end; what was read ends at `filled`.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    parser: Parser,
}

impl Input {
    /// Space to read into.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; RESP_READ_BYTES]);
        }
        if self.start > 0 && (self.filled == self.buffer.len() || self.start == self.filled) {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled == self.buffer.len() {
            // It grows with what arrives, not with the announced length, so that a client cannot make the server reserve memory for nothing.
            let wanted =
                (self.start + self.parser.wants()).clamp(self.filled + RESP_READ_BYTES, 2 * self.filled);
            self.buffer.resize(wanted.max(2 * self.filled.min(RESP_READ_BYTES)), 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Records that so many bytes were read into the space.
    pub(crate) fn filled(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// Bytes that were read and not run.
    pub(crate) fn len(&self) -> usize {
        self.filled - self.start
    }

    /// The next complete request, if there is one.
    #[inline]
    pub(crate) fn next(&mut self, bounds: Bounds) -> Result<Option<Request<'_>>, ProtocolError> {
        let Some(len) = self.parser.read(&self.buffer[self.start..self.filled], bounds)? else {
            return Ok(None);
        };
        Ok(Some(Request { bytes: &self.buffer[self.start..self.start + len], parser: &self.parser }))
    }

    /// What are probably the keys of the next complete requests, between two requests, and how many there are.
    #[inline]
    pub(crate) fn keys_ahead(&self) -> ([&[u8]; PREFETCH_MAX], usize) {
        let (mut keys, mut len) = ([&[][..]; PREFETCH_MAX], 0);
        for (key, ahead) in keys.iter_mut().zip(second_words(&self.buffer[self.start..self.filled])) {
            *key = ahead;
            len += 1;
        }
        (keys, len)
    }

    /// Skips the request that [`next`](Input::next) returned.
    #[inline]
    pub(crate) fn advance(&mut self, len: usize) {
        self.start += len;
        self.parser.finish();
    }

    /// Returns the buffer to the loop if it is empty.
    pub(crate) fn recycle(&mut self) {
        if self.start < self.filled || self.buffer.is_empty() {
            return;
        }
        (self.start, self.filled) = (0, 0);
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.len() == RESP_READ_BYTES {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < RESP_BUFFERS_KEPT {
                    spare.push(buffer);
                }
            });
        }
    }
}

/// A complete request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    bytes: &'a [u8],
    parser: &'a Parser,
}

impl<'a> Request<'a> {
    /// The bytes as they came.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn args(&self) -> Args<'a> {
        self.parser.args(self.bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}
