//! Several commands as one: a transaction on the shard of its keys, all or nothing, if its watched keys have not changed.
//! Touches that shard, for the length of a [`Turn`].

use keystead_commands::ctx::{Dialect, Publication};
use keystead_commands::dispatch::run_data;
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::session::Queued;
use keystead_commands::spec::Run;
use keystead_commands::{Ctx, Random, Reply};
use keystead_engine::{Turn, Watch};
use keystead_model::Bytes;

use super::job::keeps;

/// Keys that a connection watches, all on one shard.
pub(crate) struct Watched {
    pub(crate) watch: Watch,
    pub(crate) keys: Vec<Bytes>,
    pub(crate) place: usize,
}

/// A transaction that is to run.
pub(crate) struct Transaction {
    pub(crate) queue: Vec<Queued>,
    pub(crate) watched: Option<Watched>,
}

/// What became of a transaction, and the revision that must be durable before anybody is told.
pub(crate) enum Executed {
    /// A watched key has changed.
    Aborted(u64),
    /// It ran; commands about the connection have no answer yet.
    Ran(Vec<Option<Reply>>, Vec<Publication>, u64),
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
    dialect: Dialect,
) -> Executed {
    let mut looked_at = 0;
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
    let shard = turn.index();
    let ran = turn.run(writes, |keyspace, now| {
        let (replies, publish) =
            run_queue(queue, Ctx { shard, dialect, ..Ctx::new(keyspace, now, random, hub) });
        let keep = replies.iter().flatten().all(keeps);
        ((replies, publish), keep)
    });
    match ran {
        Ok(((mut replies, publish), seen)) => {
            let undoes = replies.iter_mut().flatten().find(|reply| !keeps(reply));
            if let Some(Reply::Error(fail)) = undoes.map(|reply| std::mem::replace(reply, Reply::Nil)) {
                return Executed::Undone(fail);
            }
            Executed::Ran(replies, publish, seen.max(looked_at))
        }
        Err(error) => Executed::Undone(Fail::Broken(error)),
    }
}

/// Runs the commands of a transaction that touch keys. Those about the connection are left for its own loop: `None`.
pub(crate) fn run_queue(queue: &[Queued], mut ctx: Ctx<'_>) -> (Vec<Option<Reply>>, Vec<Publication>) {
    ctx.may_wait = false;
    let replies = queue
        .iter()
        .map(|queued| match queued.spec.run {
            Run::Data(_) => {
                // What it would wait for is not waited for, and must not be taken for the next one's.
                ctx.wait = None;
                Some(run_data(&mut ctx, queued.spec, queued.command.args()))
            }
            _ => None,
        })
        .collect();
    (replies, ctx.publish)
}
