//! The nodes of a cluster, as an operator calls them. Touches their HTTP listeners.

use std::collections::BTreeMap;

use hyper::Method;
use keystead_cluster::{NodeId, SlotTable};
use keystead_core::{Code, Error, Result};
use serde_json::Value;

use super::Operator;
use crate::cluster::migration::call::Peer;

pub(super) struct Peers<'a> {
    operator: &'a Operator<'a>,
    peers: BTreeMap<NodeId, Peer>,
}

impl<'a> Peers<'a> {
    pub(super) fn new(operator: &'a Operator<'a>) -> Peers<'a> {
        Peers { operator, peers: BTreeMap::new() }
    }

    /// Calls a node, and returns the JSON of its response.
    pub(super) async fn call(
        &mut self,
        table: &SlotTable,
        node: &NodeId,
        method: Method,
        path: &str,
    ) -> Result<Value> {
        let Some(known) = table.node(node) else {
            return Err(Error::new(Code::Conflict, format!("node '{node}' is not in the table")));
        };
        let Operator { token, rate, .. } = *self.operator;
        let peer = self.peers.entry(node.clone()).or_insert_with(|| {
            let peer = Peer::new(known.clone(), table.cluster(), token);
            match rate {
                Some(rate) => peer.with_rate(rate),
                None => peer,
            }
        });
        let answered = peer.call(method, path, Vec::new()).await?;
        Ok(serde_json::from_slice(&answered.body).unwrap_or_default())
    }
}
