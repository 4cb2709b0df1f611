//! One connection: reads requests, runs those that are complete, and writes the replies that may be sent.
//!
//! Touches its socket and the shard of its loop. Invariant: replies are sent in the order of the requests, and only when what they
//! depend on is durable.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use keystead_commands::Reply;
use keystead_commands::bounds::REPLY_SMALL_BYTES;
use keystead_commands::ctx::{Dialect, Publication};
use keystead_commands::errors;
use keystead_commands::hub::{Kind, Unblock, WaitingBytes};
use keystead_commands::session::Session;
use keystead_commands::wire::encode;
use keystead_commands::wire::request::Bounds;
use keystead_core::table::PREFETCH_MAX;
use keystead_core::{Revision, ShardId};
use keystead_engine::{Local, Turn};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::execute::Execution;
use super::input::Input;
use super::messages;
use super::output::Output;
use super::output_limit::SlowReader;
use super::pending::{Pending, Waiting};
use super::pipeline::Pipeline;
use super::unauthenticated::{self, Deadline};
use super::worker::Worker;
use crate::app::App;
use crate::bounds::{
    DRAIN_TIMEOUT, RESP_OUTPUT_KEPT_BYTES, RESP_OUTPUT_PAUSE_BYTES, RESP_OUTPUT_SHORT_BYTES,
    RESP_WAITING_INPUT_BYTES, UNAUTHENTICATED_INPUT_BYTES_MAX,
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
    pipeline: Pipeline,
    /// How CLIENT UNBLOCK has ended its wait.
    unblocked: Option<Unblock>,
    /// The revision whose durability wakes this task.
    wakes_at: Revision,
    /// The client sends nothing more.
    ended: bool,
    /// Something was written and is not flushed yet.
    flushing: bool,
    /// A short reply is written when the other connections that are ready have run their requests.
    writes_last: bool,
    slow_reader: SlowReader,
    deadline: Deadline,
}

/// Why a connection ends at once.
struct Broken;

