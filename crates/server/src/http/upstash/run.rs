//! Runs the commands of one request: one, several independent ones, or a transaction.
//!
//! Touches the shard of the connection's loop in a turn of it, and the queues of others. Invariant: a response is sent only once
//! everything that it acknowledges or returns is durable.

use std::mem::take;
use std::sync::atomic::Ordering;

use keystead_commands::conn::Conn;
use keystead_commands::ctx::{Dialect, Publication};
use keystead_commands::errors::{self, Fail};
use keystead_commands::hub::Hub;
use keystead_commands::meter::ReplyBound;
use keystead_commands::reply_budget::ReplyBudget;
use keystead_commands::session::Queued;
use keystead_commands::spec::{Control, Run, flag};
use keystead_commands::transaction::keeps;
use keystead_commands::{Command, Ctx, Random, Reply, Spec, dispatch};
use keystead_core::{Error, Revision, ShardId, Stopwatch};
use keystead_engine::{Completion, Turn};

use super::super::context::HttpContext;
use super::super::rights::Rights;
use crate::bounds::{REST_RESPONSE_BYTES_MAX, REST_TURN};
use crate::call::target::{self, Target};
use crate::call::transaction::{Executed, Transaction, exec_in};

pub(super) use keystead_http_api::upstash::command::{EMPTY, allowed, unavailable};

/// Runs one command.
pub(super) async fn one(context: &HttpContext, rights: Rights, command: Command) -> Reply {
    all(context, rights, vec![command]).await.pop().unwrap_or(Reply::Nil)
}

/// Runs commands in order, independent of each other: after an error the next ones still run.
///
/// Commands on different shards may be reordered; those on one key never are.
pub(super) async fn all(context: &HttpContext, rights: Rights, commands: Vec<Command>) -> Vec<Reply> {
    let mut work = Work::new(context, rights, commands).await;
    let shards = context.caller.borrow().shards;
    if shards == 1 {
        work.run_on_one(context).await;
    } else {
        work.run_on_many(context, shards).await;
    }
    work.replies
        .into_iter()
        .map(|reply| {
            let reply = reply.unwrap_or(Reply::Nil);
            count(&context.app.hub, &reply);
            reply
        })
        .collect()
}

/// Runs commands as a transaction, all or nothing.
pub(super) async fn as_one(
    context: &HttpContext,
    rights: Rights,
    commands: Vec<Command>,
) -> std::result::Result<Vec<Reply>, Fail> {
    let mut queue = Vec::with_capacity(commands.len());
    for command in commands {
        let spec = spec_of(context, rights, &command)?;
        if spec.flags.has(flag::NO_MULTI) {
            return Err(errors::NOT_IN_MULTI);
        }
        queue.push(Queued { spec, command });
    }
    if let Some(rejection) =
        context.app.hub.cluster.get().and_then(|cluster| cluster.rejection_of_queue(&queue))
    {
        return Err(rejection.into());
    }
    until_unpaused(context, queue.iter().map(|queued| queued.spec)).await;
    context.app.hub.clients.commands.fetch_add(queue.len() as u64, Ordering::Relaxed);
    let (engine, local) = (&context.app.engine, context.caller.borrow().local.clone());
    // With one shard all keys are on it, also those of commands on all keys.
    let shard = if engine.shards() > 1 { target::shard_of_queue(engine, &queue, None)? } else { None };
    let transaction = Transaction {
        queue,
        watched: None,
        reply_bytes_max: REST_RESPONSE_BYTES_MAX,
        dialect: Dialect::Upstash,
        rights,
    };
    let (transaction, executed) = match shard {
        Some(shard) if shard != local.shard() => {
            let there = context.caller.borrow_mut().exec_at(shard, transaction);
            there.await
        }
        _ => {
            let executed =
                context.in_turn(|turn, random| exec_in(turn, &transaction, random, &context.app.hub)).await;
            (transaction, executed)
        }
    };
    let (replies, publish) = match executed {
        Executed::Ran(replies, publish, seen) => {
            local.until_durable(seen).await?;
            (replies, publish)
        }
        // Nothing is watched.
        Executed::Aborted(_) => return Err(errors::EXEC_ABORT),
        Executed::Undone(fail) => return Err(fail),
        Executed::Rejected(rejection) => return Err(rejection.into()),
    };
    context.caller.borrow().publish(&publish);
    let all = transaction.queue.iter().zip(replies).map(|(queued, reply)| {
        let reply = reply.unwrap_or_else(|| about_connection(context, queued.spec, &queued.command));
        count(&context.app.hub, &reply);
        reply
    });
    Ok(all.collect())
}

/// The row of a command that may run. Monitors see the command.
pub(in crate::http) fn spec_of(
    context: &HttpContext,
    rights: Rights,
    command: &Command,
) -> std::result::Result<&'static Spec, Fail> {
    let spec = allowed(rights, command)?;
    if let Some(cluster) = context.app.hub.cluster.get()
        && let Some(rejection) = cluster.rejection(spec, command.args())
    {
        return Err(rejection.into());
    }
    if !context.app.hub.monitors.is_empty() {
        let client = &context.session.borrow().client;
        context.app.hub.monitor(spec, &client.address, context.app.now(), command.args());
    }
    Ok(spec)
}

