//! A connection to a node that the requests of many clients share: one write for all that have come, and the replies in their order.
//! Opens sockets.
//!
//! Invariants: a request is sent again only if none of its bytes was sent, or the node rejected it; the replies to what was sent are
//! those to the requests at the front of the queue; bytes and requests of the queue are bounded, and clients wait when it is full.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use keystead_commands::session::Protocol;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::{Interval, interval, sleep, timeout};

use super::client::Client;
use super::dial::dial;
use super::doubt::{Doubt, Doubts};
use super::event_loop::{Loop, Resent};
use super::inbox::Inbox;
use crate::bounds::{
    ROUTER_BUFFER_KEPT_BYTES, ROUTER_LINK_BYTES_MAX, ROUTER_LINK_REQUESTS_MAX, ROUTER_RECONNECT_PAUSE,
    ROUTER_RESPONSE_TIMEOUT, ROUTER_STREAM_BYTES, ROUTER_TICK,
};
use crate::router::node::Node;
use crate::router::redirect::Redirect;

/// Which requests share a connection: those of clients with large replies have one of their own, so that others do not wait behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lane {
    #[default]
    Short,
    Long,
}

/// Where a request must run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// On the owner of this slot.
    Slot(u16),
    /// On the node that it was sent to.
    Here,
}

/// A request that was queued.
pub(super) struct Entry {
    /// Who gets the reply; nobody, if it only matters to the router.
    pub(super) client: Option<Rc<Client>>,
    /// The number of the request, and of its part.
    pub(super) number: u64,
    pub(super) part: u32,
    pub(super) target: Target,
    /// Replies that are to come. The last one is the client's; those before it are of a transaction that is queued.
    pub(super) frames: u32,
    /// How many there are in all.
    pub(super) frames_all: u32,
    /// Whether it may change something.
    pub(super) has_effect: bool,
    /// How often it was sent again.
    pub(super) attempts: u32,
    /// When it came, in ticks of the loop.
    pub(super) began: u32,
    /// The bytes of the request.
    pub(super) bytes: usize,
    /// What a reply before the last one said.
    pub(super) redirect: Option<Box<Redirect>>,
    /// Set when it was sent again.
    pub(super) resent: Option<Resent>,
}

impl Entry {
    /// Brings the reply.
    pub(super) fn fill(&self, frame: &[u8]) {
        if let Some(client) = &self.client {
            client.fill(self.number, self.part, frame);
        }
    }

    /// Brings an error.
    pub(super) fn fail(&self, why: &str) {
        self.fill(format!("-ERR {}\r\n", super::one_line(why)).as_bytes());
    }
}

enum Status {
    /// There is a connection, or there will be one.
    Usable,
    /// There is none. Requests get this error at once.
    Down(Rc<str>),
}

struct Queue {
    status: Status,
    entries: VecDeque<Entry>,
    /// The requests of the entries.
    bytes: Vec<u8>,
    /// Where the request of the first entry begins.
    front: usize,
    /// Up to where they were sent.
    sent: usize,
    waker: Option<Waker>,
    /// Clients that wait for room.
    waiting: Vec<Rc<Client>>,
    doubts: Doubts,
}

/// The connection of one node, version and lane.
pub(super) struct Link {
    pub(super) node: Arc<Node>,
    pub(super) protocol: Protocol,
    pub(super) lane: Lane,
    queue: RefCell<Queue>,
    /// The node is not in the map any more.
    is_retired: Cell<bool>,
    /// Requests since they were counted the last time.
    uncounted: Cell<u64>,
}

/// What a task knows of its connection.
struct Connected {
    stream: TcpStream,
    inbox: Inbox,
    /// A part of the first reply was passed on.
    is_streaming: bool,
    tick: Interval,
}

impl Link {
    /// A link whose task runs on the present thread.
    pub(super) fn start(on: &Rc<Loop>, node: &Arc<Node>, protocol: Protocol, lane: Lane) -> Rc<Link> {
        let queue = Queue {
            status: Status::Usable,
            entries: VecDeque::new(),
            bytes: Vec::new(),
            front: 0,
            sent: 0,
            waker: None,
            waiting: Vec::new(),
            doubts: Doubts::default(),
        };
        let link = Rc::new(Link {
            node: Arc::clone(node),
            protocol,
            lane,
            queue: RefCell::new(queue),
            is_retired: Cell::new(false),
            uncounted: Cell::new(0),
        });
        tokio::task::spawn_local(run(Rc::clone(&link), Rc::clone(on)));
        link
    }

