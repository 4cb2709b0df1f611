//! How keys are persisted in SQL tables: the schema, effects to rows, and rows back to keys and values.
//!
//! | To find                                | open       |
//! |----------------------------------------|------------|
//! | tables, views and their migrations     | [`schema`] |
//! | effects that are to be written         | [`absorb`] |
//! | loading keys and single values         | [`mod@load`]   |
//! | whether the rows are consistent        | [`mod@audit`]  |
//!
//! It accesses a database through [`Sql`], two methods that SQLite in a process and in a Durable Object both have. Invariant:
//! a key's row id is its id in the keyspace, so no name is ever looked up, and the `meta` table has the revision up to which
//! the rows are complete and the one that none of them exceeds.

pub mod absorb;
pub mod audit;
mod executor;
pub mod load;
pub mod schema;

pub use absorb::{Pending, WholeKeys};
pub use audit::audit;
pub use executor::{Cell, Param, Sql};
pub use load::{
    Archived, KeyRow, complete_load, fetch, ids_end, load, load_reporting, read_archived, read_keys,
    restore_key,
};
pub use schema::migrate;