/// Waits until no slot of these commands is being handed over: an error of one of them would not be for the client to repeat.
async fn until_served(context: &HttpContext, commands: &[Command]) {
    let app = &context.app;
    let (Some(cluster), Some(membership)) = (app.hub.cluster.get(), app.cluster.get()) else { return };
    if cluster.is_moving() {
        let slots: Vec<u16> =
            commands.iter().flat_map(|command| cluster.slots_of_command(command.args())).collect();
        membership.until_served(cluster, &slots).await;
    }
}

/// The commands of a request, and the replies so far.
struct Work {
    rights: Rights,
    commands: Vec<(Command, Option<&'static Spec>)>,
    replies: Vec<Option<Reply>>,
}

impl Work {
    async fn new(context: &HttpContext, rights: Rights, commands: Vec<Command>) -> Work {
        until_served(context, &commands).await;
        let mut replies = Vec::with_capacity(commands.len());
        let commands: Vec<_> = commands
            .into_iter()
            .map(|command| {
                let spec = spec_of(context, rights, &command);
                let (spec, error) = match spec {
                    Ok(spec) => (Some(spec), None),
                    Err(fail) => (None, Some(Reply::Error(fail))),
                };
                replies.push(error);
                (command, spec)
            })
            .collect();
        until_unpaused(context, commands.iter().filter_map(|(_, spec)| *spec)).await;
        context.app.hub.clients.commands.fetch_add(commands.len() as u64, Ordering::Relaxed);
        Work { rights, commands, replies }
    }

    /// Runs all commands on the only shard.
    async fn run_on_one(&mut self, context: &HttpContext) {
        let all: Vec<usize> = (0..self.commands.len()).filter(|n| self.commands[*n].1.is_some()).collect();
        let mut part = self.part(&all);
        let local = context.caller.borrow().local.clone();
        let about = |spec: &Spec, command: &Command| about_connection(context, spec, command);
        while !context.in_turn(|turn, random| part.go_on(turn, random, &context.app.hub, about)).await {
            tokio::task::yield_now().await;
        }
        match local.until_durable(part.last_seen).await {
            Ok(()) => self.settle(context, all, part.replies, &part.publish),
            Err(error) => self.lost(&error, all),
        }
    }

    /// Runs the commands on the shards of their keys: those between two commands on all shards are grouped by shard, and each shard
    /// gets its group at once.
    async fn run_on_many(&mut self, context: &HttpContext, shards: usize) {
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); shards];
        for n in 0..self.commands.len() {
            let (command, Some(spec)) = &self.commands[n] else { continue };
            let at = context.caller.borrow().local.shard();
            let shard = match spec.run {
                Run::Data(_) => target::target(&context.app.engine, at, spec, command.args()),
                _ => Ok(Target::Any),
            };
            match (shard, spec.run) {
                (Err(fail), _) => self.replies[n] = Some(Reply::Error(fail)),
                (Ok(Target::Shard(shard)), _) => parts[shard.0].push(n),
                (Ok(Target::Local), _) => parts[at.0].push(n),
                (Ok(Target::Any), Run::Data(_)) => {
                    // A message that it publishes may announce what the commands before it have written.
                    self.run_parts(context, &mut parts).await;
                    parts[at.0].push(n);
                }
                (Ok(Target::Any), Run::Shared(_)) => {
                    // The commands before it must not see what it loads.
                    let (spec, command) = (*spec, command.clone());
                    self.run_parts(context, &mut parts).await;
                    self.replies[n] = Some(about_connection(context, spec, &command));
                }
                (Ok(Target::Any), _) => self.replies[n] = Some(about_connection(context, spec, command)),
                (Ok(Target::Spread(spread)), _) => {
                    let (spec, command) = (*spec, command.clone());
                    self.run_parts(context, &mut parts).await;
                    let later = context.caller.borrow_mut().spread(spread, spec, command.args());
                    self.replies[n] = Some(later.await.reply);
                }
            }
        }
        self.run_parts(context, &mut parts).await;
    }

    /// Sends each shard its part, all at the same time, and waits for all.
    async fn run_parts(&mut self, context: &HttpContext, parts: &mut [Vec<usize>]) {
        let mut sent = Vec::new();
        for (shard, part) in ShardId::all(parts.len()).zip(parts).filter(|(_, part)| !part.is_empty()) {
            let which = std::mem::take(part);
            let mut part = self.part(&which);
            let mut caller = context.caller.borrow_mut();
            let (hub, mut random) = (context.app.hub.clone(), Random::new(caller.random.next()));
            let there = caller.visit_in_turns(shard, move |turn| {
                let done = part.go_on(turn, &mut random, &hub, |_, _| Reply::Nil);
                done.then(|| ((take(&mut part.replies), take(&mut part.publish)), part.last_seen))
            });
            sent.push((which, tokio::task::spawn_local(there)));
        }
        for (which, there) in sent {
            match there.await.unwrap_or_else(|_| Err(crate::call::ended())) {
                Ok((replies, publish)) => self.settle(context, which, replies, &publish),
                Err(error) => self.lost(&error, which),
            }
        }
    }

    /// Takes these commands out to run them.
    fn part(&mut self, which: &[usize]) -> Part {
        let of = |n: &usize| {
            let (command, spec) = &mut self.commands[*n];
            spec.map(|spec| (take(command), spec))
        };
        Part {
            commands: which.iter().filter_map(of).collect(),
            replies: Vec::with_capacity(which.len()),
            publish: Vec::new(),
            last_seen: Revision::ZERO,
            budget: ReplyBudget::new(REST_RESPONSE_BYTES_MAX),
            rights: self.rights,
        }
    }

    /// Sets the replies of these commands, and publishes their messages.
    fn settle(
        &mut self,
        context: &HttpContext,
        which: Vec<usize>,
        replies: Vec<Reply>,
        publish: &[Publication],
    ) {
        context.caller.borrow().publish(publish);
        which.into_iter().zip(replies).for_each(|(n, reply)| self.replies[n] = Some(reply));
    }

    /// Sets errors for these commands: their effects will never be durable.
    fn lost(&mut self, error: &Error, which: impl IntoIterator<Item = usize>) {
        for n in which {
            let error = Error::unknown(error.code(), error.message().to_owned());
            self.replies[n] = Some(Reply::Error(Fail::Broken(error)));
        }
    }
}

