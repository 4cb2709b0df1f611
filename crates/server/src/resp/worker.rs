//! What a connection runs requests with: its session, and the way to the shards. Touches nothing by itself.
//!
//! `execute` runs a request, `remote` waits for other shards, `unauthenticated` delays replies; each adds methods to [`Worker`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keystead_commands::conn::Conn;
use keystead_commands::ctx::Publication;
use keystead_commands::errors::Fail;
use keystead_commands::session::Session;
use keystead_commands::spec::{Control, Run};
use keystead_commands::wire::encode;
use keystead_commands::wire::request::ProtocolError;
use keystead_commands::{Args, Reply, Spec, dispatch};
use keystead_core::{Code, Millis, Outcome, Revision};
use tokio::time::sleep;

use super::output::Output;
use crate::app::App;
use crate::bounds::PAUSE_CHECK_INTERVAL;
use crate::call::Caller;
use crate::call::job::Served;
use crate::call::transaction::{Executed, Transaction, Watched};

/// Ends when the next request may run.
pub(super) type Paused = Pin<Box<dyn Future<Output = ()>>>;

/// What a connection runs requests with.
pub(super) struct Worker {
    pub(super) caller: Caller,
    pub(super) session: Session,
    pub(super) watched: Option<Watched>,
    /// Whether the next request has waited for a slot that is handed over.
    pub(super) has_parked: bool,
}

/// Waits until none of these slots is being handed over, for a bounded time.
pub(super) fn until_served(app: &Arc<App>, slots: Vec<u16>) -> Paused {
    let app = Arc::clone(app);
    Box::pin(async move {
        if let (Some(cluster), Some(membership)) = (app.hub.cluster.get(), app.cluster.get()) {
            membership.until_served(cluster, &slots).await;
        }
    })
}

impl Worker {
    /// Appends a reply, unless the client has turned replies off. Returns the messages that may be published at once.
    #[inline]
    pub(super) fn reply(
        &mut self,
        output: &mut Output,
        reply: &Reply,
        revision: Revision,
        durable: Revision,
        publish: Vec<Publication>,
    ) -> Vec<Publication> {
        if let Reply::Error(fail) = reply {
            self.caller.app.hub.stats.failed(fail);
        }
        if self.session.wants_reply() {
            encode(self.session.protocol, reply, &mut output.bytes);
        }
        output.mark(revision, durable, publish)
    }

    /// Appends the error for what is not a request, after which the connection is closed.
    pub(super) fn reject(&mut self, output: &mut Output, durable: Revision, error: &ProtocolError) {
        if let Some(foreign) = error.foreign {
            self.note_foreign(foreign);
        }
        let words = format!("ERR Protocol error: {}", error.words);
        encode(self.session.protocol, &Reply::Error(Fail::text(words)), &mut output.bytes);
        output.mark(Revision::ZERO, durable, Vec::new());
        self.session.closing = true;
    }

    /// What a request must wait for because one of its slots is being handed over. It waits one time, for a bounded time.
    #[inline]
    pub(super) fn park(&mut self, spec: Option<&'static Spec>, args: Args<'_>) -> Option<Paused> {
        let cluster = self.caller.app.hub.cluster.get()?;
        if !cluster.is_moving() || std::mem::take(&mut self.has_parked) {
            return None;
        }
        let slots = cluster.slots_of(&self.session, spec?, args);
        if !cluster.is_parked(&slots) {
            return None;
        }
        self.has_parked = true;
        Some(until_served(&self.caller.app, slots))
    }

    /// The same for a request that was rejected because another shard has closed its slot between the check and this. Nothing of it has run.
    #[cold]
    pub(super) fn park_rejected(&mut self, args: Args<'_>) -> Option<Paused> {
        let slots = self.caller.app.hub.cluster.get()?.slots_of_command(args);
        self.has_parked = true;
        Some(until_served(&self.caller.app, slots))
    }

    /// The time that a request must wait because of CLIENT PAUSE. CLIENT itself runs, or no client could end the pause.
    #[inline]
    pub(super) fn pause(&self, args: Args<'_>, now_ms: u64) -> Option<Paused> {
        let clients = &self.caller.app.hub.clients;
        let until = clients.paused_until.load(Ordering::Relaxed);
        if until <= now_ms || args.name().eq_ignore_ascii_case(b"CLIENT") {
            return None;
        }
        let writes = || {
            dispatch::resolve(args)
                .is_ok_and(|spec| spec.writes() || matches!(spec.full_name, "exec" | "publish" | "spublish"))
        };
        if clients.paused_writes_only.load(Ordering::Relaxed) && !writes() {
            return None;
        }
        Some(Box::pin(sleep(Duration::from_millis(until - now_ms).min(PAUSE_CHECK_INTERVAL))))
    }

    /// The reply of a transaction whose commands on keys have run, and its revision. The commands about the connection run now.
    pub(super) fn finish_exec(
        &mut self,
        transaction: &Transaction,
        executed: Executed,
        now: Millis,
    ) -> (Served, Revision) {
        let (replies, publish, seen) = match executed {
            Executed::Aborted(seen) => return (Served::plain(Reply::NilArray), seen),
            Executed::Undone(fail) => {
                let words = match fail {
                    Fail::Broken(error) if error.outcome() == Outcome::Unknown => {
                        format!("ERR The transaction may or may not have run: {error}")
                    }
                    fail if fail.code() == Some(Code::OutOfMemory) => {
                        format!("EXECABORT Transaction discarded because of: {}", fail.line())
                    }
                    fail => format!("EXECABORT Transaction undone: {}", fail.line()),
                };
                return (Served::plain(Reply::Error(Fail::text(words))), Revision::ZERO);
            }
            Executed::Rejected(rejection) => {
                return (Served::plain(Reply::Error(rejection.into())), Revision::ZERO);
            }
            Executed::Ran(replies, publish, seen) => (replies, publish, seen),
        };
        let all =
            transaction.queue.iter().zip(replies).map(|(queued, reply)| match (reply, queued.spec.run) {
                (Some(reply), _) => reply,
                (None, Run::Control(Control::Unwatch)) => Reply::Ok,
                (None, _) => {
                    let mut conn = Conn::new(&mut self.session, &self.caller.app.hub, now);
                    dispatch::run_conn(&mut conn, queued.spec, queued.command.args())
                }
            });
        (Served { reply: Reply::Array(all.collect()), publish, in_vain: false }, seen)
    }
}
