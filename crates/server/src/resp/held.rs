//! A connection whose shard's loop is at a command that takes long: the listener answers what needs no keys. Touches its socket.
//!
//! Requests stay in order: one that needs a loop is answered `BUSY` once the shard has been busy for too long; until then it waits
//! with all that came behind it, and goes with the connection to the loop.

use std::sync::Arc;

use keystead_commands::conn::Conn;
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::errors::{Fail, WRONG_PASS};
use keystead_commands::session::{Replies, Session};
use keystead_commands::wire::encode;
use keystead_commands::wire::request::Bounds;
use keystead_commands::{Args, Reply};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::input::Input;
use crate::app::App;
use crate::bounds::{REJECTION_TIMEOUT, RESP_WAITING_INPUT_BYTES};
use crate::handover;

/// What touches no key, as it stands in the table: to come in, to end a script or the server, and what clients say of themselves
/// when they connect. Redis answers the same while it is busy.
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

/// What a connection remembers, in a row of the list of clients which ends with it.
pub(super) struct Listed {
    pub(super) app: Arc<App>,
    session: Option<Session>,
    /// What was read and not run.
    pub(super) input: Input,
}

impl Listed {
    pub(super) fn new(app: Arc<App>, session: Session) -> Self {
        Listed { app, session: Some(session), input: Input::default() }
    }

    /// The session and the input, for a connection that ends the row itself.
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
    /// The loop goes on, and may have it.
    GoesOn,
    /// It is to be closed.
    Closed,
}

/// Whether more is to be read before a request can be answered.
enum Next {
    /// Everything that is complete was answered.
    Read,
    /// A request needs a loop, and waits.
    Wait,
    /// Nothing more is to be answered.
    Close,
    /// The same, after a while: the token was wrong.
    CloseLate,
}

/// Serves a connection until its shard's loop goes on.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    listed: &mut Listed,
    shard: usize,
) -> Ended {
    let app = Arc::clone(&listed.app);
    let mut goes_on = std::pin::pin!(handover::goes_on(&app.engine, shard));
    loop {
        let mut output = Vec::new();
        let next = listed.answer(shard, &mut output);
        if matches!(next, Next::CloseLate) {
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
        // Of a request that is larger the rest stays with the client.
        let reads = matches!(next, Next::Read) && listed.input.len() < RESP_WAITING_INPUT_BYTES;
        let waits = matches!(next, Next::Wait);
        if matches!(next, Next::Close | Next::CloseLate) {
            let _ = timeout(REJECTION_TIMEOUT, stream.shutdown()).await;
            return Ended::Closed;
        }
        tokio::select! {
            biased;
            () = app.stopping() => return Ended::Closed,
            () = goes_on.as_mut() => return Ended::GoesOn,
            read = stream.read(listed.input.room()), if reads => match read {
                Ok(count) if count > 0 => listed.input.filled(count),
                _ => return Ended::Closed,
            },
            () = handover::until_busy(&app, shard), if waits => {}
        }
    }
}

impl Listed {
    /// Answers what is complete, in order, as far as that needs no loop.
    fn answer(&mut self, shard: usize, output: &mut Vec<u8>) -> Next {
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
                let Some(reply) = answer_one(app, session, shard, args) else { return Next::Wait };
                if session.replies == Replies::On {
                    encode(session.protocol, &reply, output);
                }
                // One guess a connection: nobody counts them here.
                if matches!(&reply, Reply::Error(fail) if fail.line() == WRONG_PASS.line()) {
                    return Next::CloseLate;
                }
            }
            input.advance(len);
        }
    }
}

/// The answer to one request, or nothing where it may still reach a loop.
fn answer_one(app: &App, session: &mut Session, shard: usize, args: Args<'_>) -> Option<Reply> {
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
