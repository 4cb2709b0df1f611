//! The requests of a pipeline for one shard, as one entry of its queue. Touches only the shard whose turn it is given.
//!
//! Replies are encoded on the shard that makes them: its values are neither shared with nor freed by another thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use keystead_commands::ctx::Publication;
use keystead_commands::errors::Fail;
use keystead_commands::hub::{Hub, Rejection, WaitingBytes};
use keystead_commands::session::Protocol;
use keystead_commands::spec::flag;
use keystead_commands::wire::encode;
use keystead_commands::{Args, Command, Random, Reply, Spec};
use keystead_core::{Error, Result, Revision, Stopwatch};
use keystead_engine::{Sequence, Turn};
use tokio::sync::oneshot;

use super::job::run_in;
use crate::bounds::{RESP_BUFFERS_KEPT, RESP_OUTPUT_KEPT_BYTES, RESP_PART_TURN};

thread_local! {
    #[allow(clippy::vec_box, reason = "the box itself is used again: a shard's queue takes boxes")]
    static SPARE: RefCell<Vec<Box<Part>>> = const { RefCell::new(Vec::new()) };
}

/// Encoded replies, and the messages that are published with them.
pub(crate) struct Replies {
    bytes: Vec<u8>,
    /// Where each reply ends.
    ends: Vec<usize>,
    /// The messages, each with the number of its reply.
    publish: VecDeque<(usize, Publication)>,
    /// How many were taken.
    taken: usize,
    /// The size of the buffer, in the sum over all connections.
    waiting: WaitingBytes,
}

impl Replies {
    pub(crate) fn new(hub: &Hub) -> Self {
        let waiting = WaitingBytes::new(Arc::clone(&hub.waiting));
        Replies { bytes: Vec::new(), ends: Vec::new(), publish: VecDeque::new(), taken: 0, waiting }
    }

    /// Appends a reply. An error is counted.
    #[inline]
    pub(crate) fn push(&mut self, hub: &Hub, protocol: Protocol, reply: &Reply, publish: Vec<Publication>) {
        if let Reply::Error(fail) = reply {
            hub.stats.failed(fail);
        }
        encode(protocol, reply, &mut self.bytes);
        self.publish.extend(publish.into_iter().map(|publication| (self.ends.len(), publication)));
        self.ends.push(self.bytes.len());
        self.waiting.set(self.bytes.capacity());
    }

    /// Takes the next reply. Its messages are appended to `publish`.
    #[inline]
    pub(crate) fn next(&mut self, publish: &mut Vec<Publication>) -> Option<&[u8]> {
        let end = *self.ends.get(self.taken)?;
        let start = self.taken.checked_sub(1).map_or(0, |last| self.ends[last]);
        while let Some((_, publication)) = self.publish.pop_front_if(|(n, _)| *n == self.taken) {
            publish.push(publication);
        }
        self.taken += 1;
        Some(&self.bytes[start..end])
    }

    /// Whether every reply was taken.
    pub(crate) fn all_taken(&self) -> bool {
        self.taken == self.ends.len()
    }

    /// Bytes of the replies.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all replies and messages.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(RESP_OUTPUT_KEPT_BYTES);
        self.waiting.set(self.bytes.capacity());
        self.ends.clear();
        self.publish.clear();
        self.taken = 0;
    }
}

struct Request {
    spec: &'static Spec,
    /// Where its arguments end among those of all requests.
    end: usize,
}

/// The requests of a pipeline for one shard, in order.
pub(crate) struct Part {
    /// The arguments of all requests.
    arguments: Command,
    requests: Vec<Request>,
    /// How many have run.
    ran: usize,
    pub(crate) replies: Replies,
    hub: Arc<Hub>,
    random: Random,
    protocol: Protocol,
    /// Bytes of replies after which the requests behind them do not run yet.
    reply_bytes_max: usize,
    /// The slot that the next request must wait for: it is being handed over.
    parked: Option<u16>,
    /// Whether the next request has waited for its slot.
    has_waited: bool,
    reply_to: Option<oneshot::Sender<Box<Part>>>,
}

