//! One Redis client: reads its requests, sends them to their nodes, and writes the replies in their order. Touches its socket.
//!
//! Bounds: while a client has too many requests in flight, or does not read its replies, no more of it is read. What it has then is
//! at most one request and the replies to those in flight.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use keystead_commands::Reply;
use keystead_commands::bounds::REPLY_SMALL_BYTES;
use keystead_commands::errors::Fail;
use keystead_commands::hub::{Kind, WaitingBytes};
use keystead_commands::session::Session;
use keystead_commands::wire::encode;
use keystead_commands::wire::request::{Bounds, ProtocolError};
use keystead_core::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{sleep, timeout};

use super::client::Client;
use super::event_loop::Loop;
use super::link::Lane;
use super::special::{Blocked, Done, Watched};
use crate::bounds::{
    AUTH_FAILURE_DELAY, AUTH_FAILURES_MAX, DRAIN_TIMEOUT, PAUSE_CHECK_INTERVAL, RESP_OUTPUT_KEPT_BYTES,
    RESP_WAITING_INPUT_BYTES, ROUTER_CLIENT_REPLY_BYTES, ROUTER_CLIENT_REQUESTS_MAX, ROUTER_LONG_REPLY_BYTES,
    ROUTER_REQUEST_BYTES_MAX, ROUTER_SHORT_BYTES_MAX, UNAUTHENTICATED_INPUT_BYTES_MAX,
    UNAUTHENTICATED_OUTPUT_BYTES_MAX,
};
use crate::resp::input::Input;
use crate::resp::messages;
use crate::resp::output_limit::SlowReader;
use crate::resp::unauthenticated::Deadline;

/// What the next requests wait for.
pub(super) enum Busy {
    /// A request that is served apart from the others, and the number of its reply.
    Special(u64, Pin<Box<dyn Future<Output = Done>>>),
    /// The end of CLIENT PAUSE.
    Paused(Pin<Box<dyn Future<Output = ()>>>),
    /// The end of the delay after a wrong token. Until then nothing is written.
    Delayed(Pin<Box<dyn Future<Output = ()>>>),
}

/// A client.
pub(super) struct Connection<S> {
    stream: S,
    pub(super) on: Rc<Loop>,
    pub(super) session: Session,
    pub(super) client: Rc<Client>,
    pub(super) input: Input,
    pub(super) busy: Option<Busy>,
    pub(super) watched: Option<Watched>,
    /// Where a request waits that CLIENT UNBLOCK can end.
    pub(super) blocked: Blocked,
    pub(super) lane: Lane,
    /// The number of the map that the requests in flight were sent by.
    map_number: u64,
    /// Messages follow the reply to this request.
    pub(super) subscribed_at: Option<u64>,
    /// The client sends nothing more.
    ended: bool,
    flushing: bool,
    deadline: Deadline,
    slow_reader: SlowReader,
    unread: WaitingBytes,
    arriving: WaitingBytes,
}

/// Why a connection ends at once.
struct Broken;

