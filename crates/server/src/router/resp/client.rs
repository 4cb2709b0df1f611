//! What a client waits for: the replies to its requests, in their order, whichever node they come from. Touches nothing.
//!
//! Shared by the client's own task, which adds requests and writes the output, and the tasks of the nodes' connections, which bring the
//! replies. All of them run on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use super::merge::Gather;

/// The reply to a request.
enum Slot {
    /// It has not come.
    Waits,
    /// It has not come, and the client does not want it (CLIENT REPLY).
    Muted,
    /// It came before those of earlier requests.
    Ready(Vec<u8>),
    /// It is put together from several.
    Gather(Box<Gather>, bool),
}

/// The replies of a client.
#[derive(Default)]
pub(super) struct Client {
    replies: RefCell<Replies>,
    /// Requests that are about to be sent again.
    redirected: Cell<usize>,
    /// Requests that were sent again and have no reply.
    resent: Cell<usize>,
}

#[derive(Default)]
struct Replies {
    /// The number of the request at the front of `slots`.
    first: u64,
    slots: VecDeque<Slot>,
    /// What may be written.
    out: Vec<u8>,
    /// How much of it was written.
    written: usize,
    /// Bytes of replies that came before earlier ones.
    early_bytes: usize,
    /// The largest of the last replies.
    largest: usize,
    /// A part of the reply to the first request was passed on.
    is_streaming: bool,
    /// Nobody reads any more, or a reply broke off.
    is_closed: bool,
    waker: Option<Waker>,
}

impl Replies {
    /// Passes on what is complete at the front.
    fn advance(&mut self) {
        while let Some(Slot::Ready(bytes)) = self.slots.front() {
            self.early_bytes = self.early_bytes.saturating_sub(bytes.len());
            self.out.extend_from_slice(bytes);
            self.slots.pop_front();
            self.first += 1;
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    fn note_size(&mut self, bytes: usize) {
        // It falls slowly, so that one small reply between large ones changes little.
        self.largest = (self.largest - self.largest / 16).max(bytes);
    }
}

impl Client {
    /// The task to wake when replies come.
    pub(super) fn set_waker(&self, waker: &Waker) {
        self.replies.borrow_mut().waker = Some(waker.clone());
    }

    pub(super) fn wake(&self) {
        self.replies.borrow().wake();
    }

    /// Adds a request whose reply is to come, and returns its number.
    pub(super) fn expect(&self, is_muted: bool) -> u64 {
        self.push(if is_muted { Slot::Muted } else { Slot::Waits })
    }

    /// Adds a request whose reply is put together.
    pub(super) fn expect_all(&self, gather: Gather, is_muted: bool) -> u64 {
        self.push(Slot::Gather(Box::new(gather), is_muted))
    }

    fn push(&self, slot: Slot) -> u64 {
        let mut replies = self.replies.borrow_mut();
        replies.slots.push_back(slot);
        replies.first + replies.slots.len() as u64 - 1
    }

    /// Adds a reply that is there already.
    pub(super) fn reply(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut replies = self.replies.borrow_mut();
        if replies.slots.is_empty() {
            return encode(&mut replies.out);
        }
        let mut bytes = Vec::new();
        encode(&mut bytes);
        replies.early_bytes += bytes.len();
        replies.slots.push_back(Slot::Ready(bytes));
    }

    /// Brings the reply to a request, or of one part of it.
    pub(super) fn fill(&self, number: u64, part: u32, frame: &[u8]) {
        let replies = &mut *self.replies.borrow_mut();
        if replies.is_closed {
            return;
        }
        let at = number.wrapping_sub(replies.first) as usize;
        replies.note_size(frame.len());
        let early = match replies.slots.get_mut(at) {
            Some(Slot::Waits) if at == 0 => {
                replies.out.extend_from_slice(frame);
                replies.slots.pop_front();
                replies.first += 1;
                replies.is_streaming = false;
                replies.advance();
                return replies.wake();
            }
            Some(Slot::Waits) => frame.to_vec(),
            Some(Slot::Muted) => Vec::new(),
            Some(Slot::Gather(gather, is_muted)) => match gather.put(part, frame) {
                Some(_) if *is_muted => Vec::new(),
                Some(whole) => {
                    replies.early_bytes = replies.early_bytes.saturating_sub(gather.bytes() - frame.len());
                    whole
                }
                None => {
                    replies.early_bytes += frame.len();
                    return;
                }
            },
            Some(Slot::Ready(_)) | None => return,
        };
        replies.early_bytes += early.len();
        replies.slots[at] = Slot::Ready(early);
        replies.advance();
        replies.wake();
    }

    /// Passes on a part of the reply to a request, if nothing is before it. False: the whole reply must be brought.
    pub(super) fn stream(&self, number: u64, bytes: &[u8]) -> bool {
        let replies = &mut *self.replies.borrow_mut();
        if number != replies.first || !matches!(replies.slots.front(), Some(Slot::Waits)) {
            return false;
        }
        replies.is_streaming = true;
        if replies.is_closed {
            return true;
        }
        replies.note_size(bytes.len());
        replies.out.extend_from_slice(bytes);
        replies.wake();
        true
    }

    /// A reply broke off: what follows it could not be told from it.
    pub(super) fn break_off(&self, number: u64) {
        let mut replies = self.replies.borrow_mut();
        if replies.is_streaming && replies.first == number {
            replies.is_closed = true;
            replies.wake();
        }
    }

    pub(super) fn close(&self) {
        self.replies.borrow_mut().is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.replies.borrow().is_closed
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.replies.borrow().is_streaming
    }

    /// Requests without a reply.
    pub(super) fn waiting(&self) -> usize {
        self.replies.borrow().slots.len()
    }

    /// The number of the first of them.
    pub(super) fn first(&self) -> u64 {
        self.replies.borrow().first
    }

    /// Bytes that were not written.
    pub(super) fn bytes(&self) -> usize {
        let replies = self.replies.borrow();
        replies.out.len() - replies.written + replies.early_bytes
    }

    pub(super) fn largest(&self) -> usize {
        self.replies.borrow().largest
    }

    /// Passes messages to the client, behind the replies that are complete.
    pub(super) fn append(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.replies.borrow_mut().out);
    }

    /// Takes what may be written.
    pub(super) fn take_out(&self, kept: &mut Vec<u8>) -> usize {
        let mut replies = self.replies.borrow_mut();
        let written = std::mem::take(&mut replies.written);
        std::mem::swap(&mut replies.out, kept);
        written
    }

    /// Gives back what was not written yet.
    pub(super) fn give_back(&self, mut out: Vec<u8>, written: usize, most_kept: usize) {
        let mut replies = self.replies.borrow_mut();
        if written >= out.len() {
            out.clear();
            if out.capacity() > most_kept {
                out = Vec::new();
            }
            replies.out = out;
            return;
        }
        replies.written = written;
        if written > most_kept && written > out.len() / 2 {
            out.drain(..written);
            replies.written = 0;
        }
        replies.out = out;
    }

    /// Counts a request that is about to be sent again.
    pub(super) fn begin_redirect(&self) {
        self.redirected.set(self.redirected.get() + 1);
    }

    pub(super) fn end_redirect(&self) {
        self.redirected.set(self.redirected.get().saturating_sub(1));
        self.wake();
    }

    /// Counts a request that was sent again.
    pub(super) fn begin_resent(&self) {
        self.resent.set(self.resent.get() + 1);
    }

    pub(super) fn end_resent(&self) {
        self.resent.set(self.resent.get().saturating_sub(1));
        self.wake();
    }

    pub(super) fn resent(&self) -> usize {
        self.resent.get()
    }

    /// Whether requests are sent again, so that new ones would overtake them.
    pub(super) fn is_redirected(&self) -> bool {
        self.redirected.get() > 0 || self.resent.get() > 0
    }
}

#[cfg(test)]
mod tests {
    use keystead_commands::session::Protocol;

