//! Several commands as one: a transaction on the shard of its keys, all or nothing, if its watched keys have not changed.
//! Touches that shard, for the length of a [`Turn`].

use std::collections::HashSet;

use keystead_commands::ctx::{Dialect, Publication, Rights};
use keystead_commands::dispatch::run_data;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::session::Queued;
use keystead_commands::spec::Run;
use keystead_commands::{Ctx, Random, Reply};
use keystead_core::Revision;
use keystead_engine::{Turn, Watch};
use keystead_model::Bytes;

use super::reply_budget::ReplyBudget;

/// Keys that a connection watches, all on one shard.
pub(crate) struct Watched {
    pub(crate) watch: Watch,
    /// Without repetition: a client may watch them in many requests.
    pub(crate) keys: HashSet<Bytes>,
    pub(crate) shard: usize,
}

/// A transaction that is to run.
pub(crate) struct Transaction {
    pub(crate) queue: Vec<Queued>,
    pub(crate) watched: Option<Watched>,
    /// Bytes of all its answers. With more it is undone.
    pub(crate) answer_bytes_max: usize,
    pub(crate) dialect: Dialect,
    pub(crate) rights: Rights,
}

/// What became of a transaction, and the revision that must be durable before anybody is told.
pub(crate) enum Executed {
    /// A watched key has changed.
    Aborted(Revision),
    /// It ran; commands about the connection have no answer yet.
    Ran(Vec<Option<Reply>>, Vec<Publication>, Revision),
    /// It is undone, and this is why.
    Undone(Fail),
}

/// Lets `watch` be told of changes of these keys.
pub(crate) fn watch_in(turn: &mut Turn<'_>, keys: &[Bytes], watch: &Watch) -> Reply {
    match keys.iter().try_for_each(|key| turn.watch(key, watch)) {
        Ok(()) => Reply::Ok,
        Err(error) => Reply::Error(Fail::Broken(error)),
    }
}

/// Runs a transaction on the shard of its keys, all or nothing.
pub(crate) fn exec_in(
    turn: &mut Turn<'_>,
    transaction: &Transaction,
    random: &mut Random,
    hub: &Hub,
) -> Executed {
    let mut looked_at = Revision::ZERO;
    if let Some(watched) = &transaction.watched {
        // A key that has expired has changed, and a look tells.
        let looked = turn.run(false, |keyspace, now| {
            (watched.keys.iter().find_map(|key| keyspace.exists(key, now).err()), true)
        });
        match looked {
            Ok((None, seen)) => looked_at = seen,
            Ok((Some(error), _)) | Err(error) => return Executed::Undone(Fail::Broken(error)),
        }
        if watched.watch.is_touched() {
            return Executed::Aborted(looked_at);
        }
    }
    let queue = &transaction.queue;
    let writes = queue.iter().any(|queued| queued.spec.writes());
    let (shard, dialect, rights) = (turn.index(), transaction.dialect, transaction.rights);
    let ran = turn.run(writes, |keyspace, now| {
        let ctx = Ctx { shard, dialect, rights, ..Ctx::new(keyspace, now, random, hub) };
        let ran = run_queue(queue, ctx, transaction.answer_bytes_max);
        let keep = ran.is_ok();
        (ran, keep)
    });
    match ran {
        Ok((Ok((replies, publish)), seen)) => Executed::Ran(replies, publish, seen.max(looked_at)),
        Ok((Err(fail), _)) => Executed::Undone(fail),
        Err(error) => Executed::Undone(Fail::Broken(error)),
    }
}

/// What commands answered, and the messages that they send.
pub(crate) type Answered = (Vec<Option<Reply>>, Vec<Publication>);

/// Runs the commands of a transaction on keys and on what all share. Those about the connection are left for its own loop: `None`.
///
/// # Errors
/// Why all of it must be undone: one of them failed half way, or their answers are too much.
pub(crate) fn run_queue(
    queue: &[Queued],
    mut ctx: Ctx<'_>,
    answer_bytes_max: usize,
) -> Result<Answered, Fail> {
    ctx.may_wait = false;
    let mut budget = ReplyBudget::new(answer_bytes_max);
    let mut replies = Vec::with_capacity(queue.len());
    for queued in queue {
        let args = queued.command.args();
        let reply = match queued.spec.run {
            Run::Data(_) => {
                // What it would wait for is not waited for, and must not be taken for the next one's.
                ctx.wait = None;
                ctx.reply = budget.bound();
                run_data(&mut ctx, queued.spec, args)
            }
            Run::Shared(run) => run(ctx.hub, ctx.now, args).into(),
            _ => {
                replies.push(None);
                continue;
            }
        };
        match reply {
            Reply::Error(fail) if fail.undoes() => return Err(fail),
            reply if budget.take(&reply) => replies.push(Some(reply)),
            _ => return Err(budget.undone()),
        }
    }
    Ok((replies, ctx.publish))
}
