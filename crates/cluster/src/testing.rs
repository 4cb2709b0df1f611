//! Small tables for this crate's tests.

use crate::node::{Node, NodeId};
use crate::table::{Move, SlotTable};

pub(crate) fn node(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(crate) fn member(id: &str) -> Node {
    Node::new(node(id), format!("redis://{id}:6379"), format!("http://{id}:8080"))
}

/// A table of these nodes, by the ring.
pub(crate) fn table(ids: &[&str]) -> SlotTable {
    SlotTable::init("test", ids.iter().map(|id| member(id)).collect()).unwrap()
}

/// A move of the first slot of `from`.
pub(crate) fn any_move(table: &SlotTable, from: &str, to: &str) -> Move {
    let owned = |slot: &u16| table.owner(*slot).is_some_and(|owner| owner.id == node(from));
    Move { slots: (0..16_384).filter(owned).take(1).collect(), from: node(from), to: node(to) }
}