/// What became of the next request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Ran,
    /// It is not complete, or runs later, or the connection is being closed.
    Waits,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(stream: S, on: Rc<Loop>, session: Session) -> Self {
        let unread = WaitingBytes::new(on.shared.hub.waiting.clone());
        let arriving = WaitingBytes::new(on.shared.arriving.clone());
        Connection {
            stream,
            on,
            session,
            client: Rc::default(),
            input: Input::default(),
            busy: None,
            watched: None,
            blocked: Blocked::default(),
            lane: Lane::Short,
            map_number: 0,
            subscribed_at: None,
            ended: false,
            flushing: false,
            deadline: Deadline::default(),
            slow_reader: SlowReader::default(),
            unread,
            arriving,
        }
    }

    /// Serves the client until the connection ends.
    pub(super) async fn serve(mut self) {
        poll_fn(|cx| {
            self.session.client.set_waker(cx.waker());
            self.client.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| self.poll(cx)).await;
        self.client.close();
        if self.client.bytes() == 0 {
            let _ = timeout(DRAIN_TIMEOUT, self.stream.shutdown()).await;
        }
        self.session.leave(&self.on.shared.hub);
        self.on.shared.relay.changed();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.turn(cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(Broken) => return Poll::Ready(()),
            }
        }
    }

    /// Does everything that can be done now, and returns whether there may be more.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        if self.session.client.is_killed()
            || self.client.is_closed()
            || self.deadline.is_over(&self.session, cx)
        {
            return Err(Broken);
        }
        let mut progress = self.poll_busy(cx);
        progress |= self.read(cx)?;
        let mut count = 0;
        while self.busy.is_none() && self.input.len() > 0 && self.may_run() {
            if self.run_next() == Next::Waits {
                break;
            }
            count += 1;
        }
        if count > 0 {
            self.session.client.last_ms.store(SystemClock.now().0, Ordering::Relaxed);
            self.on.shared.hub.clients.commands.fetch_add(count, Ordering::Relaxed);
            progress = true;
        }
        self.input.recycle();
        self.count_input()?;
        self.take_messages(cx)?;
        progress |= self.write(cx)?;
        let over = self.session.closing || self.ended || self.on.shared.router.is_stopping();
        let is_idle = match &self.busy {
            // A request that waits for its keys might never end.
            Some(Busy::Special(..)) => self.blocked.is_some(),
            Some(Busy::Paused(_)) => true,
            Some(Busy::Delayed(_)) => false,
            None => true,
        };
        let waits_for_reply = self.client.waiting() > usize::from(self.blocked.is_some());
        if over && is_idle && !waits_for_reply && self.client.bytes() == 0 && !self.flushing && !progress {
            return Err(Broken);
        }
        Ok(progress)
    }

    /// Whether the bounds allow one more request.
    fn may_run(&self) -> bool {
        if self.session.closing {
            return false;
        }
        let (waiting, unread) = (self.client.waiting(), self.client.bytes());
        if !self.session.authenticated && unread > UNAUTHENTICATED_OUTPUT_BYTES_MAX {
            return false;
        }
        // As many as fit, if their replies are as large as the last ones.
        let expected = waiting.saturating_mul(self.client.largest());
        waiting < ROUTER_CLIENT_REQUESTS_MAX
            && (waiting == 0 || unread.saturating_add(expected) < ROUTER_CLIENT_REPLY_BYTES)
            && unread < ROUTER_CLIENT_REPLY_BYTES
    }

    /// Whether a request may be sent to a node now: those in flight went by the same map, and none is about to be sent again. Otherwise it might
    /// overtake them.
    pub(super) fn keeps_order(&mut self) -> bool {
        let number = self.on.follow();
        let wanted = if self.client.largest() > ROUTER_LONG_REPLY_BYTES { Lane::Long } else { Lane::Short };
        if self.client.waiting() == 0 {
            (self.map_number, self.lane) = (number, wanted);
            return true;
        }
        self.map_number == number && self.lane == wanted && !self.client.is_redirected()
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        if self.ended || self.session.closing || self.on.shared.router.is_stopping() {
            return Ok(false);
        }
        let len = self.input.len();
        if !self.session.authenticated {
            if len >= UNAUTHENTICATED_INPUT_BYTES_MAX
                || self.client.bytes() > UNAUTHENTICATED_OUTPUT_BYTES_MAX
            {
                return Ok(false);
            }
        } else if (self.busy.is_some() || !self.may_run()) && len >= RESP_WAITING_INPUT_BYTES {
            return Ok(false);
        } else if len >= ROUTER_REQUEST_BYTES_MAX.min(self.on.shared.hub.config.query_bytes_max()) {
            tracing::warn!(client = self.session.client.id, "a request over the limit: closed");
            return Err(Broken);
        }
        let mut space = ReadBuf::new(self.input.space());
        match Pin::new(&mut self.stream).poll_read(cx, &mut space) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(_)) => Err(Broken),
            Poll::Ready(Ok(())) => {
                let count = space.filled().len();
                self.input.filled(count);
                self.ended = count == 0;
                if self.ended && self.blocked.is_some() {
                    // Nobody waits for the reply: the node learns that by the end of the connection.
                    return Err(Broken);
                }
                Ok(true)
            }
        }
    }

    /// Counts a large request, and closes the client if all of them are too large together.
    fn count_input(&mut self) -> Result<(), Broken> {
        let len = self.input.len();
        if !self.session.authenticated && self.busy.is_none() && len >= UNAUTHENTICATED_INPUT_BYTES_MAX {
            return Err(Broken);
        }
        self.arriving.set(if len > ROUTER_SHORT_BYTES_MAX { len } else { 0 });
        if len > RESP_WAITING_INPUT_BYTES && self.on.shared.arriving.is_over() {
            tracing::warn!(
                client = self.session.client.id,
                "too many bytes of requests are arriving: closed"
            );
            return Err(Broken);
        }
        Ok(())
    }

    /// Runs the next complete request.
    fn run_next(&mut self) -> Next {
        let bulk_bytes_max = self.on.shared.hub.config.bulk_bytes_max().min(ROUTER_REQUEST_BYTES_MAX);
        let bounds = Bounds { bulk_bytes_max, trusted: self.session.authenticated };
        // Moved out while the request borrows it.
        let mut input = std::mem::take(&mut self.input);
        let next = match input.next(bounds) {
            Ok(Some(request)) => {
                let (args, len) = (request.args(), request.len());
                let next = if args.is_empty() { Next::Ran } else { self.request(request.bytes(), args) };
                if next == Next::Ran {
                    input.advance(len);
                }
                next
            }
            Ok(None) => Next::Waits,
            Err(error) => {
                self.reject(&error);
                Next::Waits
            }
        };
        self.input = input;
        next
    }

    /// The error for what is not a request, after which the connection is closed.
    fn reject(&mut self, error: &ProtocolError) {
        if let Some(foreign) = error.foreign
            && let Some(more) = self.on.shared.notices.foreign.pass(SystemClock.now())
        {
            let client = &self.session.client.address;
            tracing::warn!(client, more, "{}: closed, nothing of it was run", foreign.words());
        }
        let fail = Fail::text(format!("ERR Protocol error: {}", error.words));
        let protocol = self.session.protocol;
        self.client.reply(|out| encode(protocol, &Reply::Error(fail), out));
        self.session.closing = true;
    }

    /// Adds the reply to a request that ran in the router.
    pub(super) fn reply(&mut self, reply: &Reply) {
        let is_wanted = self.session.wants_reply();
        let protocol = self.session.protocol;
        if is_wanted {
            self.client.reply(|out| encode(protocol, reply, out));
        }
        if self.session.delay_reply {
            self.delay();
        }
    }

    /// Delays the reply to a wrong token. After too many, the connection is closed with it.
    #[cold]
    fn delay(&mut self) {
        self.session.delay_reply = false;
        self.session.closing |= self.session.auth_failures >= AUTH_FAILURES_MAX;
        if let Some(more) = self.on.shared.notices.wrong_token.pass(SystemClock.now()) {
            tracing::warn!(client = self.session.client.address, more, "a Redis client sent a wrong token");
        }
        self.busy = Some(Busy::Delayed(Box::pin(sleep(AUTH_FAILURE_DELAY))));
    }

    /// Lets the requests wait because of CLIENT PAUSE.
    pub(super) fn pause(&mut self, until_ms: u64) {
        let left = Duration::from_millis(until_ms.saturating_sub(SystemClock.now().0));
        self.busy = Some(Busy::Paused(Box::pin(sleep(left.min(PAUSE_CHECK_INTERVAL)))));
    }

    fn poll_busy(&mut self, cx: &mut Context<'_>) -> bool {
        if self.blocked.is_some()
            && let Some(how) = self.session.client.take_unblock()
        {
            self.unblock(how);
        }
        let number = match &mut self.busy {
            None => return false,
            Some(Busy::Paused(paused) | Busy::Delayed(paused)) => {
                if paused.as_mut().poll(cx).is_pending() {
                    return false;
                }
                self.busy = None;
                return true;
            }
            Some(Busy::Special(number, special)) => match special.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(done) => {
                    self.client.fill(*number, 0, &done.frame);
                    self.watched = done.watched;
                    *number
                }
            },
        };
        tracing::trace!(number, "a special request has its reply");
        self.busy = None;
        if self.blocked.take().is_some() {
            self.session.client.shown().blocked = false;
            // One that came too late must not end the next wait.
            let _ = self.session.client.take_unblock();
        }
        true
    }

    /// Appends messages of channels and of MONITOR.
    fn take_messages(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let is_confirmed = self.subscribed_at.is_none_or(|at| self.client.first() > at);
        if !is_confirmed || self.client.is_streaming() {
            return Ok(());
        }
        let Some(replies) = messages::take(&mut self.session, &self.on.shared.hub, cx) else {
            tracing::warn!(client = self.session.client.id, "a subscriber is too slow: closed");
            return Err(Broken);
        };
        let protocol = self.session.protocol;
        for reply in replies {
            self.client.append(|out| encode(protocol, &reply, out));
        }
        Ok(())
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        if matches!(self.busy, Some(Busy::Delayed(_))) {
            return Ok(false);
        }
        let mut out = Vec::new();
        let mut written = self.client.take_out(&mut out);
        let (mut progress, mut is_broken) = (false, false);
        while written < out.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &out[written..]) {
                Poll::Pending => break,
                Poll::Ready(Err(_) | Ok(0)) => {
                    is_broken = true;
                    break;
                }
                Poll::Ready(Ok(count)) => {
                    written += count;
                    (progress, self.flushing) = (true, true);
                }
            }
        }
        self.client.give_back(out, written, RESP_OUTPUT_KEPT_BYTES);
        if is_broken {
            return Err(Broken);
        }
        // Under TLS, what was written may not have been sent yet.
        if self.flushing {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.flushing = false,
                Poll::Ready(Err(_)) => return Err(Broken),
                Poll::Pending => {}
            }
        }
        let unread = self.client.bytes();
        self.unread.set(unread);
        let listens = self.session.is_subscribed() || self.session.monitor.is_some();
        let kind = if listens { Kind::Pubsub } else { Kind::Normal };
        let is_too_slow = self.slow_reader.is_over(unread, self.on.shared.hub.config.output_limit(kind), cx);
        if is_too_slow || unread > REPLY_SMALL_BYTES && self.on.shared.hub.waiting.is_over() {
            tracing::warn!(client = self.session.client.id, bytes = unread, "a slow reader: closed");
            return Err(Broken);
        }
        Ok(progress)
    }
}
