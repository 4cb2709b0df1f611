//! What tests of several modules share: a database in memory, random histories, and the properties that span modules.

mod history;
mod scans;
mod sqlite;
mod truth;

pub(crate) use sqlite::{SharedReader, Sqlite};
