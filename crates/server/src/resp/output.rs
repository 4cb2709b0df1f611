//! Replies that were not sent yet. Touches nothing.
//!
//! Invariant: a reply is released only when the revisions that it and all replies before it depend on are durable.

use std::collections::VecDeque;

use keystead_commands::ctx::Publication;
use keystead_commands::hub::WaitingBytes;
use keystead_core::Revision;

use crate::bounds::RESP_OUTPUT_KEPT_BYTES;

/// Replies up to `end` may be sent when `revision` is durable, and then these messages are published.
struct Mark {
    end: usize,
    revision: Revision,
    publish: Vec<Publication>,
}

/// The output of one connection.
pub(super) struct Output {
    /// Encoded replies; the encoder appends here.
    pub(super) bytes: Vec<u8>,
    sent: usize,
    released: usize,
    marks: VecDeque<Mark>,
    /// The size of the buffer, in the sum over all connections.
    waiting: WaitingBytes,
}

impl Output {
    pub(super) fn new(waiting: WaitingBytes) -> Self {
        Output { bytes: Vec::new(), sent: 0, released: 0, marks: VecDeque::new(), waiting }
    }

    /// Records that everything appended so far depends on `revision`. Returns the messages that may be published at once.
    #[inline]
    pub(super) fn mark(
        &mut self,
        revision: Revision,
        durable: Revision,
        publish: Vec<Publication>,
    ) -> Vec<Publication> {
        let end = self.bytes.len();
        self.waiting.set(self.bytes.capacity());
        match self.marks.back_mut() {
            None if revision <= durable => {
                self.released = end;
                return publish;
            }
            // A reply behind one that waits also waits.
            Some(last) if revision <= last.revision => {
                last.end = end;
                last.publish.extend(publish);
            }
            _ => self.marks.push_back(Mark { end, revision, publish }),
        }
        Vec::new()
    }

    /// The revision that the first reply waits for.
    #[inline]
    pub(super) fn waits_for(&self) -> Option<Revision> {
        self.marks.front().map(|mark| mark.revision)
    }

    /// Releases the replies that are durable, and returns the messages that may be published now.
    pub(super) fn release(&mut self, durable: Revision) -> Vec<Publication> {
        let mut publish = Vec::new();
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.revision <= durable) {
            self.released = mark.end;
            publish.extend(mark.publish);
        }
        publish
    }

    /// The bytes that may be sent.
    #[inline]
    pub(super) fn ready(&self) -> &[u8] {
        &self.bytes[self.sent..self.released]
    }

    /// Records that so many bytes were sent.
    pub(super) fn wrote(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(RESP_OUTPUT_KEPT_BYTES);
            self.waiting.set(self.bytes.capacity());
            (self.sent, self.released) = (0, 0);
        } else if self.sent > RESP_OUTPUT_KEPT_BYTES && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.released -= self.sent;
            for mark in &mut self.marks {
                mark.end -= self.sent;
            }
            self.sent = 0;
        }
    }

    /// Bytes that were not sent yet.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether everything was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_reply_waits_for_those_before_it() {
        let mut output = Output::new(WaitingBytes::new(Arc::default()));
        output.bytes.extend(b"a");
        output.mark(Revision(0), Revision(5), Vec::new());
        assert_eq!(output.ready(), b"a");
        output.bytes.extend(b"b");
        output.mark(Revision(7), Revision(5), Vec::new());
        output.bytes.extend(b"c");
        output.mark(Revision(3), Revision(5), Vec::new());
        assert_eq!((output.ready(), output.waits_for()), (&b"a"[..], Some(Revision(7))));
        output.wrote(1);
        output.release(Revision(6));
        assert_eq!(output.ready(), b"");
        output.release(Revision(7));
        assert_eq!((output.ready(), output.waits_for()), (&b"bc"[..], None));
        output.wrote(2);
        assert!(output.is_empty());
    }
}
