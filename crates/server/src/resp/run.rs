//! One request: where it runs, and what becomes of its answer.
//!
//! Touches the shard of this loop, for the length of a [`Turn`].

use keystead_commands::conn::Conn;
use keystead_commands::ctx::{Publication, Wait as Wanted};
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::errors::{self, Fail};
use keystead_commands::hub::Hub;
use keystead_commands::session::{Multi, Queued};
use keystead_commands::spec::{Control, Run};
use keystead_commands::{Args, Ctx, Random, Reply, Spec};
use keystead_core::{Error, Millis, Outcome};
use keystead_engine::{Turn, Watch};
use keystead_model::Bytes;
use tokio::sync::oneshot;

use super::busy::{Busy, Waiting};
use super::connection::Worker;
use super::elsewhere::{self, Place};
use super::job::{RequestJob, Served, keeps, run_queue};

/// What a request came to.
pub(super) enum Came {
    /// An answer that rests on a revision, and messages that leave with it.
    Answer(Reply, u64, Vec<Publication>),
    /// It goes on elsewhere or later, and the connection waits for it.
    Busy(Busy),
}

impl Came {
    pub(super) fn reply(reply: Reply) -> Came {
        Came::Answer(reply, 0, Vec::new())
    }

    pub(super) fn broken(error: Error) -> Came {
        Came::reply(Reply::Error(Fail::Broken(error)))
    }
}

/// Keys that a connection watches, all on one shard.
pub(super) struct Watched {
    pub(super) watch: Watch,
    pub(super) keys: Vec<Bytes>,
    pub(super) place: usize,
}

/// A transaction that is to run.
pub(super) struct Transaction {
    pub(super) queue: Vec<Queued>,
    pub(super) watched: Option<Watched>,
}

/// What became of a transaction, and the revision that must be durable before anybody is told.
pub(super) enum Executed {
    /// A watched key has changed.
    Aborted(u64),
    /// It ran; commands about the connection have no answer yet.
    Ran(Vec<Option<Reply>>, Vec<Publication>, u64),
    /// It is undone.
    Broken(Error),
}

impl Worker {
    /// Runs one request.
    #[inline]
    pub(super) fn run(&mut self, turn: &mut Turn<'_>, args: Args<'_>) -> Came {
        match dispatch::plan(&mut self.session, &self.app.hub, args) {
            Plan::Data(spec) => self.run_data(turn, spec, args),
            Plan::Answer(reply) => Came::reply(reply),
            Plan::Conn(spec) => {
                let mut conn = Conn::new(&mut self.session, &self.app.hub, turn.now());
                Came::reply(dispatch::run_conn(&mut conn, spec, args))
            }
            Plan::Unwatch(reply) => {
                self.watched = None;
                self.session.client.shown().counts[3] = 0;
                Came::reply(reply)
            }
            Plan::Watch => self.watch(turn, args),
            Plan::Exec => self.exec(turn),
        }
    }

    #[inline]
    fn run_data(&mut self, turn: &mut Turn<'_>, spec: &'static Spec, args: Args<'_>) -> Came {
        if self.shards > 1 {
            match elsewhere::place(&self.app.engine, self.local.index(), spec, args) {
                Ok(Place::Here) => {}
                Ok(place) => return self.run_elsewhere(place, spec, args),
                Err(fail) => return Came::reply(Reply::Error(fail)),
            }
        }
        let (random, hub, shard) = (&mut self.random, &*self.app.hub, turn.index());
        let ran = turn.run(spec.writes(), |keyspace, now| {
            let mut ctx = Ctx::new(keyspace, now, random, hub);
            ctx.shard = shard;
            let reply = dispatch::run_data(&mut ctx, spec, args);
            let keep = keeps(&reply);
            ((reply, ctx.wait.take(), ctx.publish), keep)
        });
        match ran {
            Ok(((reply, None, publish), seen)) => Came::Answer(reply, seen, publish),
            Ok(((reply, Some(wanted), _), seen)) => self.wait(turn, spec, args, reply, wanted, seen),
            Err(error) => Came::broken(error),
        }
    }

    /// Lets a request that found nothing wait. `reply` is what it answers when the time is up.
    fn wait(
        &mut self,
        turn: &mut Turn<'_>,
        spec: &'static Spec,
        args: Args<'_>,
        reply: Reply,
        wanted: Wanted,
        seen: u64,
    ) -> Came {
        let (answer, served) = oneshot::channel();
        let ticket = self.app.engine.ticket();
        let wait = RequestJob::wait_for(ticket, &wanted);
        let job = RequestJob {
            spec,
            command: wanted.again.unwrap_or_else(|| args.to_command()),
            hub: self.app.hub.clone(),
            random: Random::new(self.random.next()),
            shard: self.local.index(),
            ticket: Some(ticket),
            waits: Some(wait.clone()),
            served: Some(Served { reply, publish: Vec::new(), in_vain: true }),
            begin: None,
            answer,
        };
        turn.wait(Box::new(job), wait, seen);
        let shard = self.local.index();
        Came::Busy(Busy::Waiting(Waiting { served, shard, ticket, begun: None, blocked: true }))
    }

