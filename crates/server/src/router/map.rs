//! Who owns which slot: the nodes of a list, or those of a slot table and its epoch. Touches nothing.
//!
//! Invariant: a map is never changed, only replaced, and each has a higher number than the one before. A node keeps its connections
//! for as long as its name and addresses stay the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use keystead_cluster::SlotTable;
use keystead_cluster::bounds::SLOTS;
use tokio::sync::{Notify, watch};

use super::node::{Deadlines, Node};
use super::nodes::Listed;
use super::resp::merge;

/// In place of the index of an owner.
const NOBODY: u16 = u16::MAX;

/// Nodes, and the owner of each slot.
pub(super) struct Map {
    pub(super) nodes: Vec<Arc<Node>>,
    /// For each slot, the index of its owner.
    owners: Box<[u16]>,
    /// The slots of each node.
    slots: Vec<usize>,
    /// The table of the cluster. A list has none.
    pub(super) table: Option<Arc<SlotTable>>,
    /// How many maps there were before.
    pub(super) number: u64,
}

impl Map {
    /// The map of a table, whose nodes are reached at these addresses.
    fn new(table: &SlotTable, listed: &[Listed], before: Option<&Map>) -> Map {
        let known = |listed: &Listed| {
            before.and_then(|map| map.nodes.iter().find(|node| node.listed == *listed)).cloned()
        };
        let nodes: Vec<Arc<Node>> = listed
            .iter()
            .map(|listed| known(listed).unwrap_or_else(|| Arc::new(Node::new(listed, Deadlines::default()))))
            .collect();
        let index = |slot| {
            let owner = table.owner(slot)?;
            let at = nodes.iter().position(|node| node.listed.id == owner.id)?;
            u16::try_from(at).ok()
        };
        let owners: Box<[u16]> = (0..SLOTS).map(|slot| index(slot).unwrap_or(NOBODY)).collect();
        let count = |at: usize| owners.iter().filter(|owner| usize::from(**owner) == at).count();
        let slots = (0..nodes.len()).map(count).collect();
        Map { nodes, owners, slots, table: None, number: before.map_or(0, |map| map.number + 1) }
    }

    /// The map of a list.
    pub(super) fn of_list(table: &SlotTable, listed: &[Listed]) -> Map {
        Map::new(table, listed, None)
    }

    /// The map of a cluster's table. Nodes without an address are left out: their slots are nobody's.
    pub(super) fn of_table(table: &Arc<SlotTable>, before: Option<&Map>) -> Map {
        let listed: Vec<Listed> = table.nodes().iter().filter_map(Listed::of).collect();
        Map { table: Some(Arc::clone(table)), ..Map::new(table, &listed, before) }
    }

    /// The index of the owner of a slot.
    #[inline]
    pub(super) fn owner_index(&self, slot: u16) -> Option<usize> {
        let index = self.owners.get(usize::from(slot)).copied().unwrap_or(NOBODY);
        (index != NOBODY).then_some(usize::from(index))
    }

    /// The owner of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(self.owner_index(slot)?)
    }

    /// A node for what is the same on all: one that replies, if there is one.
    pub(super) fn any(&self) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| !node.is_broken()).or(self.nodes.first())
    }

    /// How many slots each node has, in the order of the nodes.
    pub(super) fn shares(&self) -> impl Iterator<Item = (&Arc<Node>, usize)> {
        self.nodes.iter().zip(self.slots.iter().copied())
    }

    /// The places of the nodes in the order in which scans visit them, and their tags.
    pub(super) fn scan_order(&self) -> (Vec<usize>, Vec<u16>) {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let tags = merge::tags(&names);
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|n| tags[*n]);
        let sorted = order.iter().map(|n| tags[*n]).collect();
        (order, sorted)
    }

    /// Whether nodes know of each other, and reject what is not their own.
    pub(super) fn is_cluster(&self) -> bool {
        self.table.is_some()
    }
}

/// The map in force, and those who wait for the next one.
pub(super) struct Maps {
    current: RwLock<Arc<Map>>,
    number: AtomicU64,
    changed: watch::Sender<u64>,
    wanted: Notify,
}

impl Maps {
    pub(super) fn new(first: Map) -> Maps {
        let number = first.number;
        Maps {
            current: RwLock::new(Arc::new(first)),
            number: AtomicU64::new(number),
            changed: watch::Sender::new(number),
            wanted: Notify::new(),
        }
    }

    pub(super) fn current(&self) -> Arc<Map> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of the map in force.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(super) fn replace(&self, map: Map) {
        let number = map.number;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        self.number.store(number, Ordering::Release);
        self.changed.send_replace(number);
    }

    /// Says that a node has a newer table.
    pub(super) fn want_next(&self) {
        self.wanted.notify_one();
    }

    /// Waits until somebody has said so.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// For those who follow the maps.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use keystead_cluster::NodeId;

    use super::*;

    fn node(id: &str, port: u16) -> keystead_cluster::Node {
        let id = NodeId::new(id).unwrap();
        keystead_cluster::Node::new(id, format!("redis://h:{port}"), format!("http://h:{}", port + 1))
    }

    #[test]
    fn a_node_keeps_its_connections_while_its_addresses_stay() {
        let first = SlotTable::init("c", vec![node("a", 1), node("b", 3)]).unwrap();
        let before = Map::of_table(&Arc::new(first.clone()), None);
        let second = first.add(node("c", 5)).unwrap().update(node("b", 9)).unwrap();
        let after = Map::of_table(&Arc::new(second), Some(&before));
        assert_eq!((before.number, after.number), (0, 1));
        assert!(Arc::ptr_eq(&before.nodes[0], &after.nodes[0]));
        assert!(!Arc::ptr_eq(&before.nodes[1], &after.nodes[1]), "another server");
        assert_eq!(after.shares().map(|(_, slots)| slots).collect::<Vec<_>>(), [8192, 8192, 0]);
        assert_eq!(after.owner(0).unwrap().listed.id.as_str(), first.owner(0).unwrap().id.as_str());
    }
}
