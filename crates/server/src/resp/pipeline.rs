//! Requests of a connection that are split by shard: each shard runs its part in order, and the replies are put together in the
//! order of the requests. Touches the queues of other shards.
//!
//! Only requests whose keys are on one shard are split, so all requests on a key are in one part and stay in order. Any other request
//! waits until those before it have their replies: a message that is published after a write announces a write that is there.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use keystead_commands::ctx::Publication;
use keystead_commands::hub::Hub;
use keystead_commands::session::{Protocol, Session};
use keystead_commands::{Args, Reply, Spec};
use keystead_core::{Error, Revision, ShardId};
use tokio::sync::oneshot;

use super::output::Output;
use super::worker::{Paused, Worker, until_served};
use crate::bounds::{RESP_OUTPUT_PAUSE_BYTES, RESP_PIPELINE_BYTES_MAX, RESP_PIPELINE_REQUESTS_MAX};
use crate::call::part::{Part, Replies};
use crate::call::{Caller, ended};

/// Where a request of the pipeline runs.
#[derive(Clone, Copy)]
enum RunsOn {
    /// On the shard of the connection's loop.
    Local,
    /// On the shard of the part with this index.
    Part(u16),
}

/// The part of another shard.
struct Remote {
    shard: ShardId,
    /// While it is here: before it is sent, and after it came back.
    part: Option<Box<Part>>,
    /// While it is there.
    back: Option<oneshot::Receiver<Box<Part>>>,
    /// What it must wait for before it is sent again: a slot that is being handed over.
    parked: Option<Paused>,
    /// Requests that were sent with it.
    sent: usize,
}

/// Requests whose replies are put together. It is open from the first request for another shard until all have their replies.
pub(super) struct Pipeline {
    runs_on: Vec<RunsOn>,
    /// How many replies are in the output.
    replied: usize,
    remotes: Vec<Remote>,
    /// Replies of requests on this shard that are behind one for another shard.
    local: Replies,
    /// The revision that the local replies depend on.
    local_seen: Revision,
    request_bytes: usize,
}

impl Pipeline {
    pub(super) fn new(hub: &Hub) -> Self {
        Pipeline {
            runs_on: Vec::new(),
            replied: 0,
            remotes: Vec::new(),
            local: Replies::new(hub),
            local_seen: Revision::ZERO,
            request_bytes: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.runs_on.is_empty()
    }

    /// Whether some of its replies are in the output, and others are not.
    pub(super) fn has_replied(&self) -> bool {
        self.replied > 0
    }

    /// Whether the next request must wait until these have their replies.
    pub(super) fn is_full(&self, output: &Output) -> bool {
        self.runs_on.len() >= RESP_PIPELINE_REQUESTS_MAX
            || self.request_bytes >= RESP_PIPELINE_BYTES_MAX
            || output.len() + self.local.len_bytes() >= RESP_OUTPUT_PAUSE_BYTES
    }

    /// Adds the reply of a request that ran on this shard.
    pub(super) fn push_local(
        &mut self,
        worker: &Worker,
        reply: &Reply,
        seen: Revision,
        publish: Vec<Publication>,
    ) {
        self.local.push(&worker.caller.app.hub, worker.session.protocol, reply, publish);
        self.local_seen = self.local_seen.max(seen);
        self.runs_on.push(RunsOn::Local);
    }

    /// Adds a request for another shard.
    pub(super) fn push(
        &mut self,
        caller: &mut Caller,
        protocol: Protocol,
        shard: ShardId,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        let known = self.remotes.iter().position(|remote| remote.shard == shard);
        let index = known.unwrap_or_else(|| {
            let reply_bytes_max = RESP_OUTPUT_PAUSE_BYTES / caller.shards;
            let part = Part::new(&caller.app.hub, caller.random.next(), protocol, reply_bytes_max);
            self.remotes.push(Remote { shard, part: Some(part), back: None, parked: None, sent: 0 });
            self.remotes.len() - 1
        });
        if let Some(part) = &mut self.remotes[index].part {
            part.push(spec, args);
        }
        self.request_bytes += args.from(0).map(<[u8]>::len).sum::<usize>();
        // There are at most 256 shards.
        self.runs_on.push(RunsOn::Part(index as u16));
    }

    /// Sends each shard its part. One with replies that wait for those of other shards is sent later, so that they do not pile up.
    pub(super) fn send(&mut self, caller: &Caller) {
        for remote in &mut self.remotes {
            if let Some(part) = remote.part.take_if(|part| part.left() > 0 && part.replies.all_taken()) {
                remote.send(caller, part);
            }
        }
    }

    /// Waits until every part that was sent is back, and does not wait for a slot.
    pub(super) fn poll_back(&mut self, caller: &Caller, session: &Session, cx: &mut Context<'_>) -> Poll<()> {
        for remote in &mut self.remotes {
            if let Some(back) = &mut remote.back {
                let Poll::Ready(part) = Pin::new(back).poll(cx) else { return Poll::Pending };
                remote.back = None;
                let mut part =
                    part.unwrap_or_else(|_| failed(caller, session.protocol, ended(), remote.sent));
                remote.parked = part.take_parked().map(|slot| until_served(&caller.app, vec![slot]));
                remote.part = Some(part);
            }
            if let Some(parked) = &mut remote.parked {
                ready!(parked.as_mut().poll(cx));
                remote.parked = None;
            }
        }
        Poll::Ready(())
    }

    /// Appends the replies that are there to the output, up to the first that is missing. Returns whether none is missing.
    pub(super) fn reply(&mut self, worker: &mut Worker, output: &mut Output, durable: Revision) -> bool {
        let mut publish = Vec::new();
        while let Some(runs_on) = self.runs_on.get(self.replied) {
            let replies = match runs_on {
                RunsOn::Local => Some(&mut self.local),
                RunsOn::Part(n) => self.remotes[usize::from(*n)].part.as_mut().map(|part| &mut part.replies),
            };
            let Some(reply) = replies.and_then(|replies| replies.next(&mut publish)) else { break };
            if worker.session.wants_reply() {
                output.bytes.extend_from_slice(reply);
            }
            self.replied += 1;
        }
        let publish = output.mark(self.local_seen, durable, publish);
        worker.caller.publish(&publish);
        let is_done = self.replied == self.runs_on.len();
        if is_done {
            self.end();
        }
        is_done
    }

    fn end(&mut self) {
        self.runs_on.clear();
        self.runs_on.shrink_to(64);
        self.local.clear();
        self.remotes.drain(..).filter_map(|remote| remote.part).for_each(Part::recycle);
        (self.replied, self.request_bytes, self.local_seen) = (0, 0, Revision::ZERO);
    }
}

impl Remote {
    fn send(&mut self, caller: &Caller, mut part: Box<Part>) {
        let protocol = part.protocol();
        self.sent = part.left();
        let back = part.expect_back();
        match caller.app.engine.submit_sequence(self.shard, part) {
            Ok(()) => self.back = Some(back),
            Err(error) => self.part = Some(failed(caller, protocol, error, self.sent)),
        }
    }
}

/// A part whose requests got this error.
fn failed(caller: &Caller, protocol: Protocol, error: Error, count: usize) -> Box<Part> {
    let mut part = Part::new(&caller.app.hub, 0, protocol, 0);
    part.fail(error, count);
    part
}
