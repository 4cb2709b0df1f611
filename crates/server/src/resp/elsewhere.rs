//! Requests whose keys live on another shard, and requests that ask all shards. Touches the queues of other shards.
//!
//! A connection waits for one such request before it begins the next, so answers keep their order and a client sees its own
//! writes.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use keystead_commands::errors::{self, Fail};
use keystead_commands::spec::{Run, Spread, flag};
use keystead_commands::{Args, Command, Random, Reply, Spec, number};
use keystead_core::{Code, Error, Result};
use keystead_engine::{Engine, Local, Turn, Watch};
use keystead_model::Bytes;
use tokio::sync::oneshot;

use super::busy::{Busy, Waiting};
use super::connection::Worker;
use super::job::{RequestJob, Served};
use super::run::{Came, Executed, Transaction, exec_in, watch_in};

/// So many bits of a scan's cursor name the shard; the rest is the place within it.
const CURSOR_SHARD_BITS: u32 = 8;

/// Where a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Here,
    Shard(usize),
    Spread(Spread),
}

type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// Where a request runs, by its keys.
pub(super) fn place(
    engine: &Engine,
    here: usize,
    spec: &Spec,
    args: Args<'_>,
) -> std::result::Result<Place, Fail> {
    // A request that does not tell its keys is refused by the command itself, wherever it runs.
    let keys = spec.keys(args).unwrap_or_default();
    let Some(first) = keys.first() else {
        return Ok(match spec.spread {
            Spread::Here => Place::Here,
            spread => Place::Spread(spread),
        });
    };
    let place = engine.shard_of(args.at(*first));
    if keys.iter().any(|key| engine.shard_of(args.at(*key)) != place) {
        return Err(errors::CROSS_SLOT);
    }
    Ok(if place == here { Place::Here } else { Place::Shard(place) })
}

/// The one shard of a transaction's keys; `None` when it has none.
pub(super) fn place_of(
    engine: &Engine,
    transaction: &Transaction,
) -> std::result::Result<Option<usize>, Fail> {
    let mut place = transaction.watched.as_ref().map(|watched| watched.place);
    for queued in &transaction.queue {
        if matches!(queued.spec.run, Run::Data(_)) && queued.spec.spread != Spread::Here {
            return Err(errors::CROSS_SLOT);
        }
        let args = queued.command.args();
        for key in queued.spec.keys(args).unwrap_or_default() {
            let at = engine.shard_of(args.at(key));
            if *place.get_or_insert(at) != at {
                return Err(errors::CROSS_SLOT);
            }
        }
    }
    Ok(place)
}

impl Worker {
    pub(super) fn run_elsewhere(&mut self, place: Place, spec: &'static Spec, args: Args<'_>) -> Came {
        match place {
            Place::Here => Came::reply(Reply::Error(errors::CROSS_SLOT)),
            Place::Shard(shard) => {
                let ticket = self.app.engine.ticket();
                let (begin, begun) = spec.flags.has(flag::BLOCKING).then(oneshot::channel).unzip();
                match self.send(shard, spec, args.to_command(), Some(ticket), begin) {
                    Ok(served) => {
                        Came::Busy(Busy::Waiting(Waiting { served, shard, ticket, begun, blocked: false }))
                    }
                    Err(error) => Came::broken(error),
                }
            }
            Place::Spread(spread) => Came::Busy(Busy::Later(self.spread(spread, spec, args))),
        }
    }

    fn send(
        &mut self,
        shard: usize,
        spec: &'static Spec,
        command: Command,
        ticket: Option<u64>,
        begin: Option<oneshot::Sender<()>>,
    ) -> Result<oneshot::Receiver<Served>> {
        let (answer, served) = oneshot::channel();
        let random = Random::new(self.random.next());
        let hub = self.app.hub.clone();
        let job = RequestJob {
            spec,
            command,
            hub,
            random,
            shard,
            ticket,
            waits: None,
            served: None,
            begin,
            answer,
        };
        self.app.engine.submit(shard, Box::new(job))?;
        Ok(served)
    }

    fn spread(&mut self, spread: Spread, spec: &'static Spec, args: Args<'_>) -> Later<Served> {
        if spread == Spread::Cursor {
            return self.scan(spec, args);
        }
        let first = if spread == Spread::Some { self.random.below(self.shards) } else { 0 };
        let answers: Vec<_> = (0..self.shards)
            .map(|n| self.send((first + n) % self.shards, spec, args.to_command(), None, None))
            .collect();
        Box::pin(async move {
            let mut all = Vec::new();
            for answer in answers {
                all.push(received(answer).await);
            }
            Served::plain(combine(spread, all))
        })
    }

