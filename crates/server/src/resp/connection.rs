//! One connection: it reads, runs what is complete, and writes what may leave, in turns.
//!
//! Touches its socket and the shard of its loop. Invariant: an answer leaves only when it is durable, and in the order of
//! the requests.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use keystead_commands::ctx::{Dialect, Publication};
use keystead_commands::errors::{self, Fail};
use keystead_commands::hub::{Kind, Message, Unblock, WaitingBytes};
use keystead_commands::session::{Replies, Session};
use keystead_commands::wire::encode;
use keystead_commands::wire::request::Bounds;
use keystead_commands::{Args, Reply, dispatch};
use keystead_core::Revision;
use keystead_engine::Local;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use super::execute::Execution;
use super::input::Input;
use super::output::Output;
use super::patience::Patience;
use super::pending::{Pending, Waiting};
use super::stranger::{self, Deadline};
use crate::app::App;
use crate::bounds::{
    DRAIN_TIMEOUT, PAUSE_LOOK, RESP_OUTPUT_PAUSE_BYTES, RESP_WAITING_INPUT_BYTES, STRANGER_INPUT_BYTES_MAX,
};
use crate::call::Caller;
use crate::call::job::Served;
use crate::call::transaction::Watched;

/// What a connection runs requests with.
pub(super) struct Worker {
    pub(super) caller: Caller,
    pub(super) session: Session,
    pub(super) watched: Option<Watched>,
}

/// A client.
pub(super) struct Connection<S> {
    stream: S,
    worker: Worker,
    input: Input,
    output: Output,
    pending: Option<Pending>,
    /// How somebody else has ended its wait.
    unblocked: Option<Unblock>,
    /// The revision that it has asked to be woken at.
    asked: Revision,
    /// The client sends nothing more.
    ended: bool,
    /// Something was written and may not have been sent.
    flushing: bool,
    patience: Patience,
    deadline: Deadline,
}

