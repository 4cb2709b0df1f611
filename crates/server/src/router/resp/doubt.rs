//! Requests that a node rejected because their slot is handed over, while a later one of the same client for the same slot was on its way to
//! that node. Touches nothing by itself.
//!
//! Invariant: a request never runs after a later one. If the later one was rejected too, both are sent again in their order; if it ran, the
//! earlier one gets its error: it was not applied.

use std::rc::Rc;

use super::event_loop::Loop;
use super::link::{Entry, Link};
use crate::router::redirect::Redirect;

/// A request that waits for the reply to a later one. Its client sends nothing new meanwhile.
pub(super) struct Doubt {
    entry: Entry,
    request: Vec<u8>,
    /// The error of the node.
    frame: Vec<u8>,
}

impl Doubt {
    pub(super) fn begin(entry: Entry, request: Vec<u8>, frame: &[u8]) -> Doubt {
        if let Some(client) = &entry.client {
            client.begin_redirect();
        }
        Doubt { entry, request, frame: frame.to_vec() }
    }

    /// The later one was rejected as well.
    pub(super) fn send_again(self, from: &Link, on: &Rc<Loop>) {
        let client = self.entry.client.clone();
        on.redirect(from, self.entry, self.request, Redirect::Again, &self.frame);
        if let Some(client) = client {
            client.end_redirect();
        }
    }

    /// The later one has run, or nobody knows.
    pub(super) fn end(self) {
        self.entry.fill(&self.frame);
        if let Some(client) = &self.entry.client {
            client.end_redirect();
        }
    }

    /// Whether a request is a later one of its client for its slot.
    fn is_before(&self, later: &Entry) -> bool {
        let client = self.entry.client.as_ref().zip(later.client.as_ref());
        self.entry.target == later.target && client.is_some_and(|(own, other)| Rc::ptr_eq(own, other))
    }
}

/// Those of one connection, in their order. There are no more than requests in flight.
#[derive(Default)]
pub(super) struct Doubts(Vec<Doubt>);

impl Doubts {
    /// Takes those that wait for the reply to this request.
    pub(super) fn before(&mut self, later: &Entry) -> Vec<Doubt> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.0.extract_if(.., |doubt| doubt.is_before(later)).collect()
    }

    pub(super) fn put(&mut self, doubts: impl IntoIterator<Item = Doubt>) {
        self.0.extend(doubts);
    }

    /// Takes all of them: the connection was lost.
    pub(super) fn take(&mut self) -> Vec<Doubt> {
        std::mem::take(&mut self.0)
    }
}
