//! The keyspace of a shard: all its keys, their native values, and every change as an *effect*.
//!
//! | To find                                   | open         |
//! |-------------------------------------------|--------------|
//! | the byte string of names and values       | [`bytes`]    |
//! | strings, hashes, lists, ... in memory     | [`value`]    |
//! | what a change is, and its encoding        | [`effect`]   |
//! | the table of keys and typed changes       | [`keyspace`] |
//! | the SQL tables: writing effects, loading  | [`sql`]      |
//!
//! This crate touches nothing: no threads, no files, no clock. It compiles to wasm32.

pub mod bytes;
pub mod effect;
pub mod keyspace;
pub mod sql;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod value;

pub use bytes::Bytes;
