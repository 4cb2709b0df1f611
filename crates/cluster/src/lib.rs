//! A cluster without its sockets: which node owns each slot, where slots should be, and how they move without a lost write.
//!
//! ```
//! use keystead_cluster::{Node, NodeId, Ring, SlotTable};
//!
//! let node = |id: &str| NodeId::new(id).map(|id| Node::new(id, "redis://127.0.0.1:6379", "http://127.0.0.1:8080"));
//! let table = SlotTable::init("shop", vec![node("a")?, node("b")?, node("c")?])?;
//! assert_eq!(table.owner_of_key(b"{user:1}:cart"), table.owner_of_key(b"user:1"));
//!
//! let joined = table.add(node("d")?)?;
//! let plan = Ring::of(joined.nodes()).plan(&joined);
//! assert_eq!(plan.slots_moved(), 16_384 / 4);
//! # Ok::<(), keystead_cluster::TableError>(())
//! ```
//!
//! **Slots are the truth, the ring plans.** The table maps each of 16,384 slots to a node, has an epoch, and is one record in a
//! [store](keystead_core::Store), changed only by an atomic step. The ring says where slots should be. Migrations move them.
//!
//! | To find                                                    | open              |
//! |------------------------------------------------------------|-------------------|
//! | the slot table: changes, JSON form, the step               | [`table`]         |
//! | the ring, plans, the modulo baseline                       | [`ring`]          |
//! | how slots move: source, target, node, coordinator          | [`migration`]     |
//! | the exhaustive model of a move (tests)                     | `model`           |
//! | nodes; slots and ranges                                    | [`node`], [`slots`] |
//! | which server has the id of a node                          | [`claim`]         |
//! | bounds                                                     | [`bounds`]        |
//!
//! A request for a key: [`Member::access`] of its slot says to run it, to let it wait, or who owns it. A node feeds its [`Member`] with
//! tables and messages and executes the [`Output`]s; who rebalances feeds a [`Coordinator`] and executes its [`Order`]s.
//!
//! This crate touches nothing: no sockets, no files, no clock, no runtime. Deadlines are calls by whoever has a clock.

pub mod bounds;
pub mod claim;
pub mod migration;
#[cfg(test)]
mod model;
pub mod node;
pub mod ring;
pub mod slots;
pub mod table;
#[cfg(test)]
mod testing;

pub use claim::{Claim, ClaimStep, Claimed};
pub use migration::{Access, Coordinator, Digest, Member, Message, Order, Output};
pub use node::{Node, NodeId, NodeState};
pub use ring::{Modulo, Plan, Ring, Transfer, transfers};
pub use slots::{SlotRange, SlotSet};
pub use table::{Edit, Epoch, Migration, MigrationId, Move, SlotTable, Standing, TableError, TableStep};
