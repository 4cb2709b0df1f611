//! `WAITSINK sink timeout`: the connection waits until a target has everything that was written before. Touches the sinks.

use std::sync::Arc;
use std::time::Duration;

use keystead_commands::blocking;
use keystead_commands::errors::Fail;
use keystead_commands::{Args, Reply};
use keystead_core::{Revision, ShardId};
use keystead_engine::{Completion, Turn};

use super::execute::Execution;
use super::pending::Pending;
use super::worker::Worker;
use crate::bounds::SINK_WAIT_MAX;
use crate::call::job::Served;

/// The name of the command in its table.
pub(super) const NAME: &str = "waitsink";

impl Worker {
    /// Lets the connection wait. Requests of it that run on other shards are durable already.
    pub(super) fn wait_for_sink(&self, turn: &mut Turn<'_>, args: Args<'_>) -> Execution {
        let error = |words: String| Execution::reply(Reply::Error(Fail::text(words)));
        let name = String::from_utf8_lossy(args.at(1)).into_owned();
        let timeout = match blocking::timeout_ms(args.at(2)) {
            Ok(timeout) => timeout,
            Err(fail) => return Execution::reply(Reply::Error(fail)),
        };
        let longest = timeout.map_or(SINK_WAIT_MAX, Duration::from_millis);
        if longest > SINK_WAIT_MAX {
            return error(format!("ERR timeout is out of range: at most {} ms", SINK_WAIT_MAX.as_millis()));
        }
        let app = Arc::clone(&self.caller.app);
        if app.sinks.get().and_then(|sinks| sinks.find(&name)).is_none() {
            return error(format!("ERR there is no sink '{}'", crate::failure::one_line(&name)));
        }
        // What this connection has written on this shard may not be durable yet.
        let here = turn.run(false, |keyspace, _| (keyspace.revision(), Completion::commit_if(true)));
        let here = match here {
            Ok((revision, _)) => revision,
            Err(error) => return Execution::broken(error),
        };
        let shard = self.caller.local.shard();
        let of = |id: ShardId| (id, if id == shard { here } else { app.engine.revision(id) });
        let revisions: Vec<(ShardId, Revision)> = app.engine.shard_ids().map(of).collect();
        Execution::Pending(Pending::Sink(Box::pin(async move {
            let Some(running) = app.sinks.get().and_then(|sinks| sinks.find(&name)) else {
                return Served::plain(Reply::Int(0));
            };
            let reached = tokio::time::timeout(longest, running.reach(&revisions)).await.is_ok();
            Served::plain(Reply::Int(reached.into()))
        })))
    }
}