/// Why a connection ends at once.
struct Broken;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(stream: S, app: Arc<App>, local: Local, session: Session, seed: u64) -> Self {
        let output = Output::new(WaitingBytes::new(Arc::clone(&app.hub.waiting)));
        let caller = Caller::new(app, local, Dialect::Redis, seed);
        Connection {
            stream,
            worker: Worker { caller, session, watched: None },
            input: Input::default(),
            output,
            pending: None,
            unblocked: None,
            asked: Revision::ZERO,
            ended: false,
            flushing: false,
            patience: Patience::default(),
            deadline: Deadline::default(),
        }
    }

    /// The same with what the listener has read already.
    pub(super) fn with_input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Serves the client until it goes, or must.
    pub(super) async fn serve(mut self) {
        poll_fn(|cx| {
            self.worker.session.client.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
        poll_fn(|cx| self.poll(cx)).await;
        if let Some(Pending::Waiting(Waiting { shard, ticket, .. })) = self.pending.take() {
            self.end_wait(shard, ticket);
        }
        // Under TLS a farewell takes a reader; who has not read its answers will not read that.
        if self.output.is_empty() {
            let _ = timeout(DRAIN_TIMEOUT, tokio::io::AsyncWriteExt::shutdown(&mut self.stream)).await;
        }
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

    /// Does everything that can be done now, and tells whether there may be more.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        if self.worker.session.client.is_killed() || self.deadline.is_over(&self.worker.session, cx) {
            return Err(Broken);
        }
        let mut progress = self.poll_busy(cx);
        progress |= self.read(cx)?;
        let mut held = false;
        if self.pending.is_none() && self.input.len() > 0 && !self.worker.session.closing {
            match self.run_requests(cx) {
                Some(ran) => progress |= ran,
                None => held = true,
            }
            // What is left of the requests runs when the client has read more.
            held |= self.output.len() >= RESP_OUTPUT_PAUSE_BYTES;
        }
        held |= stranger::must_read(&self.worker.session, &self.output);
        // What is complete has run, so this is one request.
        if self.pending.is_none() && !held && stranger::is_too_long(&self.worker.session, &self.input) {
            return Err(Broken);
        }
        if self.pending.is_none() {
            self.input.rest();
        }
        self.take_messages(cx)?;
        self.release(cx)?;
        progress |= self.write(cx)?;
        let stopping = self.worker.caller.app.is_stopping();
        let over = self.worker.session.closing || self.ended || stopping;
        // Who waits for keys would wait beyond the end; what runs elsewhere is answered first.
        let idle = self.pending.as_ref().is_none_or(Pending::is_endless);
        if over && idle && !held && self.output.is_empty() && !self.flushing {
            return Err(Broken);
        }
        Ok(progress)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        let session = &self.worker.session;
        if self.ended || session.closing || self.worker.caller.app.is_stopping() {
            return Ok(false);
        }
        if !session.authenticated {
            if self.input.len() >= STRANGER_INPUT_BYTES_MAX || stranger::must_read(session, &self.output) {
                return Ok(false);
            }
        } else if self.pending.is_some() {
            if self.input.len() >= RESP_WAITING_INPUT_BYTES {
                return Ok(false);
            }
        } else if self.input.len() >= self.worker.caller.app.hub.config.query_bytes_max() {
            tracing::warn!(client = session.client.id, "a request over the limit: closed");
            return Err(Broken);
        }
        let mut room = ReadBuf::new(self.input.room());
        match Pin::new(&mut self.stream).poll_read(cx, &mut room) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(_)) => Err(Broken),
            Poll::Ready(Ok(())) => {
                let count = room.filled().len();
                self.input.filled(count);
                self.ended = count == 0;
                self.worker.caller.app.hub.clients.bytes_in.fetch_add(count as u64, Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    /// Runs what is complete, and tells whether there was anything. All of it is one turn of the shard, so one batch. `None`
    /// when the shard holds still.
    fn run_requests(&mut self, cx: &mut Context<'_>) -> Option<bool> {
        let Connection { worker, input, output, pending, .. } = self;
        let local = worker.caller.local.clone();
        let mut turn = local.turn(cx.waker())?;
        let bulk_bytes_max = worker.caller.app.hub.config.bulk_bytes_max();
        let client = Arc::clone(&worker.session.client);
        client.last_ms.store(turn.now().0, Ordering::Relaxed);
        let mut count = 0;
        let mut published = Vec::new();
        while !worker.session.closing
            && pending.is_none()
            && output.len() < RESP_OUTPUT_PAUSE_BYTES
            && !stranger::must_read(&worker.session, output)
        {
            let bounds = Bounds { bulk_bytes_max, trusted: worker.session.authenticated };
            let request = match input.next(bounds) {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(error) => {
                    if let Some(foreign) = error.foreign {
                        worker.note_foreign(foreign);
                    }
                    let words = format!("ERR Protocol error: {}", error.words);
                    encode(worker.session.protocol, &Reply::Error(Fail::text(words)), &mut output.bytes);
                    output.mark(Revision::ZERO, turn.durable(), Vec::new());
                    worker.session.closing = true;
                    break;
                }
            };
            let args = request.args();
            let len = request.len();
            if !args.is_empty() {
                if let Some(pause) = worker.pause(args, turn.now().0) {
                    *pending = Some(Pending::Paused(pause));
                    break;
                }
                if count == 0 {
                    client.shown().command = dispatch::resolve(args).map_or("NULL", |spec| spec.full_name);
                }
                count += 1;
                match worker.run(&mut turn, args) {
                    Execution::Reply(reply, revision, publish) if worker.session.delay_reply => {
                        let served = Served { reply, publish, in_vain: false };
                        *pending = Some(Pending::Late(worker.keep_back(served, revision)));
                    }
                    Execution::Reply(reply, revision, publish) => {
                        let left = worker.answer(output, &reply, revision, turn.durable(), publish);
                        published.extend(left);
                    }
                    Execution::Pending(later) => *pending = Some(later),
                }
            }
            input.advance(len);
        }
        drop(turn);
        worker.caller.publish(&published);
        worker.caller.app.hub.clients.commands.fetch_add(count, Ordering::Relaxed);
        Some(count > 0)
    }

    /// Looks whether what it waits for has come.
    fn poll_busy(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        if pending.poll_blocked(cx) {
            self.worker.session.client.shown().blocked = true;
        }
        if let Pending::Waiting(Waiting { shard, ticket, .. }) = *pending
            && let Some(how) = self.worker.session.client.take_unblock()
        {
            self.unblocked = Some(how);
            self.end_wait(shard, ticket);
        }
        let Some(pending) = &mut self.pending else { return false };
        let came = match pending.poll(cx, &mut self.worker) {
            Poll::Pending => return false,
            Poll::Ready(came) => came,
        };
        self.pending = None;
        let client = &self.worker.session.client;
        client.shown().blocked = false;
        // What came too late to end this wait must not end the next one.
        let unblocked = client.take_unblock().or(self.unblocked.take());
        let Some((mut served, revision)) = came else { return true };
        if served.in_vain && unblocked == Some(Unblock::Error) {
            served.reply = Reply::Error(errors::UNBLOCKED);
        }
        let durable = self.worker.caller.local.durable(Revision::ZERO, cx.waker());
        let left = self.worker.answer(&mut self.output, &served.reply, revision, durable, served.publish);
        self.worker.caller.publish(&left);
        true
    }

    /// Ends the wait of its request; the answer comes as it does when the time is up.
    fn end_wait(&self, shard: usize, ticket: u64) {
        if shard == self.worker.caller.local.index() {
            return self.worker.caller.local.end_wait(ticket);
        }
        let guest = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(async move { local.end_wait(ticket) })
        };
        let engine = self.worker.caller.app.engine.clone();
        // Where the shard has ended, so has the wait.
        tokio::task::spawn_local(async move { engine.spawn_when_free(shard, Box::new(guest)).await });
    }

    /// Appends messages from channels.
    fn take_messages(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let session = &mut self.worker.session;
        let boxes = [session.is_subscribed().then_some(&session.mailbox), session.monitor.as_ref()];
        let mut replies = Vec::new();
        for (place, mailbox) in boxes.into_iter().enumerate() {
            let Some(mailbox) = mailbox else { continue };
            let Some(messages) = mailbox.take(cx.waker()) else {
                tracing::warn!(client = session.client.id, "a subscriber is too slow: closed");
                return Err(Broken);
            };
            let form = if place == 0 { message_reply } else { monitor_reply };
            replies.extend(messages.iter().map(form));
        }
        for reply in replies {
            encode(session.protocol, &reply, &mut self.output.bytes);
            let durable = self.worker.caller.local.durable(Revision::ZERO, cx.waker());
            self.output.mark(Revision::ZERO, durable, Vec::new());
        }
        Ok(())
    }

    /// Releases answers that are durable by now.
    fn release(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        while let Some(revision) = self.output.waits_for() {
            let ask = if revision == self.asked { Revision::ZERO } else { revision };
            let durable = self.worker.caller.local.durable(ask, cx.waker());
            if durable < revision {
                self.asked = revision;
                // What was not durable when the shard broke never will be, and nobody may be told.
                return if self.worker.caller.local.poisoned().is_some() { Err(Broken) } else { Ok(()) };
            }
            let publish = self.output.release(durable);
            self.worker.caller.publish(&publish);
        }
        Ok(())
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        let mut progress = false;
        let mut flushing = self.flushing;
        let mut waiting_bytes = 0;
        while !self.output.ready().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.output.ready()) {
                Poll::Pending => {
                    waiting_bytes = self.output.len();
                    break;
                }
                Poll::Ready(Err(_) | Ok(0)) => return Err(Broken),
                Poll::Ready(Ok(count)) => {
                    self.output.wrote(count);
                    flushing = true;
                    self.worker.caller.app.hub.clients.bytes_out.fetch_add(count as u64, Ordering::Relaxed);
                    progress = true;
                }
            }
        }
        // Under TLS what was written may still wait to be sent.
        if flushing {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => flushing = false,
                Poll::Ready(Err(_)) => return Err(Broken),
                Poll::Pending => {}
            }
        }
        self.flushing = flushing;
        let session = &self.worker.session;
        let listens = session.is_subscribed() || session.monitor.is_some();
        let kind = if listens { Kind::Pubsub } else { Kind::Normal };
        if self.patience.is_over(waiting_bytes, self.worker.caller.app.hub.config.output_limit(kind), cx) {
            tracing::warn!(client = session.client.id, bytes = waiting_bytes, "a slow reader: closed");
            return Err(Broken);
        }
        Ok(progress)
    }
}