    /// Whether clients must wait before they send more.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        let queue = self.queue.borrow();
        queue.entries.len() >= ROUTER_LINK_REQUESTS_MAX
            || queue.bytes.len() - queue.front >= ROUTER_LINK_BYTES_MAX
    }

    /// Wakes the client when there is room.
    pub(super) fn wait(&self, client: &Rc<Client>) {
        let waiting = &mut self.queue.borrow_mut().waiting;
        if !waiting.iter().any(|other| Rc::ptr_eq(other, client)) {
            waiting.push(Rc::clone(client));
        }
    }

    /// Queues a request, or brings its error at once.
    #[inline]
    pub(super) fn push(&self, request: &[u8], mut entry: Entry) {
        entry.bytes = request.len();
        self.uncounted.set(self.uncounted.get() + 1);
        let mut queue = self.queue.borrow_mut();
        if let Status::Down(why) = &queue.status {
            let why = Rc::clone(why);
            drop(queue);
            return entry.fail(&why);
        }
        queue.bytes.extend_from_slice(request);
        queue.entries.push_back(entry);
        if queue.entries.len() == 1 || queue.sent + request.len() == queue.bytes.len() {
            // Nothing was waiting to be sent, so the task may be asleep.
            if let Some(waker) = &queue.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Ends the task when the last reply has come.
    pub(super) fn retire(&self) {
        self.is_retired.set(true);
        if let Some(waker) = &self.queue.borrow().waker {
            waker.wake_by_ref();
        }
    }

    /// Whether a later request of the client for the same slot was sent here.
    fn is_followed(&self, entry: &Entry) -> bool {
        let Some(client) = &entry.client else { return false };
        let is_later = |other: &Entry| {
            other.target == entry.target
                && other.client.as_ref().is_some_and(|other| Rc::ptr_eq(other, client))
        };
        self.queue.borrow().entries.iter().any(is_later)
    }

    /// Brings an error to all requests that were sent, or to all.
    fn fail(&self, why: &str, also_unsent: bool) {
        let mut failed = Vec::new();
        {
            let queue = &mut *self.queue.borrow_mut();
            while let Some(entry) = queue.entries.front() {
                let was_sent = queue.front < queue.sent;
                if !was_sent && !also_unsent {
                    break;
                }
                queue.front += entry.bytes;
                failed.extend(queue.entries.pop_front().map(|entry| (entry, was_sent)));
            }
            // A request of which a part was sent is one that was sent.
            queue.sent = queue.front;
            queue.trim();
        }
        let doubts = self.queue.borrow_mut().doubts.take();
        doubts.into_iter().for_each(Doubt::end);
        for (entry, was_sent) in failed {
            if let Some(client) = &entry.client {
                client.break_off(entry.number);
            }
            match was_sent && entry.has_effect {
                true => entry.fail(&format!("{why}: it is unknown whether the command was applied")),
                false => entry.fail(why),
            }
        }
        self.wake_waiting();
    }

    /// Lets requests that were never sent find their owner by the next map, one time; the others get their error.
    fn send_elsewhere(&self, why: &str, on: &Rc<Loop>) {
        if !on.is_cluster() {
            return self.fail(why, true);
        }
        let mut unsent = Vec::new();
        {
            let queue = &mut *self.queue.borrow_mut();
            // The sent ones have their errors already.
            while let Some(entry) = queue.entries.pop_front() {
                let end = queue.front + entry.bytes;
                unsent.push((queue.bytes[queue.front..end].to_vec(), entry));
                queue.front = end;
            }
            queue.sent = queue.front;
            queue.trim();
        }
        let line = format!("-ERR {}\r\n", super::one_line(why));
        for (request, entry) in unsent {
            match entry.attempts {
                0 if entry.target != Target::Here => {
                    on.redirect(self, entry, request, Redirect::Again, line.as_bytes());
                }
                _ => entry.fail(why),
            }
        }
        self.wake_waiting();
    }

    fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut self.queue.borrow_mut().waiting);
        waiting.iter().for_each(|client| client.wake());
    }

    fn count(&self, on: &Loop) {
        let count = self.uncounted.take();
        if count > 0 {
            on.shared.router.metrics.record_commands(&self.node, count);
        }
    }

    /// Sends what is to be sent.
    fn poll_write(&self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Result<(), String> {
        let queue = &mut *self.queue.borrow_mut();
        while queue.sent < queue.bytes.len() {
            match Pin::new(&mut *stream).poll_write(cx, &queue.bytes[queue.sent..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err("it closed the connection".to_owned()),
                Poll::Ready(Ok(count)) => queue.sent += count,
                Poll::Ready(Err(error)) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Passes on the replies that have come.
    fn deliver(&self, connected: &mut Connected, on: &Rc<Loop>) -> Result<(), String> {
        loop {
            match connected.inbox.next() {
                Err(_) => return Err("it sent what is no reply".to_owned()),
                Ok(None) => break,
                Ok(Some(len)) => {
                    self.take(connected.inbox.front(len), std::mem::take(&mut connected.is_streaming), on)?;
                    connected.inbox.advance(len);
                }
            }
        }
        let begun = connected.inbox.begun();
        if begun.len() >= ROUTER_STREAM_BYTES {
            let queue = self.queue.borrow();
            let first = queue.entries.front().filter(|entry| entry.frames == 1);
            if let Some((client, number)) =
                first.and_then(|entry| entry.client.as_ref().map(|client| (client, entry.number)))
                && client.stream(number, begun)
            {
                let len = begun.len();
                drop(queue);
                connected.inbox.passed(len);
                connected.is_streaming = true;
            }
        }
        Ok(())
    }

    /// Takes one reply, or the end of one.
    #[inline]
    fn take(&self, frame: &[u8], is_end: bool, on: &Rc<Loop>) -> Result<(), String> {
        let mut queue = self.queue.borrow_mut();
        let Some(entry) = queue.entries.front_mut() else {
            return Err("it sent a reply without a request".to_owned());
        };
        let redirect = if frame[0] == b'-' && !is_end { on.redirect_of(frame) } else { None };
        entry.frames -= 1;
        if entry.frames > 0 {
            if let Some(redirect) = redirect {
                entry.redirect = Some(Box::new(redirect));
            }
            return Ok(());
        }
        let redirect = redirect.or_else(|| entry.redirect.take().map(|redirect| *redirect));
        let Some(entry) = queue.entries.pop_front() else { return Ok(()) };
        let request = queue.front..queue.front + entry.bytes;
        let again = redirect.map(|redirect| (redirect, queue.bytes[request.clone()].to_vec()));
        queue.front = request.end;
        queue.trim();
        let doubts = queue.doubts.before(&entry);
        drop(queue);
        match again {
            // A later request may run all the same, which this one must not follow: its reply decides.
            Some((Redirect::Again, request)) if self.is_followed(&entry) => {
                let mut queue = self.queue.borrow_mut();
                queue.doubts.put(doubts);
                queue.doubts.put([Doubt::begin(entry, request, frame)]);
            }
            Some((redirect, request)) => {
                doubts.into_iter().for_each(|doubt| doubt.send_again(self, on));
                on.redirect(self, entry, request, redirect, frame);
            }
            None => {
                doubts.into_iter().for_each(Doubt::end);
                entry.fill(frame);
            }
        }
        Ok(())
    }

    /// Serves the queue until the connection ends, and returns why.
    fn poll(&self, connected: &mut Connected, on: &Rc<Loop>, cx: &mut Context<'_>) -> Poll<Option<String>> {
        {
            let mut queue = self.queue.borrow_mut();
            if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                queue.waker = Some(cx.waker().clone());
            }
        }
        loop {
            if let Err(why) = self.poll_write(&mut connected.stream, cx) {
                return Poll::Ready(Some(why));
            }
            match connected.inbox.poll_read(&mut connected.stream, cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Poll::Ready(Some("it closed the connection".to_owned())),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(error.to_string())),
                Poll::Ready(Ok(_)) => {}
            }
            if let Err(why) = self.deliver(connected, on) {
                return Poll::Ready(Some(why));
            }
            if !self.queue.borrow().waiting.is_empty() && !self.is_full() {
                self.wake_waiting();
            }
        }
        while connected.tick.poll_tick(cx).is_ready() {
            self.count(on);
            let oldest = self.queue.borrow().entries.front().map(|entry| entry.began);
            let most = ROUTER_RESPONSE_TIMEOUT.as_secs() as u32;
            if oldest.is_some_and(|began| on.tick().saturating_sub(began) > most) {
                let why = format!("it did not reply within {ROUTER_RESPONSE_TIMEOUT:?}");
                return Poll::Ready(Some(why));
            }
        }
        let is_over = self.is_retired.get() && self.queue.borrow().entries.is_empty();
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Waits for a request, and returns whether there is one: the node may have left.
    async fn requested(&self) -> bool {
        poll_fn(|cx| {
            let mut queue = self.queue.borrow_mut();
            queue.waker = Some(cx.waker().clone());
            match (queue.entries.is_empty(), self.is_retired.get()) {
                (false, _) => Poll::Ready(true),
                (true, true) => Poll::Ready(false),
                (true, false) => Poll::Pending,
            }
        })
        .await
    }
}

impl Queue {
    /// Frees the bytes of requests that have their replies.
    fn trim(&mut self) {
        if self.front == self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > ROUTER_BUFFER_KEPT_BYTES {
                self.bytes = Vec::new();
            }
            (self.front, self.sent) = (0, 0);
        } else if self.front > ROUTER_BUFFER_KEPT_BYTES && self.front > self.bytes.len() / 2 {
            self.bytes.drain(..self.front);
            self.sent -= self.front;
            self.front = 0;
        }
    }
}

/// Connects when there are requests, and again when the connection was lost.
async fn run(link: Rc<Link>, on: Rc<Loop>) {
    let gauge = &on.shared.router.metrics.resp_node_connections;
    while link.requested().await {
        let dialled = dial(&link.node, link.protocol, on.shared.router.settings.token.as_ref()).await;
        let dialled = match dialled {
            Ok(dialled) => dialled,
            Err(why) => {
                link.queue.borrow_mut().status = Status::Down(why.as_str().into());
                on.shared.router.metrics.record_down(&link.node);
                // It may have left the cluster.
                on.shared.router.maps.want_next();
                link.send_elsewhere(&why, &on);
                link.count(&on);
                let Some(dialled) = dial_again(&link, &on).await else { return };
                dialled
            }
        };
        link.queue.borrow_mut().status = Status::Usable;
        gauge.inc();
        let mut connected = Connected {
            stream: dialled.stream,
            inbox: Inbox::default(),
            is_streaming: false,
            tick: interval(ROUTER_TICK),
        };
        let ended = poll_fn(|cx| link.poll(&mut connected, &on, cx)).await;
        gauge.dec();
        link.count(&on);
        let Some(why) = ended else { return };
        tracing::debug!(node = %link.node.id, why, "a connection to a node has ended");
        // What was not sent goes to the next connection.
        link.fail(&format!("the connection to {} was lost ({why})", link.node.shown_resp()), false);
    }
}

/// Tries to connect until that works, while requests get their error at once. Nothing: the node has left.
async fn dial_again(link: &Link, on: &Loop) -> Option<super::dial::Dialled> {
    loop {
        // Woken early when the node leaves.
        let left = poll_fn(|cx| {
            link.queue.borrow_mut().waker = Some(cx.waker().clone());
            if link.is_retired.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        if timeout(ROUTER_RECONNECT_PAUSE, left).await.is_ok() {
            return None;
        }
        match dial(&link.node, link.protocol, on.shared.router.settings.token.as_ref()).await {
            Ok(dialled) => return Some(dialled),
            Err(why) => link.queue.borrow_mut().status = Status::Down(why.as_str().into()),
        }
        link.count(on);
        // A node that refuses at once is not asked all the time.
        sleep(ROUTER_RECONNECT_PAUSE).await;
    }
}
