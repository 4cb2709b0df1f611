//! Sinks with an event log (`mode = "events"`): every change is a row, in order.
//!
//! | To find                                         | open       |
//! |-------------------------------------------------|------------|
//! | what an effect is as an event                   | `change`   |
//! | events that are not in the target yet           | `queue`    |
//! | the task: where it begins, what is due          | `follower` |
//! | a snapshot of all keys                          | `snapshot` |
//! | one batch, and rows that the target rejects     | `append`   |
//! | removing what is old                            | `compactor` |
//!
//! Touches what sinks touch. Invariant: the events of a shard are in the log in the order of their revisions, each of them once, with the
//! position in the same transaction; where some are missing there is a mark.

mod append;
mod change;
pub(super) mod compactor;
mod follower;
mod queue;
mod snapshot;

pub(super) use follower::LogFollower;
