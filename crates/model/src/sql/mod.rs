//! How keys are persisted in SQL tables: the schema, effects to rows, and rows back to keys and values.
//!
//! | To find                                | open       |
//! |----------------------------------------|------------|
//! | tables, views and their migrations     | [`schema`] |
//! | effects that are to be written         | [`absorb`] |
//! | loading keys and single values         | [`mod@load`]   |
//! | reading keys when they are needed      | `on_demand`    |
//! | whether the rows are consistent        | [`mod@audit`]  |
//!
//! It accesses a database through [`Sql`], two methods that SQLite in a process and in a Durable Object both have. Invariant:
//! the archive of a shard has a row id for each id in the keyspace, so no name is looked up there, and the `meta` table has the revision up to which
//! the rows are complete and the one that none of them exceeds.

pub mod absorb;
pub mod audit;
mod executor;
pub mod load;
pub(crate) mod on_demand;
pub mod schema;

pub use absorb::{Pending, WholeKeys};
pub use audit::audit;
pub use executor::{Cell, Param, Sql};
pub use load::{
    Archived, ELEMENTS, KeyRow, complete_load, fetch, ids_end, load, load_reporting, read_archived,
    read_keys, restore_key,
};
pub use on_demand::{FIND, migrate_on_demand};
pub use schema::{READ_META, migrate};