impl Worker {
    /// Appends an answer, if it is wanted, and gives back the messages that may leave at once.
    #[inline]
    fn answer(
        &mut self,
        output: &mut Output,
        reply: &Reply,
        revision: Revision,
        durable: Revision,
        publish: Vec<Publication>,
    ) -> Vec<Publication> {
        if let Reply::Error(fail) = reply {
            self.caller.app.hub.stats.failed(fail);
        }
        let wanted = match self.session.replies {
            Replies::On => true,
            Replies::Off => false,
            Replies::SkipNext => {
                self.session.replies = Replies::Skip;
                false
            }
            Replies::Skip => {
                self.session.replies = Replies::On;
                false
            }
        };
        if wanted {
            encode(self.session.protocol, reply, &mut output.bytes);
        }
        output.mark(revision, durable, publish)
    }

    /// How long a request must wait because of CLIENT PAUSE. CLIENT itself may pass, or nobody could end the pause.
    #[inline]
    fn pause(&self, args: Args<'_>, now_ms: u64) -> Option<Pin<Box<Sleep>>> {
        let clients = &self.caller.app.hub.clients;
        let until = clients.paused_until.load(Ordering::Relaxed);
        if until <= now_ms || args.name().eq_ignore_ascii_case(b"CLIENT") {
            return None;
        }
        let writes = || {
            dispatch::resolve(args).is_ok_and(|spec| spec.writes() || matches!(spec.name, "EXEC" | "PUBLISH"))
        };
        if clients.paused_writes_only.load(Ordering::Relaxed) && !writes() {
            return None;
        }
        Some(Box::pin(sleep(Duration::from_millis(until - now_ms).min(PAUSE_LOOK))))
    }
}

/// A message as its subscriber reads it.
fn message_reply(message: &Message) -> Reply {
    let Message { channel, pattern, content, sharded } = message.clone();
    Reply::Push(match pattern {
        Some(pattern) => {
            vec![Reply::bulk(b"pmessage"), Reply::Bulk(pattern), Reply::Bulk(channel), Reply::Bulk(content)]
        }
        None => {
            let kind: &[u8] = if sharded { b"smessage" } else { b"message" };
            vec![Reply::bulk(kind), Reply::Bulk(channel), Reply::Bulk(content)]
        }
    })
}

/// What MONITOR shows of a command.
fn monitor_reply(message: &Message) -> Reply {
    Reply::Status(String::from_utf8_lossy(&message.content).into_owned().into())
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        let Worker { session, caller, .. } = &mut self.worker;
        session.leave(&caller.app.hub);
        caller.app.hub.clients.remove(session.client.id);
    }
}
