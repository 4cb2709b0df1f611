//! Which server has the id of a node: a record of its own for each node, beside the table, in the same store.
//!
//! A server has a random id in its data directory, and claims the id of its node for that when it joins. Another server, or the same one with
//! another data directory, is refused until an operator has released the id. The record is not part of the table, so the table's epoch and
//! form stay the same.
//!
//! Invariant: of any number of servers that claim the id of a node of a cluster, one has it.

use std::fmt;

use keystead_core::{Change, Millis, Step, Ttl};
use serde::{Deserialize, Serialize};

use crate::node::NodeId;

/// Who has the id of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The name of the cluster.
    pub cluster: String,
    /// The node.
    pub node: NodeId,
    /// The id of the server, which is in its data directory.
    pub server: String,
}

/// Another server has the id of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed(pub Claim);

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { cluster, node, server } = &self.0;
        write!(
            f,
            "node '{node}' of cluster '{cluster}' is another server, or has another data directory ({server})"
        )
    }
}

/// A change of the record of a node.
///
/// ```
/// use keystead_cluster::{Claim, ClaimStep, NodeId};
/// use keystead_core::{Key, MemoryStore, StoreExt};
///
/// let (store, key) = (MemoryStore::new(), Key::new("keystead:cluster:a")?);
/// let claim = |server: &str| Claim { cluster: "shop".into(), node: NodeId::new("a").unwrap(), server: server.into() };
/// assert!(store.apply_sync(&key, &ClaimStep::Claim(claim("one")))?.is_ok());
/// assert!(store.apply_sync(&key, &ClaimStep::Claim(claim("two")))?.is_err());
/// assert!(store.apply_sync(&key, &ClaimStep::Release)?.is_ok());
/// assert!(store.apply_sync(&key, &ClaimStep::Claim(claim("two")))?.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum ClaimStep {
    /// A server claims the id.
    Claim(Claim),
    /// Any server may claim it next.
    Release,
}

impl Step for ClaimStep {
    type State = Claim;
    type Reply = Result<(), Claimed>;

    fn run(&self, state: Option<&Claim>, _now: Millis) -> Change<Claim, Self::Reply> {
        match (self, state) {
            (ClaimStep::Release, None) => Change::Keep(Ok(())),
            (ClaimStep::Release, Some(_)) => Change::Delete(Ok(())),
            (ClaimStep::Claim(claim), Some(known)) if known == claim => Change::Keep(Ok(())),
            // A record of another cluster was left behind by a table that is not there any more.
            (ClaimStep::Claim(claim), Some(known)) if known.cluster == claim.cluster => {
                Change::Keep(Err(Claimed(known.clone())))
            }
            (ClaimStep::Claim(claim), _) => Change::Put(claim.clone(), Ttl::Never, Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Key, MemoryStore, StoreExt};

    use super::*;

    #[test]
    fn one_server_has_the_id_until_it_is_released() {
        let (store, key) = (MemoryStore::new(), Key::new("keystead:cluster:a").unwrap());
        let claim = |cluster: &str, server: &str| Claim {
            cluster: cluster.to_owned(),
            node: NodeId::new("a").unwrap(),
            server: server.to_owned(),
        };
        let apply = |step: ClaimStep| store.apply_sync(&key, &step).unwrap();
        assert_eq!(apply(ClaimStep::Release), Ok(()));
        for _ in 0..2 {
            assert_eq!(apply(ClaimStep::Claim(claim("shop", "one"))), Ok(()));
        }
        let refused = apply(ClaimStep::Claim(claim("shop", "two"))).unwrap_err();
        assert_eq!(refused, Claimed(claim("shop", "one")));
        assert!(refused.to_string().starts_with("node 'a' of cluster 'shop' is another server"), "{refused}");
        assert_eq!(apply(ClaimStep::Claim(claim("other", "two"))), Ok(()), "the table of another cluster");
        assert_eq!(apply(ClaimStep::Release), Ok(()));
        assert_eq!(apply(ClaimStep::Claim(claim("other", "three"))), Ok(()));
    }
}
