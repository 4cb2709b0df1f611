//! How keys rest in SQL tables: the schema, effects to rows, and rows back to keys and values.
//!
//! | To find                                | open       |
//! |----------------------------------------|------------|
//! | tables, views and their migrations     | [`schema`] |
//! | effects that wait to be written        | [`absorb`] |
//! | the directory and single values back   | [`mod@load`]   |
//! | whether the rows make sense            | [`mod@audit`]  |
//!
//! It touches a database through [`Sql`], two methods that SQLite in a process and in a Durable Object both have. Invariant:
//! a key's row id is its place in the keyspace, so no name is ever looked up, and the `meta` table says up to which
//! revision the rows are complete.

pub mod absorb;
pub mod audit;
mod executor;
pub mod load;
pub mod schema;

pub use absorb::Pending;
pub use audit::audit;
pub use executor::{Cell, Param, Sql};
pub use load::{fetch, load, read_archived};
pub use schema::migrate;