/// What became of the next request.
enum Next {
    /// It ran, or runs on another shard.
    Ran,
    /// It was empty.
    Skipped,
    /// It is not complete, or runs later, or the connection is being closed.
    Waits,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(stream: S, app: Arc<App>, local: Local, session: Session, seed: u64) -> Self {
        let output = Output::new(WaitingBytes::new(Arc::clone(&app.hub.waiting)));
        let pipeline = Pipeline::new(&app.hub);
        let caller = Caller::new(app, local, Dialect::Redis, seed);
        Connection {
            stream,
            worker: Worker { caller, session, watched: None, has_parked: false },
            input: Input::default(),
            output,
            pending: None,
            pipeline,
            unblocked: None,
            wakes_at: Revision::ZERO,
            ended: false,
            flushing: false,
            writes_last: false,
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
        let (mut held, mut ran) = (false, false);
        if self.pending.is_none() && self.input.len() > 0 && !self.worker.session.closing {
            match self.run_requests(cx) {
                Some(any) => ran = any,
                None => held = true,
            }
            progress |= ran;
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
        if self.defers_write(ran, cx) {
            return Ok(false);
        }
        if !self.writes_later() {
            progress |= self.write(cx)?;
        }
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
        let local = self.worker.caller.local.clone();
        let mut turn = local.turn(cx.waker())?;
        let client = Arc::clone(&self.worker.session.client);
        client.last_ms.store(turn.now().0, Ordering::Relaxed);
        let mut count = 0;
        let mut published = Vec::new();
        while !self.worker.session.closing
            && self.pending.is_none()
            && !self.pipeline.is_full(&self.output)
            && !unauthenticated::must_read(&self.worker.session, &self.output)
        {
            match self.run_next(&mut turn, count == 0, &mut published) {
                Next::Ran => {
                    // Not for a request that is alone.
                    if count % PREFETCH_MAX as u64 == 0 {
                        prefetch(&turn, &self.input);
                    }
                    count += 1;
                }
                Next::Skipped => {}
                Next::Waits => break,
            }
        }
        drop(turn);
        self.worker.caller.publish(&published);
        self.worker.caller.app.hub.clients.commands.fetch_add(count, Ordering::Relaxed);
        if self.pipeline.is_open() {
            self.pipeline.send(&self.worker.caller);
            self.pending = Some(Pending::Pipeline);
        }
        Some(count > 0)
    }

    /// Runs the next complete request. `shows` whether the list of clients shows it.
    #[inline]
    fn run_next(&mut self, turn: &mut Turn<'_>, shows: bool, published: &mut Vec<Publication>) -> Next {
        let Connection { worker, input, output, pending, pipeline, .. } = self;
        let bulk_bytes_max = worker.caller.app.hub.config.bulk_bytes_max();
        let bounds = Bounds { bulk_bytes_max, trusted: worker.session.authenticated };
        let request = match input.next(bounds) {
            Ok(Some(request)) => request,
            Ok(None) => return Next::Waits,
            // It is reported after the replies to the requests before it.
            Err(_) if pipeline.is_open() => return Next::Waits,
            Err(error) => {
                worker.reject(output, turn.durable(), &error);
                return Next::Waits;
            }
        };
        let (args, len) = (request.args(), request.len());
        if args.is_empty() {
            input.advance(len);
            return Next::Skipped;
        }
        let resolved = worker.resolve(args);
        if pipeline.is_open() && !resolved.may_overtake() {
            return Next::Waits;
        }
        // A transaction that was rejected has ended, so it cannot wait then.
        let may_wait = !worker.has_parked && worker.session.multi.is_none();
        let parked = worker.park(resolved.spec.as_ref().ok().copied(), args);
        if let Some(pause) = parked.or_else(|| worker.pause(args, turn.now().0)) {
            match pipeline.is_open() {
                // What was sent to other shards is waited for first. Then the request is here again, and has not waited yet.
                true => worker.has_parked = false,
                false => *pending = Some(Pending::Paused(pause)),
            }
            return Next::Waits;
        }
        if shows {
            worker.session.client.shown().command =
                resolved.spec.as_ref().map_or("NULL", |spec| spec.full_name);
        }
        match worker.run(turn, resolved, args) {
            // Of what a script has done it might be the reply, too; nothing of a rejected request has run.
            Execution::Reply(Reply::Error(fail), Revision::ZERO, publish)
                if may_wait
                    && publish.is_empty()
                    && fail.line() == errors::SLOT_MOVING.line()
                    && worker.caller.app.hub.cluster.get().is_some() =>
            {
                if !pipeline.is_open() {
                    *pending = worker.park_rejected(args).map(Pending::Paused);
                }
                return Next::Waits;
            }
            Execution::Reply(reply, revision, publish) if pipeline.is_open() => {
                pipeline.push_local(worker, &reply, revision, publish);
            }
            Execution::Reply(reply, revision, publish) if worker.session.delay_reply => {
                let served = Served { reply, publish, in_vain: false };
                *pending = Some(Pending::Delayed(worker.delay(served, revision)));
            }
            Execution::Reply(reply, revision, publish) => {
                published.extend(worker.reply(output, &reply, revision, turn.durable(), publish));
            }
            Execution::Remote(shard, spec) => {
                pipeline.push(&mut worker.caller, worker.session.protocol, shard, spec, args);
            }
            Execution::Pending(new) => *pending = Some(new),
        }
        input.advance(len);
        Next::Ran
    }

    /// Appends the replies of the pipeline when all shards have run their parts.
    fn poll_pipeline(&mut self, cx: &mut Context<'_>) -> bool {
        let Connection { worker, output, pipeline, .. } = self;
        let mut progress = false;
        while pipeline.poll_back(&worker.caller, &worker.session, cx).is_ready() {
            let durable = worker.caller.local.durable(Revision::ZERO, cx.waker());
            let before = output.len();
            if pipeline.reply(worker, output, durable) {
                self.pending = None;
                return true;
            }
            progress |= output.len() > before;
            // The remaining requests run when the client has read more replies.
            if output.len() >= RESP_OUTPUT_PAUSE_BYTES {
                break;
            }
            pipeline.send(&worker.caller);
        }
        progress
    }

    /// Checks whether the pending request has its result.
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        if let Pending::Pipeline = pending {
            return self.poll_pipeline(cx);
        }
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
        let Some(replies) = messages::take(session, &self.worker.caller.app.hub, cx) else {
            tracing::warn!(client = session.client.id, "a subscriber is too slow: closed");
            return Err(Broken);
        };
        // One slow subscriber has a limit of its own. Many of them share that of all replies, and then the slow ones are closed.
        if !replies.is_empty()
            && self.output.len() > REPLY_SMALL_BYTES
            && self.worker.caller.app.hub.waiting.is_over()
        {
            tracing::warn!(client = session.client.id, "too many bytes wait for slow subscribers: closed");
            return Err(Broken);
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

    /// Whether the first replies of a pipeline are written with those that other shards make: a write costs more than a request.
    fn writes_later(&self) -> bool {
        matches!(self.pending, Some(Pending::Pipeline))
            && !self.pipeline.has_replied()
            && self.output.len() <= RESP_OUTPUT_KEPT_BYTES
    }

    /// Lets the other connections that are ready run their requests before a short reply is written. Replies that are written in a row wake
    /// a client once that has several connections; otherwise it would wake, and sleep again, for each. Long replies are better
    /// read while the next requests run.
    fn defers_write(&mut self, ran: bool, cx: &Context<'_>) -> bool {
        let ready = self.output.ready().len();
        self.writes_last = ran && !self.writes_last && ready > 0 && ready <= RESP_OUTPUT_SHORT_BYTES;
        if self.writes_last {
            cx.waker().wake_by_ref();
        }
        self.writes_last
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

/// Reads what the next requests of a pipeline will read, at the same time for all of them.
#[inline]
fn prefetch(turn: &Turn<'_>, input: &Input) {
    let (keys, len) = input.keys_ahead();
    if len > 1 {
        turn.prefetch(keys[..len].iter().copied());
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        let Worker { session, caller, .. } = &mut self.worker;
        session.leave(&caller.app.hub);
        caller.app.hub.clients.remove(session.client.id);
    }
}
