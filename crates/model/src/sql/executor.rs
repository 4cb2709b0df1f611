//! The SQL executor: everything that the archive needs of a database.
//!
//! What it touches depends on the implementation. A statement is a constant, so that it is prepared once and cached by its text.

use keystead_core::{Code, Error, Millis, Result};

/// Runs statements. Transactions are managed by the caller.
pub trait Sql {
    /// Runs a statement and returns how many rows it changed.
    ///
    /// # Errors
    /// `store_unavailable` when the database fails, `corrupt` when it is damaged.
    fn run(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64>;

    /// Runs a query and passes each row to `row`.
    ///
    /// # Errors
    /// As [`run`](Sql::run), and the first error of `row`, which ends the query.
    fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<()>,
    ) -> Result<()>;
}

/// A value that is bound to a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// NULL.
    Null,
    /// INTEGER.
    Int(i64),
    /// REAL.
    Real(f64),
    /// TEXT.
    Text(&'a str),
    /// BLOB.
    Blob(&'a [u8]),
}

/// A value of a result row.
pub type Cell<'a> = Param<'a>;

impl<'a> Param<'a> {
    /// An unsigned number. SQL has none, so the upper half wraps to negative numbers.
    #[must_use]
    pub const fn uint(n: u64) -> Self {
        Param::Int(n as i64)
    }

    /// A time; NULL for [`Millis::NEVER`].
    #[must_use]
    pub fn moment(at: Millis) -> Self {
        if at == Millis::NEVER { Param::Null } else { Param::uint(at.0) }
    }

    /// A row id.
    #[must_use]
    pub fn id(id: u32) -> Self {
        Param::Int(i64::from(id))
    }
}

/// A row, read cell by cell. A cell of an unexpected type is `corrupt`.
pub(super) struct Row<'a>(pub(super) &'a [Cell<'a>]);

impl<'a> Row<'a> {
    fn cell(&self, column: usize) -> Result<Cell<'a>> {
        self.0.get(column).copied().ok_or_else(|| unexpected("a row has too few columns"))
    }

    pub(super) fn int(&self, column: usize) -> Result<i64> {
        match self.cell(column)? {
            Cell::Int(n) => Ok(n),
            // A Durable Object returns every number as a double.
            Cell::Real(n) if n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0 => Ok(n as i64),
            // And those that a double cannot hold as text.
            Cell::Text(text) => text.parse().map_err(|_| unexpected("an archived number is not an integer")),
            _ => Err(unexpected("an archived number is not an integer")),
        }
    }

    pub(super) fn uint(&self, column: usize) -> Result<u64> {
        self.int(column).map(|n| n as u64)
    }

    pub(super) fn id(&self, column: usize) -> Result<u32> {
        u32::try_from(self.int(column)?).map_err(|_| unexpected("an archived row id is too large"))
    }

    pub(super) fn real(&self, column: usize) -> Result<f64> {
        match self.cell(column)? {
            Cell::Real(n) if !n.is_nan() => Ok(n),
            Cell::Int(n) => Ok(n as f64),
            Cell::Text(text) => text.parse().map_err(|_| unexpected("an archived number is not a double")),
            _ => Err(unexpected("an archived number is not a double")),
        }
    }

    pub(super) fn is_null(&self, column: usize) -> Result<bool> {
        Ok(self.cell(column)? == Cell::Null)
    }

    pub(super) fn moment(&self, column: usize) -> Result<Millis> {
        if self.is_null(column)? { Ok(Millis::NEVER) } else { self.uint(column).map(Millis) }
    }

    pub(super) fn bytes(&self, column: usize) -> Result<&'a [u8]> {
        match self.cell(column)? {
            Cell::Blob(bytes) => Ok(bytes),
            Cell::Text(text) => Ok(text.as_bytes()),
            _ => Err(unexpected("archived bytes are not a blob")),
        }
    }
}

pub(super) fn unexpected(why: &'static str) -> Error {
    Error::new(Code::Corrupt, why)
}
