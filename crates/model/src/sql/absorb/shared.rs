//! Writing to rows that others write, too. It writes to the database it is given.

use keystead_core::{Code, Error, Result};

use super::Pending;
use crate::sql::executor::Sql;
use crate::sql::schema::advance_meta;

impl Pending {
    /// As [`write`](Pending::write), but the revision of the rows grows with each write, whatever revisions this writer has: it never
    /// moves back, and another writer sees that there was a write.
    ///
    /// # Errors
    /// As [`write`](Pending::write).
    pub fn write_shared(&self, sql: &mut dyn Sql) -> Result<()> {
        if self.whole.len() > 0 {
            return Err(Error::new(Code::Internal, "the values that are to be written are not held"));
        }
        self.write_held(sql)?;
        advance_meta(sql, "revision", self.revision)?;
        advance_meta(sql, "newest", self.revision)
    }
}