    /// The cursor names the shard in its lowest bits, so that a walk goes through all of them.
    fn scan(&mut self, spec: &'static Spec, args: Args<'_>) -> Later<Served> {
        let cursor = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse::<u64>().ok());
        let shards = self.shards as u64;
        let mask = (1 << CURSOR_SHARD_BITS) - 1;
        let shard = cursor.map_or(0, |cursor| cursor & mask) % shards;
        // What is no cursor is refused by the command.
        let within = cursor.map(|cursor| (cursor >> CURSOR_SHARD_BITS).to_string().into_bytes());
        let within = within.unwrap_or_else(|| args.at(1).to_vec());
        let words = args.from(0).enumerate().map(|(n, word)| if n == 1 { &within[..] } else { word });
        let answer = self.send(shard as usize, spec, Command::new(words), None, None);
        Box::pin(async move {
            let mut reply = received(answer).await;
            if let Reply::Array(parts) = &mut reply
                && let Some(Reply::Bulk(next)) = parts.first()
                && let Some(next) = number::parse_int(next)
            {
                let next = match next as u64 {
                    0 if shard + 1 < shards => shard + 1,
                    0 => 0,
                    next => next << CURSOR_SHARD_BITS | shard,
                };
                parts[0] = Reply::text(next.to_string());
            }
            Served::plain(reply)
        })
    }

    pub(super) fn watch_elsewhere(&mut self, place: usize, keys: Vec<Bytes>, watch: Watch) -> Came {
        let there = self.visit(place, move |turn| (watch_in(turn, &keys, &watch), 0));
        Came::Busy(Busy::Later(Box::pin(async move {
            Served::plain(there.await.unwrap_or_else(|error| Reply::Error(Fail::Broken(error))))
        })))
    }

    /// Runs a transaction on the shard of its keys; then what it says about the connection runs here.
    pub(super) fn exec_elsewhere(&mut self, place: usize, transaction: Transaction) -> Came {
        let (hub, mut random) = (self.app.hub.clone(), Random::new(self.random.next()));
        let there = self.visit(place, move |turn| {
            let executed = exec_in(turn, &transaction, &mut random, &hub);
            let seen = match &executed {
                Executed::Aborted(seen) | Executed::Ran(_, _, seen) => *seen,
                Executed::Broken(_) => 0,
            };
            ((transaction, executed), seen)
        });
        Came::Busy(Busy::Exec(Box::pin(async move {
            let empty = || Transaction { queue: Vec::new(), watched: None };
            match there.await {
                // It is durable there, and this shard's revisions tell nothing about it.
                Ok((transaction, Executed::Ran(replies, publish, _))) => {
                    (transaction, Executed::Ran(replies, publish, 0))
                }
                Ok((transaction, Executed::Aborted(_))) => (transaction, Executed::Aborted(0)),
                Ok(other) => other,
                Err(error) => (empty(), Executed::Broken(error)),
            }
        })))
    }

    /// Runs something in a turn of another shard and gives its result when that is durable.
    fn visit<T: Send + 'static>(
        &self,
        place: usize,
        run: impl FnOnce(&mut Turn<'_>) -> (T, u64) + Send + 'static,
    ) -> impl Future<Output = Result<T>> + 'static {
        let (answer, received) = oneshot::channel();
        let guest = move |local: Local| -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(async move {
                let mut run = Some(run);
                let (result, seen) = poll_fn(|cx| match (local.turn(cx.waker()), run.take()) {
                    (Some(mut turn), Some(run)) => Poll::Ready(run(&mut turn)),
                    (_, again) => {
                        run = again;
                        Poll::Pending
                    }
                })
                .await;
                let durable = local.until_durable(seen).await;
                let _ = answer.send(durable.map(|()| result));
            })
        };
        let engine = self.app.engine.clone();
        async move {
            engine.spawn_when_free(place, Box::new(guest)).await?;
            received.await.unwrap_or_else(|_| Err(ended()))
        }
    }
}

async fn received(answer: Result<oneshot::Receiver<Served>>) -> Reply {
    match answer {
        Ok(answer) => match answer.await {
            Ok(served) => served.reply,
            Err(_) => Reply::Error(Fail::Broken(ended())),
        },
        Err(error) => Reply::Error(Fail::Broken(error)),
    }
}

/// A shard that ends without a word leaves it open what became of the request.
pub(super) fn ended() -> Error {
    Error::unknown(Code::StoreUnavailable, "the shard ended without an answer")
}

fn combine(spread: Spread, all: Vec<Reply>) -> Reply {
    if let Some(error) = all.iter().find(|reply| reply.is_error()) {
        return error.clone();
    }
    match spread {
        Spread::Sum => {
            let numbers = all.iter().map(|reply| if let Reply::Int(n) = reply { *n } else { 0 });
            Reply::Int(numbers.fold(0, i64::saturating_add))
        }
        Spread::Join => {
            let lists = all.into_iter().flat_map(|reply| match reply {
                Reply::Array(items) | Reply::Set(items) => items,
                other => vec![other],
            });
            Reply::Array(lists.collect())
        }
        Spread::Some => all.into_iter().find(|reply| *reply != Reply::Nil).unwrap_or(Reply::Nil),
        Spread::Here | Spread::Each | Spread::Cursor => all.into_iter().next().unwrap_or(Reply::Nil),
    }
}
