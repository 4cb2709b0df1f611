//! Commands as one atomic step: MULTI, and then the commands with EXEC, on a connection of their own.

use keystead_core::Result;
use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::super::cluster::{Asking, Route};
use super::super::failure::Failure;
use super::{Call, Upstream, before, error_line, exclusive, full, redirection, send};

/// What became of a transaction.
#[derive(Debug)]
pub enum Ran {
    /// It ran. An error reply of one command is a `Value`.
    Replies(Vec<Value>),
    /// The server rejected a command, so none of them ran. This is its error.
    Aborted(String),
}

/// What one node made of it.
enum Sent {
    Ran(Ran),
    /// None of them ran: another node has the slot.
    Redirected(Failure),
}

impl Upstream {
    /// Runs commands as a transaction. On a cluster, all their keys are in this slot.
    ///
    /// # Errors
    /// `queue_full`, `store_unavailable` or `too_large`: not applied, or of unknown outcome.
    pub async fn transaction(&self, slot: Option<u16>, calls: Vec<Call>) -> Result<Ran> {
        let _permit = self.calls.try_acquire().map_err(|_| full("requests"))?;
        let end = self.end();
        let mut commands = Pipeline::with_capacity(calls.len() + 1);
        for call in calls {
            commands.add_command(call.command);
        }
        commands.cmd("EXEC");
        let ran = self.run_transaction(slot.unwrap_or(0), &commands, end).await;
        ran.map_err(|failure| self.error(&failure))
    }

    async fn run_transaction(&self, slot: u16, commands: &Pipeline, end: Instant) -> Result<Ran, Failure> {
        let mut route = before(end, self.cluster.route_to(slot)).await?;
        loop {
            let failure = match self.send_transaction(&route, commands, end).await {
                Ok(Sent::Ran(ran)) => return Ok(ran),
                Ok(Sent::Redirected(moved)) => moved,
                Err(failure) => failure,
            };
            before(end, route.follow(failure)).await?;
        }
    }

    async fn send_transaction(
        &self,
        route: &Route<'_>,
        commands: &Pipeline,
        end: Instant,
    ) -> Result<Sent, Failure> {
        let mut connection = exclusive(&route.node, end).await?;
        let mut multi = Pipeline::new();
        if route.asking == Asking::Yes {
            // In a transaction it is true for all commands.
            multi.cmd("ASKING");
        }
        multi.cmd("MULTI");
        // If MULTI is rejected, for example by an ACL, the commands must not be sent: they would run one by one.
        let begun = send(&mut connection, &multi, end).await.map_err(|failure| match failure {
            Failure::Lost(message) => Failure::NotSent(message),
            other => other,
        })?;
        if let Some(Value::ServerError(error)) = begun.into_iter().next_back() {
            connection.give_back();
            return Ok(Sent::Ran(Ran::Aborted(error_line(error.code(), error.details()))));
        }
        let mut replies = send(&mut connection, commands, end).await?;
        let executed = replies.pop();
        let sent = match executed {
            Some(Value::Array(replies)) => Sent::Ran(Ran::Replies(replies)),
            Some(Value::ServerError(error)) => self.aborted(&replies, &Value::ServerError(error)),
            _ => return Err(Failure::Lost("the reply of EXEC is not one".to_owned())),
        };
        connection.give_back();
        Ok(sent)
    }

    /// Why EXEC was rejected: because of the first command that was, if one was.
    fn aborted(&self, queued: &[Value], executed: &Value) -> Sent {
        let why = queued.iter().find(|reply| matches!(reply, Value::ServerError(_))).unwrap_or(executed);
        match redirection(why) {
            Some(moved) if self.is_cluster() => Sent::Redirected(moved),
            _ => match why {
                Value::ServerError(error) => {
                    Sent::Ran(Ran::Aborted(error_line(error.code(), error.details())))
                }
                _ => Sent::Ran(Ran::Aborted("EXECABORT Transaction discarded.".to_owned())),
            },
        }
    }
}
