//! Runs one request: on this shard, on another, or later.
//!
//! Touches the shard of this loop, for the length of a [`Turn`].

use std::collections::HashSet;

use keystead_commands::bounds::REPLY_BYTES_MAX;
use keystead_commands::conn::Conn;
use keystead_commands::ctx::{Publication, Rights, Wait as Wanted};
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::errors::{self, Fail};
use keystead_commands::session::Multi;
use keystead_commands::{Args, Ctx, Random, Reply, Spec};
use keystead_core::{Error, Revision};
use keystead_engine::{Completion, Turn, Watch};
use keystead_model::Bytes;
use tokio::sync::oneshot;

use super::pending::{Pending, Waiting};
use super::worker::Worker;
use crate::call::job::{RequestJob, Served, keeps};
use crate::call::target::{self, Target};
use crate::call::transaction::{Transaction, Watched, exec_in, watch_in};

/// The result of running a request.
pub(super) enum Execution {
    /// A reply, the revision that it depends on, and messages that are published with it.
    Reply(Reply, Revision, Vec<Publication>),
    /// It continues on another shard or later, and the connection waits for it.
    Pending(Pending),
}

impl Execution {
    pub(super) fn reply(reply: Reply) -> Execution {
        Execution::Reply(reply, Revision::ZERO, Vec::new())
    }

    pub(super) fn broken(error: Error) -> Execution {
        Execution::reply(Reply::Error(Fail::Broken(error)))
    }
}

impl Worker {
    /// Runs one request.
    #[inline]
    pub(super) fn run(&mut self, turn: &mut Turn<'_>, args: Args<'_>) -> Execution {
        match dispatch::plan(&mut self.session, &self.caller.app.hub, args) {
            Plan::Data(spec) => self.run_data(turn, spec, args),
            Plan::Reply(reply) => Execution::reply(reply),
            Plan::Conn(spec) => {
                let mut conn = Conn::new(&mut self.session, &self.caller.app.hub, turn.now());
                Execution::reply(dispatch::run_conn(&mut conn, spec, args))
            }
            Plan::Unwatch(reply) => {
                self.watched = None;
                self.session.client.shown().counts[3] = 0;
                Execution::reply(reply)
            }
            Plan::Watch => self.watch(turn, args),
            Plan::Exec => self.exec(turn),
        }
    }

    #[inline]
    fn run_data(&mut self, turn: &mut Turn<'_>, spec: &'static Spec, args: Args<'_>) -> Execution {
        if self.caller.shards > 1 {
            match target::target(&self.caller.app.engine, self.caller.local.shard(), spec, args) {
                Ok(Target::Local) => {}
                Ok(shard) => return self.run_remote(shard, spec, args),
                Err(fail) => return Execution::reply(Reply::Error(fail)),
            }
        }
        let (random, hub, shard) = (&mut self.caller.random, &*self.caller.app.hub, turn.shard());
        let ran = turn.run(spec.writes(), |keyspace, now| {
            let mut ctx = Ctx::new(keyspace, now, random, hub);
            ctx.shard = shard;
            let reply = dispatch::run_data(&mut ctx, spec, args);
            let completion = Completion::commit_if(keeps(&reply));
            ((reply, ctx.wait.take(), ctx.publish), completion)
        });
        match ran {
            // The messages of a command that is rolled back are not published.
            Ok(((reply, None, _), seen)) if !keeps(&reply) => Execution::Reply(reply, seen, Vec::new()),
            Ok(((reply, None, publish), seen)) => Execution::Reply(reply, seen, publish),
            Ok(((reply, Some(wanted), _), seen)) => self.wait(turn, spec, args, reply, wanted, seen),
            Err(error) => Execution::broken(error),
        }
    }

    /// Lets a request wait for its keys. `reply` is the reply when the time is up.
    fn wait(
        &mut self,
        turn: &mut Turn<'_>,
        spec: &'static Spec,
        args: Args<'_>,
        reply: Reply,
        wanted: Wanted,
        seen: Revision,
    ) -> Execution {
        let (reply_to, served) = oneshot::channel();
        let ticket = self.caller.app.engine.ticket();
        let wait = RequestJob::wait_for(ticket, &wanted);
        let job = RequestJob {
            spec,
            command: wanted.again.unwrap_or_else(|| args.to_command()),
            hub: self.caller.app.hub.clone(),
            random: Random::new(self.caller.random.next()),
            shard: self.caller.local.shard(),
            dialect: self.caller.dialect,
            ticket: Some(ticket),
            waits: Some(wait.clone()),
            served: Some(Served { reply, publish: Vec::new(), in_vain: true }),
            begin: None,
            reply_to,
        };
        turn.wait(Box::new(job), wait, seen);
        let shard = self.caller.local.shard();
        Execution::Pending(Pending::Waiting(Waiting { served, shard, ticket, begun: None, blocked: true }))
    }

    fn watch(&mut self, turn: &mut Turn<'_>, args: Args<'_>) -> Execution {
        let shard = self.caller.app.engine.shard_of(args.at(1));
        let on_one_shard = args.from(1).all(|key| self.caller.app.engine.shard_of(key) == shard);
        if !on_one_shard || self.watched.as_ref().is_some_and(|watched| watched.shard != shard) {
            return Execution::reply(Reply::Error(errors::CROSS_SLOT));
        }
        let watched = self.watched.get_or_insert_with(|| Watched {
            watch: Watch::default(),
            keys: HashSet::new(),
            shard,
        });
        let keys = args.from(1).map(Bytes::from);
        let new: Vec<Bytes> = keys.filter(|key| watched.keys.insert(key.clone())).collect();
        let watch = watched.watch.clone();
        self.session.client.shown().counts[3] = watched.keys.len();
        if shard != self.caller.local.shard() {
            return self.watch_remote(shard, new, watch);
        }
        Execution::reply(watch_in(turn, &new, &watch))
    }

    fn exec(&mut self, turn: &mut Turn<'_>) -> Execution {
        let Some(Multi { queue, .. }) = dispatch::end_multi(&mut self.session) else {
            return Execution::reply(Reply::Error(errors::EXEC_WITHOUT_MULTI));
        };
        let transaction = Transaction {
            queue,
            watched: self.watched.take(),
            reply_bytes_max: REPLY_BYTES_MAX,
            dialect: self.caller.dialect,
            rights: Rights::All,
        };
        self.session.client.shown().counts[3] = 0;
        if self.caller.shards > 1 {
            let watched = transaction.watched.as_ref().map(|watched| watched.shard);
            match target::shard_of_queue(&self.caller.app.engine, &transaction.queue, watched) {
                Ok(Some(shard)) if shard != self.caller.local.shard() => {
                    return self.exec_remote(shard, transaction);
                }
                Ok(_) => {}
                Err(fail) => return Execution::reply(Reply::Error(fail)),
            }
        }
        let executed = exec_in(turn, &transaction, &mut self.caller.random, &self.caller.app.hub);
        let (served, revision) = self.finish_exec(&transaction, executed, turn.now());
        Execution::Reply(served.reply, revision, served.publish)
    }
}
