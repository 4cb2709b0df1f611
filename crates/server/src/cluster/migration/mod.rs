//! Moving slots to and from this node: it executes what the state machine of a [`Member`] says. Touches the shards, the files of the
//! data directory that have the table and the records, and other nodes.
//!
//! | To find                                            | open      |
//! |----------------------------------------------------|-----------|
//! | the machine, and its outputs                       | `mover`   |
//! | what a source sends, seals and deletes             | `source`  |
//! | how a target copies, follows and compares          | `target`  |
//! | which keys have changed since a copy               | `tracker` |
//! | keys on the shards                                 | `data`    |
//! | calls of other nodes; the records on disk          | `call`, `records` |
//!
//! What is staged is in the keyspace already, behind its fence: no request reaches it, and nothing lists it. So a slot that changes hands
//! does not have to be loaded: opening the fence makes it visible.

pub(crate) mod call;
mod data;
mod mover;
mod records;
mod source;
pub(crate) mod target;
mod tracker;

pub(crate) use mover::Mover;
