//! Several commands as one: all or nothing. It touches the keyspace.

use crate::ctx::{Ctx, Publication};
use crate::dispatch::run_data;
use crate::errors::{self, Fail};
use crate::reply::Reply;
use crate::reply_budget::ReplyBudget;
use crate::session::Queued;
use crate::spec::{Run, flag};

/// Whether the changes of a request stay: an ordinary error changed nothing, a failure is rolled back.
#[must_use]
pub fn keeps(reply: &Reply) -> bool {
    !matches!(reply, Reply::Error(fail) if fail.undoes())
}

/// As in Redis, a transaction with a command that could add memory does not begin when the bound is reached, and is not stopped half
/// way.
///
/// # Errors
/// That of Redis.
pub fn check_memory(queue: &[Queued], ctx: &Ctx<'_>) -> Result<(), Fail> {
    let adds = || queue.iter().any(|queued| queued.spec.flags.has(flag::DENY_OOM));
    if ctx.out_of_memory && adds() { Err(errors::OUT_OF_MEMORY) } else { Ok(()) }
}

/// The replies of commands, and the messages that they publish.
pub type Replies = (Vec<Option<Reply>>, Vec<Publication>);

/// Runs the commands of a transaction on keys and on the hub. Those about the connection run later on its own loop: `None`.
///
/// # Errors
/// Why all of it must be rolled back: a command failed half way, or the replies are too large.
pub fn run_queue(queue: &[Queued], mut ctx: Ctx<'_>, reply_bytes_max: usize) -> Result<Replies, Fail> {
    ctx.may_wait = false;
    let mut budget = ReplyBudget::new(reply_bytes_max);
    let mut replies = Vec::with_capacity(queue.len());
    for queued in queue {
        let args = queued.command.args();
        let reply = match queued.spec.run {
            Run::Data(_) => {
                // Commands of a transaction do not wait; a wait of one must not be taken for the next one's.
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
