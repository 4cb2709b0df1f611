//! A batch as one transaction of a session with an SQL server: first the position, whose row is then locked, then the rows. Touches the
//! session only.

use std::future::Future;
use std::ops::ControlFlow;

use keystead_core::{Code, Error, Result};

use crate::batch::{Batch, Rejection, Written};
use crate::bounds::REJECTIONS_MAX;
use crate::layout::Layout;
use crate::statement::{Dialect, Statement, prepare, writes};
use crate::table::Table;
use crate::{log, positions};

/// Why a statement failed.
pub(crate) enum Failed {
    /// Because of some row: the reason of the target.
    Row(String),
    Call(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Row(reason) => Error::new(Code::StoreUnavailable, reason),
            Failed::Call(error) => error,
        }
    }
}

pub(crate) type Call<T> = std::result::Result<T, Failed>;

/// A session with an SQL server.
pub(crate) trait Session: Send {
    /// Begins a transaction in which each statement finds out at once what it violates.
    const BEGIN_TRIAL: &'static str;

    /// Runs a statement without parameters.
    fn command(&mut self, sql: &str) -> impl Future<Output = Call<()>> + Send;

    /// Runs a statement, and returns how many rows it has changed.
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Call<u64>> + Send;
}

/// Runs statements as one transaction, and returns how many rows they have changed.
pub(crate) async fn transaction(session: &mut impl Session, statements: &[Statement]) -> Result<u64> {
    session.command("BEGIN").await?;
    let mut changed = 0;
    for statement in statements {
        changed += session.execute(statement).await?;
    }
    session.command("COMMIT").await?;
    Ok(changed)
}

/// Writes a batch to a table.
pub(crate) struct Writer<'w, S> {
    pub(crate) session: &'w mut S,
    pub(crate) dialect: &'w Dialect,
    pub(crate) layout: &'w Layout,
    pub(crate) table: &'w Table,
    pub(crate) batch: &'w Batch,
}

impl<S: Session> Writer<'_, S> {
    pub(crate) async fn write(mut self) -> Result<Written> {
        let sorted = prepare(self.layout, self.table, self.batch.rows.iter().enumerate());
        if !sorted.rejected.is_empty() {
            return Ok(Written::Rejected(sorted.rejected));
        }
        let statements = writes(self.table, self.dialect, self.batch.next.batch, &sorted);
        match self.transaction(&statements).await {
            Ok(ControlFlow::Continue(())) => Ok(Written::Done),
            Ok(ControlFlow::Break(fenced)) => Ok(fenced),
            Err(Failed::Call(error)) => Err(error),
            Err(Failed::Row(reason)) => {
                self.session.command("ROLLBACK").await?;
                let rejections = self.find_rejected().await;
                self.session.command("ROLLBACK").await?;
                match rejections? {
                    // All rows together are rejected, and none of them alone.
                    none if none.is_empty() => Err(Error::new(Code::StoreUnavailable, reason)),
                    rejections => Ok(Written::Rejected(rejections)),
                }
            }
        }
    }

    async fn transaction(&mut self, statements: &[Statement]) -> Call<ControlFlow<Written>> {
        self.session.command("BEGIN").await?;
        let advance = positions::advance(self.dialect, &self.layout.sink, self.batch);
        if self.session.execute(&advance).await? == 0 {
            self.session.command("ROLLBACK").await?;
            return Ok(ControlFlow::Break(Written::Fenced));
        }
        self.run(statements).await?;
        if let Some(last) = log::sql::advance(self.layout, self.dialect, self.batch) {
            self.session.execute(&last).await?;
        }
        self.session.command("COMMIT").await?;
        Ok(ControlFlow::Continue(()))
    }

    async fn run(&mut self, statements: &[Statement]) -> Call<()> {
        for statement in statements {
            let changed = self.session.execute(statement).await?;
            if let Some((expected, missing)) = &statement.otherwise
                && changed < *expected
            {
                self.session.execute(missing).await?;
            }
        }
        Ok(())
    }

    /// Halves the rows until those that the target rejects are alone. Leaves a transaction open.
    async fn find_rejected(&mut self) -> Result<Vec<Rejection>> {
        let rows = &self.batch.rows;
        self.session.command(S::BEGIN_TRIAL).await?;
        let mut rejected = Vec::new();
        let all = 0..rows.len();
        let mut parts = vec![all];
        while let Some(part) = parts.pop() {
            if rejected.len() >= REJECTIONS_MAX || part.is_empty() {
                continue;
            }
            self.session.command("SAVEPOINT part").await?;
            let sorted = prepare(self.layout, self.table, part.clone().map(|row| (row, &rows[row])));
            match self.run(&writes(self.table, self.dialect, self.batch.next.batch, &sorted)).await {
                Ok(()) => continue,
                Err(Failed::Call(error)) => return Err(error),
                Err(Failed::Row(reason)) if part.len() == 1 => {
                    rejected.push(Rejection::new(part.start, &reason));
                }
                Err(Failed::Row(_)) => {
                    let middle = part.start + part.len() / 2;
                    // The first half is next, so that rows are tried in their order.
                    parts.extend([middle..part.end, part.start..middle]);
                }
            }
            self.session.command("ROLLBACK TO SAVEPOINT part").await?;
        }
        Ok(rejected)
    }
}
