//! A connection whose shard's loop is busy with a long command: the listener serves the commands that need no keys. Touches its socket.
//!
//! Requests stay in order. One that needs the loop gets `BUSY` once the shard has been busy for too long; until then it waits with all
//! requests behind it, and moves with the connection to the loop.

use std::sync::Arc;

use keystead_commands::conn::Conn;
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::errors::{Fail, WRONG_PASS};
use keystead_commands::session::{Replies, Session};
use keystead_commands::wire::encode;
use keystead_commands::wire::request::Bounds;
use keystead_commands::{Args, Reply};
use keystead_core::ShardId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::input::Input;
use crate::app::App;
use crate::bounds::{REJECTION_TIMEOUT, RESP_WAITING_INPUT_BYTES};
use crate::handover;

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

/// The session of a connection that no loop has yet, and its entry in the list of clients, which is removed on drop.
pub(super) struct Listed {
    pub(super) app: Arc<App>,
    session: Option<Session>,
    /// Requests that were read and not run.
    pub(super) input: Input,
}

impl Listed {
    pub(super) fn new(app: Arc<App>, session: Session) -> Self {
        Listed { app, session: Some(session), input: Input::default() }
    }

    /// The session and the input, for a connection that removes the entry itself.
    pub(super) fn leave(mut self) -> Option<(Session, Input)> {
        Some((self.session.take()?, std::mem::take(&mut self.input)))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(mut session) = self.session.take() {
            session.leave(&self.app.hub);
            self.app.hub.clients.remove(session.client.id);
        }
    }
}

/// Why the listener no longer serves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The loop is free and can take it.
    LoopIsFree,
    /// It must be closed.
    Closed,
}

/// What to do after the complete requests have been served.
enum Next {
    /// Read more.
    Read,
    /// Wait: a request needs the loop.
    Wait,
    /// Close the connection.
    Close,
    /// Close it after a delay: the token was wrong.
    CloseDelayed,
}

/// Serves a connection until its shard's loop is free.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    listed: &mut Listed,
    shard: ShardId,
) -> Ended {
    let app = Arc::clone(&listed.app);
    let mut loop_is_free = std::pin::pin!(handover::loop_is_free(&app.engine, shard));
    loop {
        let mut output = Vec::new();
        let next = listed.serve_complete(shard, &mut output);
        if matches!(next, Next::CloseDelayed) {
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
        // Of a larger request, the rest is not read yet.
        let reads = matches!(next, Next::Read) && listed.input.len() < RESP_WAITING_INPUT_BYTES;
        let waits = matches!(next, Next::Wait);
        if matches!(next, Next::Close | Next::CloseDelayed) {
            let _ = timeout(REJECTION_TIMEOUT, stream.shutdown()).await;
            return Ended::Closed;
        }
        tokio::select! {
            biased;
            () = app.stopping() => return Ended::Closed,
            () = loop_is_free.as_mut() => return Ended::LoopIsFree,
            read = stream.read(listed.input.space()), if reads => match read {
                Ok(count) if count > 0 => listed.input.filled(count),
                _ => return Ended::Closed,
            },
            () = handover::until_busy(&app, shard), if waits => {}
        }
    }
}

impl Listed {
    /// Serves the complete requests in order, up to the first that needs the loop.
    fn serve_complete(&mut self, shard: ShardId, output: &mut Vec<u8>) -> Next {
        let Listed { app, session: Some(session), input } = self else { return Next::Close };
        loop {
            if session.closing || session.client.is_killed() {
                return Next::Close;
            }
            let bulk_bytes_max = app.hub.config.bulk_bytes_max();
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
                let Some(reply) = serve_one(app, session, shard, args) else { return Next::Wait };
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
fn serve_one(app: &App, session: &mut Session, shard: ShardId, args: Args<'_>) -> Option<Reply> {
    let served = dispatch::resolve(args).is_ok_and(|spec| SERVED.contains(&spec.full_name));
    if !served && (session.authenticated || !app.hub.host.needs_token()) {
        return handover::is_busy(app, shard).then(|| busy(app));
    }
    Some(match dispatch::plan(session, &app.hub, args) {
        Plan::Reply(reply) | Plan::Unwatch(reply) => reply,
        Plan::Conn(spec) => dispatch::run_conn(&mut Conn::new(session, &app.hub, app.now()), spec, args),
        Plan::Data(_) | Plan::Exec | Plan::Watch => busy(app),
    })
}

fn busy(app: &App) -> Reply {
    let fail: Fail = app.hub.busy();
    app.hub.stats.failed(&fail);
    Reply::Error(fail)
}