impl Part {
    /// An empty part.
    pub(crate) fn new(hub: &Arc<Hub>, seed: u64, protocol: Protocol, reply_bytes_max: usize) -> Box<Self> {
        let mut part = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
            Box::new(Part {
                arguments: Command::default(),
                requests: Vec::new(),
                ran: 0,
                replies: Replies::new(hub),
                hub: Arc::clone(hub),
                random: Random::new(seed),
                protocol,
                reply_bytes_max,
                parked: None,
                has_waited: false,
                reply_to: None,
            })
        });
        part.random = Random::new(seed);
        (part.protocol, part.reply_bytes_max) = (protocol, reply_bytes_max);
        part
    }

    /// Adds a request.
    #[inline]
    pub(crate) fn push(&mut self, spec: &'static Spec, args: Args<'_>) {
        args.from(0).for_each(|argument| self.arguments.push(argument));
        self.requests.push(Request { spec, end: self.arguments.args().len() });
    }

    /// How its replies are encoded.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// How many requests have no reply yet.
    pub(crate) fn left(&self) -> usize {
        self.requests.len() - self.ran
    }

    /// The slot that the next request waits for. It waits one time.
    pub(crate) fn take_parked(&mut self) -> Option<u16> {
        self.parked.take()
    }

    /// Where it returns with the replies. Those it had were taken.
    pub(crate) fn expect_back(&mut self) -> oneshot::Receiver<Box<Part>> {
        let (reply_to, back) = oneshot::channel();
        self.replies.clear();
        self.reply_to = Some(reply_to);
        back
    }

    /// Replies with this error to so many requests.
    pub(crate) fn fail(&mut self, error: Error, count: usize) {
        let reply = Reply::Error(Fail::Broken(error));
        for _ in 0..count {
            self.replies.push(&self.hub, self.protocol, &reply, Vec::new());
        }
    }

    /// Keeps the buffers for another pipeline of this loop.
    pub(crate) fn recycle(mut self: Box<Self>) {
        self.replies.clear();
        self.requests.clear();
        self.arguments.clear();
        (self.ran, self.parked, self.has_waited) = (0, None, false);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < RESP_BUFFERS_KEPT && self.arguments.mem_bytes() <= RESP_OUTPUT_KEPT_BYTES {
                spare.push(self);
            }
        });
    }

    /// Runs the next request. None: there is none, or its slot is being handed over.
    fn run_next(&mut self, turn: &mut Turn<'_>) -> Option<(&'static Spec, Revision)> {
        let Request { spec, end } = *self.requests.get(self.ran)?;
        let start = self.ran.checked_sub(1).map_or(0, |last| self.requests[last].end);
        let args = self.arguments.args_between(start, end);
        // Its slot may have been closed, or have moved, since the connection checked it. On this thread that cannot happen before it runs.
        let rejection = self.hub.cluster.get().and_then(|cluster| cluster.rejection(spec, args));
        let has_waited = std::mem::take(&mut self.has_waited);
        if let (Some(Rejection::Parked(slot)), false) = (&rejection, has_waited) {
            (self.parked, self.has_waited) = (Some(*slot), true);
            return None;
        }
        let (reply, publish, seen) = match rejection {
            Some(rejection) => (Reply::Error(rejection.into()), Vec::new(), Revision::ZERO),
            None => match run_in(turn, &mut self.random, &self.hub, spec, args) {
                // No request of a pipeline waits for keys.
                Ok((ran, seen)) => (ran.reply, ran.publish, seen),
                Err(error) => (Reply::Error(Fail::Broken(error)), Vec::new(), Revision::ZERO),
            },
        };
        self.replies.push(&self.hub, self.protocol, &reply, publish);
        self.ran += 1;
        Some((spec, seen))
    }
}

impl Sequence for Part {
    fn run(&mut self, turn: &mut Turn<'_>) -> Revision {
        let began = Stopwatch::start();
        let mut last_seen = Revision::ZERO;
        while let Some((spec, seen)) = self.run_next(turn) {
            last_seen = last_seen.max(seen);
            // The clock is not read for requests that are faster than reading it.
            let is_over = !spec.flags.has(flag::FAST) && began.elapsed() >= RESP_PART_TURN;
            if is_over || self.replies.len_bytes() >= self.reply_bytes_max {
                break;
            }
        }
        last_seen
    }

    fn complete(mut self: Box<Self>, gate: Result<()>) {
        if let Err(error) = gate {
            // After a panic, the request that panicked and those behind it have no reply yet: none of them will run.
            let count = self.requests.len() - self.ran + self.replies.ends.len();
            self.replies.clear();
            self.fail(error, count);
            self.ran = self.requests.len();
        }
        // The connection may be gone.
        if let Some(reply_to) = self.reply_to.take() {
            let _ = reply_to.send(self);
        }
    }
}
