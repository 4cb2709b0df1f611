//! A connection that no shard's loop has: its loop is busy with a long command, or the database is not open yet. The listener serves
//! the commands that need no keys. Touches its socket.
//!
//! Requests stay in order. One that needs the loop gets `LOADING`, or `BUSY` once the shard has been busy for too long; until then it
//! waits with all requests behind it, and moves with the connection to the loop.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use keystead_commands::conn::Conn;
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::errors::{Fail, LOADING, WRONG_PASS};
use keystead_commands::hub::Hub;
use keystead_commands::session::{Replies, Session};
use keystead_commands::wire::encode;
use keystead_commands::wire::request::Bounds;
use keystead_commands::{Args, Reply};
use keystead_core::{Clock, ShardId, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::input::Input;
use super::unauthenticated::{self, Deadline};
use crate::app::App;
use crate::bounds::{REJECTION_TIMEOUT, RESP_OUTPUT_KEPT_BYTES, RESP_WAITING_INPUT_BYTES};
use crate::handover;
use crate::starting::Starting;

/// Commands that need no keys, by their full names: authentication, ending a script or the server, and what clients send when they
/// connect. Redis serves the same while it is busy.
const SERVED: &[&str] = &[
    "auth",
    "hello",
    "quit",
    "reset",
    "script|kill",
    "function|kill",
    "shutdown",
    "client|setinfo",
    "client|setname",
];

/// What is served beside while the database loads. Redis serves more, such as MULTI and SUBSCRIBE.
const SERVED_LOADING: &[&str] = &[
    "info",
    "select",
    "client|id",
    "client|getname",
    "command|count",
    "command|docs",
    "command|info",
    "command|list",
    "config|get",
];

/// Why no loop has a connection.
pub(super) enum Why<'a> {
    /// The loop of this shard is busy.
    Busy(&'a App, ShardId),
    /// The database is not open yet.
    Loading(&'a Starting),
}

impl Why<'_> {
    fn serves(&self, command: &str) -> bool {
        SERVED.contains(&command) || matches!(self, Why::Loading(_)) && SERVED_LOADING.contains(&command)
    }

    /// The error for a request that needs a loop, if it must not wait any longer.
    fn error(&self) -> Option<Fail> {
        match self {
            Why::Busy(app, shard) => handover::is_busy(app, *shard).then(|| app.hub.busy()),
            Why::Loading(_) => Some(LOADING),
        }
    }

    /// The error for a request that needs a loop and cannot wait.
    fn error_at_once(&self) -> Fail {
        match self {
            Why::Busy(app, _) => app.hub.busy(),
            Why::Loading(_) => LOADING,
        }
    }

    async fn until_error(&self) {
        match self {
            Why::Busy(app, shard) => handover::until_busy(app, *shard).await,
            Why::Loading(_) => {}
        }
    }

    /// Waits until a loop can take the connection.
    async fn until_over(&self) {
        match self {
            Why::Busy(app, shard) => handover::loop_is_free(&app.engine, *shard).await,
            Why::Loading(starting) => drop(starting.opened().await),
        }
    }

    /// Waits until the connection must end.
    pub(super) async fn stopping(&self) {
        match self {
            Why::Busy(app, _) => app.stopping().await,
            // The process ends at once.
            Why::Loading(_) => pending().await,
        }
    }
}

/// The session of a connection that no loop has yet, and its entry in the list of clients, which is removed on drop.
pub(super) struct Listed {
    hub: Arc<Hub>,
    session: Option<Session>,
    /// Requests that were read and not run.
    pub(super) input: Input,
}

impl Listed {
    pub(super) fn new(hub: Arc<Hub>, session: Session) -> Self {
        Listed { hub, session: Some(session), input: Input::default() }
    }

    /// The session and the input, for a connection that removes the entry itself.
    pub(super) fn leave(mut self) -> Option<(Session, Input)> {
        Some((self.session.take()?, std::mem::take(&mut self.input)))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take() {
            session.leave(&self.hub);
            self.hub.clients.remove(session.client.id);
        }
    }
}

/// Why the listener no longer serves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A loop can take it.
    LoopIsFree,
    /// It must be closed.
    Closed,
}

/// What to do after requests have been served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Send the replies, and serve more.
    Serve,
    /// Read more.
    Read,
    /// Wait: a request needs the loop.
    Wait,
    /// Close the connection.
    Close,
    /// Close it after a delay: the token was wrong.
    CloseDelayed,
}

