//! A server as a node of a cluster (`--cluster`): it follows the slot table, and serves only what the table says is its own.
//!
//! | To find                                         | open        |
//! |-------------------------------------------------|-------------|
//! | joining at the start, following the table       | `member`    |
//! | the record in the store, and which stores fit   | `record`    |
//! | the copy on disk                                | `copy`      |
//! | the id of this server                           | `identity`  |
//! | moving slots to and from this node              | `migration` |
//! | addresses: `redis://HOST:PORT,http://HOST:PORT` | `address`   |
//! | metrics                                         | `metrics`   |
//!
//! Touches the store of the table and one file of the data directory. What a node does with a request for another's key is in
//! `keystead_commands::hub::Cluster`; the table itself is in `keystead_cluster`.
//!
//! Invariants: a table is on disk before the node acts on it; the node never goes back to an older table, or to that of another cluster.

mod address;
pub(crate) mod copy;
mod identity;
mod member;
pub(crate) mod metrics;
pub(crate) mod migration;
mod record;

pub use address::Addresses;
pub(crate) use address::FORM as ADDRESS_FORM;
pub use copy::FILE;
pub use member::Membership;
pub(crate) use member::{check_next, is_away, join};
pub(crate) use record::Record;
