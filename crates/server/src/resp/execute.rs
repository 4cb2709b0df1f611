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
use keystead_commands::spec::{Run, flag};
use keystead_commands::{Args, Random, Reply, Spec};
use keystead_core::{Error, Revision, ShardId};
use keystead_engine::{Turn, Watch};
use keystead_model::Bytes;
use tokio::sync::oneshot;

use super::pending::{Pending, Waiting};
use super::wait_sink;
use super::worker::Worker;
use crate::call::job::{RanRequest, RequestJob, Served, run_in};
use crate::call::target::{self, Target};
use crate::call::transaction::{Transaction, Watched, exec_in, watch_in};

/// The result of running a request.
pub(super) enum Execution {
    /// A reply, the revision that it depends on, and messages that are published with it.
    Reply(Reply, Revision, Vec<Publication>),
    /// It runs on another shard, with the requests of the pipeline for that shard.
    Remote(ShardId, &'static Spec),
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

/// A request's row in the table, and where it runs.
pub(super) struct Resolved {
    pub(super) spec: std::result::Result<&'static Spec, Fail>,
    target: std::result::Result<Target, Fail>,
}

impl Resolved {
    /// Whether it may run while requests before it run on other shards: its keys are on one shard, and it does not wait for them.
    pub(super) fn may_overtake(&self) -> bool {
        matches!(self.target, Ok(Target::Local | Target::Shard(_)))
            && self.spec.as_ref().is_ok_and(|spec| !spec.flags.has(flag::BLOCKING))
    }
}

impl Worker {
    /// Finds a request's row, and the shard of its keys.
    #[inline]
    pub(super) fn resolve(&self, args: Args<'_>) -> Resolved {
        let spec = dispatch::resolve(args);
        let target = match &spec {
            Ok(spec) if self.caller.shards > 1 && matches!(spec.run, Run::Data(_)) => {
                target::target(&self.caller.app.engine, self.caller.local.shard(), spec, args)
            }
            _ => Ok(Target::Any),
        };
        Resolved { spec, target }
    }

    /// Runs one request.
    #[inline]
    pub(super) fn run(&mut self, turn: &mut Turn<'_>, resolved: Resolved, args: Args<'_>) -> Execution {
        match dispatch::plan_resolved(&mut self.session, &self.caller.app.hub, resolved.spec, args) {
            Plan::Data(spec) => match resolved.target {
                Ok(Target::Local | Target::Any) => self.run_data(turn, spec, args),
                Ok(Target::Shard(shard)) if spec.flags.has(flag::BLOCKING) => {
                    self.wait_remote(shard, spec, args)
                }
                Ok(Target::Shard(shard)) => Execution::Remote(shard, spec),
                Ok(Target::Spread(spread)) => self.run_spread(spread, spec, args),
                Err(fail) => Execution::reply(Reply::Error(fail)),
            },
            Plan::Reply(reply) => Execution::reply(reply),
            Plan::Conn(spec) if spec.full_name == wait_sink::NAME => self.wait_for_sink(turn, args),
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
        match run_in(turn, &mut self.caller.random, &self.caller.app.hub, spec, args) {
            Ok((RanRequest { reply, wanted: None, publish }, seen)) => Execution::Reply(reply, seen, publish),
            Ok((RanRequest { reply, wanted: Some(wanted), .. }, seen)) => {
                self.wait(turn, spec, args, reply, wanted, seen)
            }
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