    fn watch(&mut self, turn: &mut Turn<'_>, args: Args<'_>) -> Came {
        let place = self.app.engine.shard_of(args.at(1));
        let all_there = args.from(1).all(|key| self.app.engine.shard_of(key) == place);
        if !all_there || self.watched.as_ref().is_some_and(|watched| watched.place != place) {
            return Came::reply(Reply::Error(errors::CROSS_SLOT));
        }
        let watched =
            self.watched.get_or_insert_with(|| Watched { watch: Watch::default(), keys: Vec::new(), place });
        let new: Vec<Bytes> = args
            .from(1)
            .filter(|key| !watched.keys.iter().any(|known| known == key))
            .map(Bytes::from)
            .collect();
        watched.keys.extend(new.iter().cloned());
        let watch = watched.watch.clone();
        self.session.client.shown().counts[3] = watched.keys.len();
        if place != self.local.index() {
            return self.watch_elsewhere(place, new, watch);
        }
        Came::reply(watch_in(turn, &new, &watch))
    }

    fn exec(&mut self, turn: &mut Turn<'_>) -> Came {
        let Some(Multi { queue, .. }) = dispatch::end_multi(&mut self.session) else {
            return Came::reply(Reply::Error(errors::EXEC_WITHOUT_MULTI));
        };
        let transaction = Transaction { queue, watched: self.watched.take() };
        self.session.client.shown().counts[3] = 0;
        if self.shards > 1 {
            match elsewhere::place_of(&self.app.engine, &transaction) {
                Ok(Some(place)) if place != self.local.index() => {
                    return self.exec_elsewhere(place, transaction);
                }
                Ok(_) => {}
                Err(fail) => return Came::reply(Reply::Error(fail)),
            }
        }
        let executed = exec_in(turn, &transaction, &mut self.random, &self.app.hub);
        self.finish_exec(&transaction, executed, turn.now())
    }

    /// The answer of a transaction whose commands on keys have run: those about the connection run now.
    pub(super) fn finish_exec(&mut self, transaction: &Transaction, executed: Executed, now: Millis) -> Came {
        let (replies, publish, seen) = match executed {
            Executed::Aborted(seen) => return Came::Answer(Reply::NilArray, seen, Vec::new()),
            Executed::Broken(error) => {
                let words = match error.outcome() {
                    Outcome::NotApplied => format!("EXECABORT Transaction undone: {error}"),
                    Outcome::Unknown => format!("ERR The transaction may or may not have run: {error}"),
                };
                return Came::reply(Reply::Error(Fail::text(words)));
            }
            Executed::Ran(replies, publish, seen) => (replies, publish, seen),
        };
        let all =
            transaction.queue.iter().zip(replies).map(|(queued, reply)| match (reply, queued.spec.run) {
                (Some(reply), _) => reply,
                (None, Run::Control(Control::Unwatch)) => Reply::Ok,
                (None, _) => {
                    let mut conn = Conn::new(&mut self.session, &self.app.hub, now);
                    dispatch::run_conn(&mut conn, queued.spec, queued.command.args())
                }
            });
        Came::Answer(Reply::Array(all.collect()), seen, publish)
    }
}

/// Lets `watch` be told of changes of these keys.
pub(super) fn watch_in(turn: &mut Turn<'_>, keys: &[Bytes], watch: &Watch) -> Reply {
    match keys.iter().try_for_each(|key| turn.watch(key, watch)) {
        Ok(()) => Reply::Ok,
        Err(error) => Reply::Error(Fail::Broken(error)),
    }
}

/// Runs a transaction on the shard of its keys, all or nothing.
pub(super) fn exec_in(
    turn: &mut Turn<'_>,
    transaction: &Transaction,
    random: &mut Random,
    hub: &Hub,
) -> Executed {
    let mut looked_at = 0;
    if let Some(watched) = &transaction.watched {
        // A key that has expired has changed, and a look tells.
        let looked = turn.run(false, |keyspace, now| {
            (watched.keys.iter().find_map(|key| keyspace.exists(key, now).err()), true)
        });
        match looked {
            Ok((None, seen)) => looked_at = seen,
            Ok((Some(error), _)) | Err(error) => return Executed::Broken(error),
        }
        if watched.watch.is_touched() {
            return Executed::Aborted(looked_at);
        }
    }
    let queue = &transaction.queue;
    let writes = queue.iter().any(|queued| queued.spec.writes());
    let shard = turn.index();
    let ran = turn.run(writes, |keyspace, now| {
        let (replies, publish) = run_queue(queue, Ctx { shard, ..Ctx::new(keyspace, now, random, hub) });
        let keep = replies.iter().flatten().all(keeps);
        ((replies, publish), keep)
    });
    match ran {
        Ok(((replies, publish), seen)) => {
            let broken = replies.iter().flatten().find(|reply| !keeps(reply));
            if let Some(Reply::Error(fail)) = broken {
                let words = fail.line().into_owned();
                return Executed::Broken(Error::new(keystead_core::Code::StoreUnavailable, words));
            }
            Executed::Ran(replies, publish, seen.max(looked_at))
        }
        Err(error) => Executed::Broken(error),
    }
}