/// Commands that run on one shard, some in each of its turns.
struct Part {
    commands: Vec<(Command, &'static Spec)>,
    /// The replies of those that ran.
    replies: Vec<Reply>,
    publish: Vec<Publication>,
    /// The revision that must be durable before the replies are sent.
    last_seen: Revision,
    budget: ReplyBudget,
    rights: Rights,
}

impl Part {
    /// Runs commands until the time of a turn is used up, and returns whether all have run. `about` runs those that touch no key.
    fn go_on(
        &mut self,
        turn: &mut Turn<'_>,
        random: &mut Random,
        hub: &Hub,
        about: impl Fn(&Spec, &Command) -> Reply,
    ) -> bool {
        let began = Stopwatch::start();
        while let Some((command, spec)) = self.commands.get(self.replies.len()) {
            let reply = self.budget.run(|bound| {
                if !matches!(spec.run, Run::Data(_)) {
                    return about(spec, command);
                }
                let may = (bound, self.rights);
                let (reply, seen) = run_in(turn, random, hub, (spec, command), may, &mut self.publish);
                self.last_seen = self.last_seen.max(seen);
                reply
            });
            self.replies.push(reply);
            if began.elapsed() >= REST_TURN {
                break;
            }
        }
        self.replies.len() == self.commands.len()
    }
}

/// Runs a command on the keys of this shard. The revision must be durable before the reply is sent.
fn run_in(
    turn: &mut Turn<'_>,
    random: &mut Random,
    hub: &Hub,
    (spec, command): (&Spec, &Command),
    may: (ReplyBound, Rights),
    publish: &mut Vec<Publication>,
) -> (Reply, Revision) {
    let shard = turn.shard();
    let ran = turn.run(spec.writes(), |keyspace, now| {
        let mut ctx = Ctx::new(keyspace, now, random, hub);
        (ctx.shard, ctx.dialect, ctx.may_wait) = (shard, Dialect::Upstash, false);
        (ctx.reply, ctx.rights) = may;
        let reply = dispatch::run_data(&mut ctx, spec, command.args());
        let completion = Completion::commit_if(keeps(&reply));
        if completion == Completion::Commit {
            publish.append(&mut ctx.publish);
        }
        (reply, completion)
    });
    ran.unwrap_or_else(|error| (Reply::Error(Fail::Broken(error)), Revision::ZERO))
}

/// Runs a command that touches no key.
fn about_connection(context: &HttpContext, spec: &Spec, command: &Command) -> Reply {
    if let Run::Control(Control::Unwatch) = spec.run {
        return Reply::Ok;
    }
    let mut session = context.session.borrow_mut();
    let mut conn = Conn::new(&mut session, &context.app.hub, context.app.now());
    conn.dialect = Dialect::Upstash;
    dispatch::run_conn(&mut conn, spec, command.args())
}

/// Waits for the end of CLIENT PAUSE.
pub(super) async fn until_unpaused(
    context: &HttpContext,
    specs: impl Iterator<Item = &'static Spec> + Clone,
) {
    let clients = &context.app.hub.clients;
    while clients.paused_until.load(Ordering::Relaxed) > 0
        && clients.paused(specs.clone().any(Spec::writes), context.app.now()).is_some()
    {
        tokio::time::sleep(crate::bounds::PAUSE_CHECK_INTERVAL).await;
    }
}

pub(super) fn count(hub: &Hub, reply: &Reply) {
    if let Reply::Error(fail) = reply {
        hub.stats.failed(fail);
    }
}
