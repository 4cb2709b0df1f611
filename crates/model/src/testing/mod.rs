//! Shared by tests of several modules: a database in memory, random histories, and properties that span modules.

mod history;
mod scans;
mod sqlite;
mod truth;

pub(crate) use history::ops_by_name;
pub(crate) use sqlite::{Files, SharedReader, Sqlite};