    use super::super::merge::Merge;
    use super::*;

    fn out(client: &Client) -> String {
        let mut kept = Vec::new();
        let written = client.take_out(&mut kept);
        let shown = String::from_utf8(kept[written..].to_vec()).unwrap();
        let len = kept.len();
        client.give_back(kept, len, 0);
        shown
    }

    #[test]
    fn replies_are_in_the_order_of_the_requests() {
        let client = Client::default();
        let (a, b) = (client.expect(false), client.expect(false));
        let sum = client.expect_all(Gather::new(2, Merge::Sum, Protocol::Resp2), false);
        let muted = client.expect(true);
        client.reply(|out| out.extend_from_slice(b"+PONG\r\n"));
        client.fill(sum, 1, b":2\r\n");
        client.fill(b, 0, b"+b\r\n");
        client.fill(muted, 0, b"+muted\r\n");
        assert_eq!(out(&client), "");
        client.fill(a, 0, b"+a\r\n");
        assert_eq!(out(&client), "+a\r\n+b\r\n");
        client.fill(sum, 0, b":1\r\n");
        assert_eq!(out(&client), ":3\r\n+PONG\r\n");
        assert_eq!((client.waiting(), client.bytes(), client.first()), (0, 0, 5));
    }

    #[test]
    fn only_the_first_reply_is_passed_on_in_parts() {
        let client = Client::default();
        let (a, b) = (client.expect(false), client.expect(false));
        assert!(!client.stream(b, b"$5\r\nhe"));
        assert!(client.stream(a, b"$5\r\nhe"));
        assert!(client.is_streaming());
        client.fill(a, 0, b"llo\r\n");
        assert!(!client.is_streaming());
        assert_eq!(out(&client), "$5\r\nhello\r\n");
        client.break_off(b);
        assert!(!client.is_closed(), "nothing of it was passed on");
        client.stream(b, b"$5\r\nhe");
        client.break_off(b);
        assert!(client.is_closed());
    }
}