/// Serves a connection until a loop can take it.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    listed: &mut Listed,
    why: &Why<'_>,
) -> Ended {
    let mut over = std::pin::pin!(why.until_over());
    let mut deadline = Deadline::default();
    loop {
        let mut output = Vec::new();
        let next = listed.serve_complete(why, &mut output);
        if next == Next::CloseDelayed {
            sleep(REJECTION_TIMEOUT).await;
        }
        if !output.is_empty() {
            let sent = async {
                stream.write_all(&output).await?;
                stream.flush().await
            };
            if !matches!(timeout(REJECTION_TIMEOUT, sent).await, Ok(Ok(()))) {
                return Ended::Closed;
            }
        }
        if next == Next::Serve {
            continue;
        }
        let Listed { session: Some(session), input, .. } = listed else { return Ended::Closed };
        let closes = matches!(next, Next::Close | Next::CloseDelayed);
        if closes || unauthenticated::is_too_long(session, input) {
            let _ = timeout(REJECTION_TIMEOUT, stream.shutdown()).await;
            return Ended::Closed;
        }
        // Of a larger request, the rest is not read yet.
        let reads = next == Next::Read && input.len() < RESP_WAITING_INPUT_BYTES;
        let too_late =
            poll_fn(|cx| if deadline.is_over(session, cx) { Poll::Ready(()) } else { Poll::Pending });
        tokio::select! {
            biased;
            () = why.stopping() => return Ended::Closed,
            () = over.as_mut() => return Ended::LoopIsFree,
            () = too_late => return Ended::Closed,
            read = stream.read(input.space()), if reads => match read {
                Ok(count) if count > 0 => input.filled(count),
                _ => return Ended::Closed,
            },
            () = why.until_error(), if next == Next::Wait => {}
        }
    }
}

impl Listed {
    /// Serves the complete requests in order, up to the first that needs the loop.
    fn serve_complete(&mut self, why: &Why<'_>, output: &mut Vec<u8>) -> Next {
        let Listed { hub, session: Some(session), input } = self else { return Next::Close };
        loop {
            if session.closing || session.client.is_killed() {
                return Next::Close;
            }
            if output.len() >= RESP_OUTPUT_KEPT_BYTES {
                return Next::Serve;
            }
            let bulk_bytes_max = hub.config.bulk_bytes_max();
            let request = match input.next(Bounds { bulk_bytes_max, trusted: session.authenticated }) {
                Ok(Some(request)) => request,
                Ok(None) => return Next::Read,
                Err(error) => {
                    let fail = Fail::text(format!("ERR Protocol error: {}", error.words));
                    encode(session.protocol, &Reply::Error(fail), output);
                    return Next::Close;
                }
            };
            let (args, len) = (request.args(), request.len());
            if !args.is_empty() {
                let Some(reply) = serve_one(hub, session, why, args) else { return Next::Wait };
                if session.replies == Replies::On {
                    encode(session.protocol, &reply, output);
                }
                // One attempt per connection: they are not counted here.
                if matches!(&reply, Reply::Error(fail) if fail.line() == WRONG_PASS.line()) {
                    return Next::CloseDelayed;
                }
            }
            input.advance(len);
        }
    }
}

/// The reply to one request, or none if it may still run on the loop.
fn serve_one(hub: &Hub, session: &mut Session, why: &Why<'_>, args: Args<'_>) -> Option<Reply> {
    let served = dispatch::resolve(args).is_ok_and(|spec| why.serves(spec.full_name));
    if !served && (session.authenticated || !hub.host.needs_token()) {
        return why.error().map(|fail| failed(hub, fail));
    }
    Some(match dispatch::plan(session, hub, args) {
        Plan::Reply(reply) | Plan::Unwatch(reply) => reply,
        Plan::Conn(spec) => dispatch::run_conn(&mut Conn::new(session, hub, SystemClock.now()), spec, args),
        Plan::Data(_) | Plan::Exec | Plan::Watch => failed(hub, why.error_at_once()),
    })
}

fn failed(hub: &Hub, fail: Fail) -> Reply {
    hub.stats.failed(&fail);
    Reply::Error(fail)
}

#[cfg(test)]
mod tests {
    use keystead_commands::spec::Run;
    use keystead_commands::table;

    use super::*;

    #[test]
    fn what_is_served_exists_and_touches_no_key() {
        for name in SERVED.iter().chain(SERVED_LOADING) {
            let words: Vec<&str> = name.split('|').collect();
            let mut spec = table::find(words[0].as_bytes()).unwrap();
            if let Run::Within(rows) = spec.run {
                spec = table::find_within(rows, words[1].as_bytes()).unwrap();
            }
            assert_eq!(spec.full_name, *name);
            assert!(!matches!(spec.run, Run::Data(_) | Run::Within(_)), "{name}");
        }
    }
}
