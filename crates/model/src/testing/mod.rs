//! For tests: a database in memory, random histories, and properties that span modules.
//!
//! Other crates get the database, with the feature `testing`.

#[cfg(test)]
mod history;
#[cfg(test)]
mod on_demand;
#[cfg(test)]
mod scans;
mod sqlite;
#[cfg(test)]
mod truth;

#[cfg(test)]
pub(crate) use history::ops_by_name;
#[cfg(test)]
pub(crate) use sqlite::{Files, SharedReader};
pub use sqlite::{Shared, Sqlite};
