//! What a connection gets that has not brought the token: little room, little time, and late answers to wrong tokens. It touches a
//! timer.
//!
//! Only wrong tokens are answered late, so nobody who guesses keeps others from being let in.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use keystead_commands::session::Session;
use keystead_commands::wire::foreign::Foreign;
use keystead_core::Revision;
use tokio::time::{Sleep, sleep};

use super::connection::Worker;
use super::input::Input;
use super::output::Output;
use crate::bounds::{
    AUTH_FAILURE_DELAY, AUTH_FAILURES_MAX, AUTH_TIMEOUT, STRANGER_INPUT_BYTES_MAX, STRANGER_OUTPUT_BYTES_MAX,
};
use crate::call::job::Served;

/// The time that a connection has to bring the token.
#[derive(Default)]
pub(super) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Whether the time is up; wakes when it is.
    #[inline]
    pub(super) fn is_over(&mut self, session: &Session, cx: &mut Context<'_>) -> bool {
        if session.authenticated {
            // RESET makes a stranger again, with new time.
            self.0 = None;
            return false;
        }
        let end = self.0.get_or_insert_with(|| Box::pin(sleep(AUTH_TIMEOUT)));
        end.as_mut().poll(cx).is_ready()
    }
}

/// Whether a stranger must read its answers before it gets more.
#[inline]
pub(super) fn must_read(session: &Session, output: &Output) -> bool {
    !session.authenticated && output.len() > STRANGER_OUTPUT_BYTES_MAX
}

/// Whether a stranger has sent more than one request may have.
#[inline]
pub(super) fn is_too_long(session: &Session, input: &Input) -> bool {
    !session.authenticated && input.len() >= STRANGER_INPUT_BYTES_MAX
}

/// An answer that is kept back for a while.
pub(super) struct Late {
    until: Pin<Box<Sleep>>,
    answer: Option<(Served, Revision)>,
}

impl Late {
    /// What came, when the time is up.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Served, Revision)>> {
        ready!(self.until.as_mut().poll(cx));
        Poll::Ready(self.answer.take())
    }
}

impl Worker {
    /// Keeps back the answer to a wrong token, and makes it the last one after too many.
    #[cold]
    pub(super) fn keep_back(&mut self, served: Served, revision: Revision) -> Late {
        let session = &mut self.session;
        session.delay_reply = false;
        session.closing |= session.auth_failures >= AUTH_FAILURES_MAX;
        let app = &self.caller.app;
        if let Some(more) = app.notices.wrong_token.pass(app.now()) {
            tracing::warn!(client = session.client.address, more, "a Redis client brought a wrong token");
        }
        Late { until: Box::pin(sleep(AUTH_FAILURE_DELAY)), answer: Some((served, revision)) }
    }

    /// Notes that a client speaks another protocol.
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
                    "HTTP came to the Redis port, perhaps from a web page that wants to run commands: closed, nothing of it has run"
                ),
                Foreign::Binary => tracing::warn!(
                    client,
                    more,
                    "TLS or other binary data came to the Redis port, which is without TLS: closed, nothing of it has run"
                ),
            }
        }
    }
}
