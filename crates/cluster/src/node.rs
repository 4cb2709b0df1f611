//! A node of the cluster: its id, where it is reached, how much it takes. Ids are checked when they are made, so every
//! [`NodeId`] is short and printable.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounds::{NAME_BYTES_MAX, SHARDS_MAX, URL_BYTES_MAX, WEIGHT_MAX};
use crate::table::TableError;

/// The id of a node, which stays the same when its address changes: 1 to 64 letters, digits, `.`, `_` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// An id of this text.
    ///
    /// # Errors
    /// `NameInvalid`.
    pub fn new(text: &str) -> Result<NodeId, TableError> {
        check_name(text)?;
        Ok(NodeId(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Rejects a name of a node or of a cluster that is empty, long, or has characters that would need quoting.
pub(crate) fn check_name(text: &str) -> Result<(), TableError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(TableError::NameInvalid(text.chars().take(NAME_BYTES_MAX).collect())),
    }
}

impl TryFrom<String> for NodeId {
    type Error = TableError;

    fn try_from(text: String) -> Result<Self, TableError> {
        NodeId::new(&text)
    }
}

impl From<NodeId> for String {
    fn from(id: NodeId) -> String {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It takes its share of the slots.
    #[default]
    Active,
    /// Its share is zero: its slots move to the others, after which it can be removed.
    Leaving,
}

/// A node, as the table has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Where clients reach it by RESP: `redis://HOST:PORT` or `rediss://HOST:PORT`.
    pub resp: String,
    /// Where clients reach it by HTTP: `http://HOST:PORT` or `https://HOST:PORT`.
    pub http: String,
    /// Its share of the slots, relative to the weights of the others.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u16,
    /// Its shards. A migration moves slots of one shard of its source, so that one revision says how far it is.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub shards: u16,
    /// What it is for.
    #[serde(default, skip_serializing_if = "is_active")]
    pub state: NodeState,
}

fn one() -> u16 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(number: &u16) -> bool {
    *number == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_active(state: &NodeState) -> bool {
    *state == NodeState::Active
}

impl Node {
    /// An active node of weight 1 with one shard.
    #[must_use]
    pub fn new(id: NodeId, resp: impl Into<String>, http: impl Into<String>) -> Node {
        Node { id, resp: resp.into(), http: http.into(), weight: 1, shards: 1, state: NodeState::Active }
    }

    /// The weight by which the slots are shared out: 0 for a node that leaves.
    #[must_use]
    pub fn effective_weight(&self) -> u16 {
        match self.state {
            NodeState::Active => self.weight,
            NodeState::Leaving => 0,
        }
    }

    /// Rejects a node whose addresses or numbers are not valid.
    ///
    /// # Errors
    /// `UrlInvalid`, `WeightInvalid`, `ShardsInvalid`.
    pub fn validate(&self) -> Result<(), TableError> {
        for (url, schemes) in [(&self.resp, ["redis://", "rediss://"]), (&self.http, ["http://", "https://"])]
        {
            let host = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
            let is_host = |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
            if url.len() > URL_BYTES_MAX || !host.is_some_and(is_host) {
                let url = url.chars().take(URL_BYTES_MAX).collect();
                return Err(TableError::UrlInvalid { node: self.id.clone(), url, expected: schemes[0] });
            }
        }
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(TableError::WeightInvalid { node: self.id.clone(), weight: self.weight });
        }
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return Err(TableError::ShardsInvalid { node: self.id.clone(), shards: self.shards });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        for good in ["a", "node-1", "eu.west_2", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(NodeId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a\n", "ä", "a/b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(matches!(NodeId::new(bad), Err(TableError::NameInvalid(_))), "{bad:?}");
        }
        assert!(serde_json::from_str::<NodeId>("\"a b\"").is_err());
    }

    #[test]
    fn a_node_has_urls_a_weight_and_shards_within_bounds() {
        let node = Node::new(NodeId::new("a").unwrap(), "redis://10.0.0.1:6379", "http://10.0.0.1:8080");
        assert_eq!(node.validate(), Ok(()));
        for bad in ["", "10.0.0.1:6379", "redis://", "http://h:1", "redis://h 1", "redis://h\r\n"] {
            let node = Node { resp: bad.to_string(), ..node.clone() };
            assert!(matches!(node.validate(), Err(TableError::UrlInvalid { .. })), "{bad:?}");
        }
        for bad in ["redis://h:1", "ftp://h:1"] {
            let node = Node { http: bad.to_string(), ..node.clone() };
            assert!(matches!(node.validate(), Err(TableError::UrlInvalid { .. })), "{bad:?}");
        }
        for weight in [0, WEIGHT_MAX + 1] {
            let node = Node { weight, ..node.clone() };
            assert!(matches!(node.validate(), Err(TableError::WeightInvalid { .. })), "{weight}");
        }
        for shards in [0, SHARDS_MAX + 1] {
            let node = Node { shards, ..node.clone() };
            assert!(matches!(node.validate(), Err(TableError::ShardsInvalid { .. })), "{shards}");
        }
    }
}
