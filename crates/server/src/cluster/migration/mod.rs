//! Moving slots to and from this node: it executes what the state machine of a [`Member`] says. Touches the shards, the files of the
//! data directory that have the table and the records, and other nodes.
//!
//! | To find                                            | open      |
//! |----------------------------------------------------|-----------|
//! | the machine, and its outputs                       | `mover`   |
//! | what a source sends, seals and deletes             | `source`  |
//! | how a target copies, follows and compares          | `target`  |
//! | who ends a migration without an operator           | `conclude` |
//! | which slots are open, closed, foreign              | `fence`   |
//! | how far a copy is, and what was sent               | `tracker` |
//! | which keys have changed since                      | `follower` |
//! | keys on the shards; their digests                  | `data`, `digests` |
//! | how fast slots are taken in                        | `throttle` |
//! | calls of other nodes; the records on disk          | `call`, `records` |
//! | what operators and metrics get                     | `report`, `counts` |
//!
//! What is staged is in the keyspace already, behind its fence: no request reaches it, and nothing lists it. So a slot that changes hands
//! does not have to be loaded: opening the fence makes it visible.

pub(crate) mod call;
mod conclude;
mod counts;
mod data;
mod digests;
mod fence;
mod follower;
mod mover;
mod records;
mod report;
mod source;
pub(crate) mod target;
mod throttle;
mod tracker;

pub(crate) use mover::Mover;
