//! Several commands as one: a transaction on the shard of its keys, all or nothing, if its watched keys have not changed.
//! Touches that shard, for the length of a [`Turn`].

use std::collections::HashSet;

use keystead_commands::ctx::{Dialect, Publication, Rights};
use keystead_commands::errors::Fail;
use keystead_commands::hub::{Hub, Rejection};
use keystead_commands::session::Queued;
use keystead_commands::transaction::{check_memory, run_queue};
use keystead_commands::{Ctx, Random, Reply};
use keystead_core::{Revision, ShardId};
use keystead_engine::{Completion, Turn, Watch};
use keystead_model::Bytes;

/// Keys that a connection watches, all on one shard.
pub(crate) struct Watched {
    pub(crate) watch: Watch,
    /// A set: a client may watch the same key in many requests.
    pub(crate) keys: HashSet<Bytes>,
    pub(crate) shard: ShardId,
}

/// A transaction to run.
pub(crate) struct Transaction {
    pub(crate) queue: Vec<Queued>,
    pub(crate) watched: Option<Watched>,
    /// Most bytes of its replies. With more it is rolled back.
    pub(crate) reply_bytes_max: usize,
    pub(crate) dialect: Dialect,
    pub(crate) rights: Rights,
}

/// The result of a transaction, and the revision that must be durable before it is returned.
pub(crate) enum Executed {
    /// A watched key has changed.
    Aborted(Revision),
    /// It ran; commands about the connection have no reply yet.
    Ran(Vec<Option<Reply>>, Vec<Publication>, Revision),
    /// It was rolled back, for this reason.
    Undone(Fail),
    /// It did not run: this node does not serve its slot, or not now.
    Rejected(Rejection),
}

/// Adds these keys to `watch`.
pub(crate) fn watch_in(turn: &mut Turn<'_>, keys: &[Bytes], watch: &Watch) -> Reply {
    match keys.iter().try_for_each(|key| turn.watch(key, watch)) {
        Ok(()) => Reply::Ok,
        Err(error) => Reply::Error(Fail::Broken(error)),
    }
}

/// The same on another shard than that of the connection, which has checked the slot before: it may have been closed, or have moved, since.
pub(crate) fn exec_served_in(
    turn: &mut Turn<'_>,
    transaction: &Transaction,
    random: &mut Random,
    hub: &Hub,
) -> Executed {
    match hub.cluster.get().and_then(|cluster| cluster.rejection_of_queue(&transaction.queue)) {
        Some(rejection) => Executed::Rejected(rejection),
        None => exec_in(turn, transaction, random, hub),
    }
}

/// Runs a transaction on the shard of its keys, all or nothing.
pub(crate) fn exec_in(
    turn: &mut Turn<'_>,
    transaction: &Transaction,
    random: &mut Random,
    hub: &Hub,
) -> Executed {
    let mut checked_at = Revision::ZERO;
    if let Some(watched) = &transaction.watched {
        // A key that has expired has changed, which reading it detects.
        let checked = turn.run(false, |keyspace, now| {
            (watched.keys.iter().find_map(|key| keyspace.exists(key, now).err()), Completion::Commit)
        });
        match checked {
            Ok((None, seen)) => checked_at = seen,
            Ok((Some(error), _)) | Err(error) => return Executed::Undone(Fail::Broken(error)),
        }
        if watched.watch.is_touched() {
            return Executed::Aborted(checked_at);
        }
    }
    let queue = &transaction.queue;
    let writes = queue.iter().any(|queued| queued.spec.writes());
    let (shard, dialect, rights) = (turn.shard(), transaction.dialect, transaction.rights);
    let ran = turn.run(writes, |keyspace, now| {
        let ctx = Ctx { shard, dialect, rights, ..Ctx::new(keyspace, now, random, hub) };
        let ran = check_memory(queue, &ctx).and_then(|()| run_queue(queue, ctx, transaction.reply_bytes_max));
        let completion = Completion::commit_if(ran.is_ok());
        (ran, completion)
    });
    match ran {
        Ok((Ok((replies, publish)), seen)) => Executed::Ran(replies, publish, seen.max(checked_at)),
        Ok((Err(fail), _)) => Executed::Undone(fail),
        Err(error) => Executed::Undone(Fail::Broken(error)),
    }
}
