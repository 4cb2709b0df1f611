//! Bytes that came and were not run yet. It touches nothing.
//!
//! Buffers are shared by the connections of a loop: one that has nothing left over keeps none.

use std::cell::RefCell;

use keystead_commands::Args;
use keystead_commands::wire::request::{Bounds, Parser, ProtocolError};

use crate::bounds::{RESP_BUFFERS_KEPT, RESP_READ_BYTES};

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// What a connection has read.
#[derive(Default)]
pub(super) struct Input {
    /// All of it is initialised; what was read ends at `filled`.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    parser: Parser,
}

impl Input {
    /// Room to read into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; RESP_READ_BYTES]);
        }
        if self.start > 0 && (self.filled == self.buffer.len() || self.start == self.filled) {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled == self.buffer.len() {
            // It grows with what arrives, not with what was announced, so that nobody makes the server reserve for nothing.
            let wanted =
                (self.start + self.parser.wants()).clamp(self.filled + RESP_READ_BYTES, 2 * self.filled);
            self.buffer.resize(wanted.max(2 * self.filled.min(RESP_READ_BYTES)), 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Notes that so many bytes were read into the room.
    pub(super) fn filled(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.filled - self.start
    }

    /// Looks for the next request that is complete.
    #[inline]
    pub(super) fn next(&mut self, bounds: Bounds) -> Result<Option<Request<'_>>, ProtocolError> {
        let Some(len) = self.parser.read(&self.buffer[self.start..self.filled], bounds)? else {
            return Ok(None);
        };
        Ok(Some(Request { bytes: &self.buffer[self.start..self.start + len], parser: &self.parser }))
    }

    /// Goes on behind the request that [`next`](Input::next) found.
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.start += len;
        self.parser.finish();
    }

    /// Gives the buffer back when nothing is left in it.
    pub(super) fn rest(&mut self) {
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
pub(super) struct Request<'a> {
    bytes: &'a [u8],
    parser: &'a Parser,
}

impl<'a> Request<'a> {
    pub(super) fn args(&self) -> Args<'a> {
        self.parser.args(self.bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}
