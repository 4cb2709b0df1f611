//! Keys as rows of other people's SQL tables: for the sinks of the server, and for the write buffer of the edge.
//!
//! | To find                                             | open          |
//! |-----------------------------------------------------|---------------|
//! | rows, batches, the position                         | [`batch`]     |
//! | a key as a row: its value as JSON                   | [`value`]     |
//! | an event of an event log, and its row               | [`event`]     |
//! | which field goes to which column                    | [`layout`]    |
//! | a value as a bound parameter of a column's type     | [`param`]     |
//! | the one helper that builds and chunks statements    | [`statement`] |
//! | what a target's table must look like                | [`table`]     |
//! | the table of positions                              | [`positions`] |
//! | how SQLite writes it, and what its tables are       | [`sqlite`]    |
//!
//! It touches nothing. Invariant: no statement changes a row that a later batch has written.

pub mod batch;
pub mod bounds;
pub mod event;
pub mod layout;
pub mod param;
pub mod positions;
pub mod sqlite;
pub mod statement;
pub mod table;
pub mod value;
