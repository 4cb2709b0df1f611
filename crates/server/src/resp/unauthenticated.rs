//! Clients before AUTH: little memory, little time, and delayed replies to wrong tokens. Touches a timer.
//!
//! Only replies to wrong tokens are delayed, so a client that guesses does not keep others from authenticating.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use keystead_commands::session::Session;
use keystead_commands::wire::foreign::Foreign;
use keystead_core::Revision;
use tokio::time::{Sleep, sleep};

use super::input::Input;
use super::output::Output;
use super::worker::Worker;
use crate::bounds::{
    AUTH_FAILURE_DELAY, AUTH_FAILURES_MAX, AUTH_TIMEOUT, UNAUTHENTICATED_INPUT_BYTES_MAX,
    UNAUTHENTICATED_OUTPUT_BYTES_MAX,
};
use crate::call::job::Served;

/// The time that a client has for AUTH.
#[derive(Default)]
pub(crate) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Whether the time is up. Wakes the task when it is.
    #[inline]
    pub(crate) fn is_over(&mut self, session: &Session, cx: &mut Context<'_>) -> bool {
        if session.authenticated {
            // After RESET the time starts again.
            self.0 = None;
            return false;
        }
        let end = self.0.get_or_insert_with(|| Box::pin(sleep(AUTH_TIMEOUT)));
        end.as_mut().poll(cx).is_ready()
    }
}

/// Whether a client before AUTH must read its replies before more requests run.
#[inline]
pub(super) fn must_read(session: &Session, output: &Output) -> bool {
    !session.authenticated && output.len() > UNAUTHENTICATED_OUTPUT_BYTES_MAX
}

/// Whether a client before AUTH has sent a request that is too long.
#[inline]
pub(super) fn is_too_long(session: &Session, input: &Input) -> bool {
    !session.authenticated && input.len() >= UNAUTHENTICATED_INPUT_BYTES_MAX
}

/// A reply that is delayed.
pub(super) struct Delayed {
    until: Pin<Box<Sleep>>,
    reply: Option<(Served, Revision)>,
}

impl Delayed {
    /// The reply, when the time is up.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Served, Revision)>> {
        ready!(self.until.as_mut().poll(cx));
        Poll::Ready(self.reply.take())
    }
}

impl Worker {
    /// Delays the reply to a wrong token. After too many, the connection is closed with it.
    #[cold]
    pub(super) fn delay(&mut self, served: Served, revision: Revision) -> Delayed {
        let session = &mut self.session;
        session.delay_reply = false;
        session.closing |= session.auth_failures >= AUTH_FAILURES_MAX;
        let app = &self.caller.app;
        if let Some(more) = app.notices.wrong_token.pass(app.now()) {
            tracing::warn!(client = session.client.address, more, "a Redis client sent a wrong token");
        }
        Delayed { until: Box::pin(sleep(AUTH_FAILURE_DELAY)), reply: Some((served, revision)) }
    }

    /// Logs and counts a client that speaks another protocol.
    #[cold]
    pub(super) fn note_foreign(&self, foreign: Foreign) {
        let app = &self.caller.app;
        app.metrics.resp_foreign.inc();
        if let Some(more) = app.notices.foreign.pass(app.now()) {
            let client = &self.session.client.address;
            match foreign {
                Foreign::Http => tracing::warn!(
                    client,
                    more,
                    "HTTP request on the Redis port, perhaps from a web page that tries to run commands: closed, nothing of it was run"
                ),
                Foreign::Binary => tracing::warn!(
                    client,
                    more,
                    "TLS or other binary data on the Redis port, which is without TLS: closed, nothing of it was run"
                ),
            }
        }
    }
}
