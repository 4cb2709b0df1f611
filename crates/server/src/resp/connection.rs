//! One connection: reads requests, runs those that are complete, and writes the replies that may be sent.
//!
//! Touches its socket and the shard of its loop. Invariant: replies are sent in the order of the requests, and only when what they
//! depend on is durable.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use keystead_commands::ctx::Dialect;
use keystead_commands::errors::{self, Fail};
use keystead_commands::hub::{Kind, Message, Unblock, WaitingBytes};
use keystead_commands::session::Session;
use keystead_commands::wire::encode;
use keystead_commands::wire::request::Bounds;
use keystead_commands::{Reply, dispatch};
use keystead_core::{Revision, ShardId};
use keystead_engine::Local;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::execute::Execution;
use super::input::Input;
use super::output::Output;
use super::output_limit::SlowReader;
use super::pending::{Pending, Waiting};
use super::unauthenticated::{self, Deadline};
use super::worker::Worker;
use crate::app::App;
use crate::bounds::{
    DRAIN_TIMEOUT, RESP_OUTPUT_PAUSE_BYTES, RESP_WAITING_INPUT_BYTES, UNAUTHENTICATED_INPUT_BYTES_MAX,
};
use crate::call::Caller;
use crate::call::job::Served;

/// A client.
pub(super) struct Connection<S> {
    stream: S,
    worker: Worker,
    input: Input,
    output: Output,
    pending: Option<Pending>,
    /// How CLIENT UNBLOCK has ended its wait.
    unblocked: Option<Unblock>,
    /// The revision whose durability wakes this task.
    wakes_at: Revision,
    /// The client sends nothing more.
    ended: bool,
    /// Something was written and is not flushed yet.
    flushing: bool,
    slow_reader: SlowReader,
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
            wakes_at: Revision::ZERO,
            ended: false,
            flushing: false,
            slow_reader: SlowReader::default(),
            deadline: Deadline::default(),
        }
    }

    /// The same, with input that the listener has read already.
    pub(super) fn with_input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Serves the client until the connection ends.
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
        // Under TLS, shutdown sends a message; a client that has not read its replies would not read that either.
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

    /// Does everything that can be done now, and returns whether there may be more.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        if self.worker.session.client.is_killed() || self.deadline.is_over(&self.worker.session, cx) {
            return Err(Broken);
        }
        let mut progress = self.poll_pending(cx);
        progress |= self.read(cx)?;
        let mut held = false;
        if self.pending.is_none() && self.input.len() > 0 && !self.worker.session.closing {
            match self.run_requests(cx) {
                Some(ran) => progress |= ran,
                None => held = true,
            }
            // The remaining requests run when the client has read more replies.
            held |= self.output.len() >= RESP_OUTPUT_PAUSE_BYTES;
        }
        held |= unauthenticated::must_read(&self.worker.session, &self.output);
        // Complete requests have run, so this is one request.
        if self.pending.is_none() && !held && unauthenticated::is_too_long(&self.worker.session, &self.input)
        {
            return Err(Broken);
        }
        if self.pending.is_none() {
            self.input.recycle();
        }
        self.take_messages(cx)?;
        self.release(cx)?;
        progress |= self.write(cx)?;
        let stopping = self.worker.caller.app.is_stopping();
        let over = self.worker.session.closing || self.ended || stopping;
        // A wait for keys might never end; a request that runs on another shard gets its reply first.
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
            if self.input.len() >= UNAUTHENTICATED_INPUT_BYTES_MAX
                || unauthenticated::must_read(session, &self.output)
            {
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
        let mut space = ReadBuf::new(self.input.space());
        match Pin::new(&mut self.stream).poll_read(cx, &mut space) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(_)) => Err(Broken),
            Poll::Ready(Ok(())) => {
                let count = space.filled().len();
                self.input.filled(count);
                self.ended = count == 0;
                self.worker.caller.app.hub.clients.bytes_in.fetch_add(count as u64, Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    /// Runs the complete requests, and returns whether there were any. All of them are one turn of the shard, so one batch. `None`
    /// when the shard is paused.
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
            && !unauthenticated::must_read(&worker.session, output)
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
                        *pending = Some(Pending::Delayed(worker.delay(served, revision)));
                    }
                    Execution::Reply(reply, revision, publish) => {
                        let left = worker.reply(output, &reply, revision, turn.durable(), publish);
                        published.extend(left);
                    }
                    Execution::Pending(new) => *pending = Some(new),
                }
            }
            input.advance(len);
        }
        drop(turn);
        worker.caller.publish(&published);
        worker.caller.app.hub.clients.commands.fetch_add(count, Ordering::Relaxed);
        Some(count > 0)
    }

    /// Checks whether the pending request has its result.
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> bool {
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
        let result = match pending.poll(cx, &mut self.worker) {
            Poll::Pending => return false,
            Poll::Ready(result) => result,
        };
        self.pending = None;
        let client = &self.worker.session.client;
        client.shown().blocked = false;
        // An unblock that came too late for this wait must not end the next one.
        let unblocked = client.take_unblock().or(self.unblocked.take());
        let Some((mut served, revision)) = result else { return true };
        if served.in_vain && unblocked == Some(Unblock::Error) {
            served.reply = Reply::Error(errors::UNBLOCKED);
        }
        let durable = self.worker.caller.local.durable(Revision::ZERO, cx.waker());
        let left = self.worker.reply(&mut self.output, &served.reply, revision, durable, served.publish);
        self.worker.caller.publish(&left);
        true
    }

    /// Ends the wait of its request; the reply is that of a timeout.
    fn end_wait(&self, shard: ShardId, ticket: u64) {
        if shard == self.worker.caller.local.shard() {
            return self.worker.caller.local.end_wait(ticket);
        }
        let task = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(async move { local.end_wait(ticket) })
        };
        let engine = self.worker.caller.app.engine.clone();
        // If the shard has ended, so has the wait.
        tokio::task::spawn_local(async move { engine.spawn_when_free(shard, Box::new(task)).await });
    }

    /// Appends messages of channels and of MONITOR.
    fn take_messages(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        let session = &mut self.worker.session;
        let boxes = [session.is_subscribed().then_some(&session.mailbox), session.monitor.as_ref()];
        let mut replies = Vec::new();
        for (index, mailbox) in boxes.into_iter().enumerate() {
            let Some(mailbox) = mailbox else { continue };
            let Some(messages) = mailbox.take(cx.waker()) else {
                tracing::warn!(client = session.client.id, "a subscriber is too slow: closed");
                return Err(Broken);
            };
            let form = if index == 0 { message_reply } else { monitor_reply };
            replies.extend(messages.iter().map(form));
        }
        for reply in replies {
            encode(session.protocol, &reply, &mut self.output.bytes);
            let durable = self.worker.caller.local.durable(Revision::ZERO, cx.waker());
            self.output.mark(Revision::ZERO, durable, Vec::new());
        }
        Ok(())
    }

    /// Releases the replies that are durable now.
    fn release(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        while let Some(revision) = self.output.waits_for() {
            let wake_at = if revision == self.wakes_at { Revision::ZERO } else { revision };
            let durable = self.worker.caller.local.durable(wake_at, cx.waker());
            if durable < revision {
                self.wakes_at = revision;
                // What was not durable when the shard was poisoned never will be, and must not be acknowledged.
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
        let mut unsent_bytes = 0;
        while !self.output.ready().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.output.ready()) {
                Poll::Pending => {
                    unsent_bytes = self.output.len();
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
        // Under TLS, what was written may not have been sent yet.
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
        if self.slow_reader.is_over(unsent_bytes, self.worker.caller.app.hub.config.output_limit(kind), cx) {
            tracing::warn!(client = session.client.id, bytes = unsent_bytes, "a slow reader: closed");
            return Err(Broken);
        }
        Ok(progress)
    }
}

/// A message, as a subscriber receives it.
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

/// A command, as MONITOR shows it.
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
