//! The ring decides on which node each slot *should* be; the [table](crate::table) says where it is.
//!
//! | To find | open |
//! |---|---|
//! | consistent hashing with virtual nodes | this file |
//! | what should move, with equal shares and the fewest moves | [`plan`] |
//! | the baseline, `slot % nodes` | [`modulo`] |
//!
//! Nothing here depends on the platform: positions are 64-bit whole numbers of a hash that is defined below, and ties are broken by id.

pub mod modulo;
pub mod plan;

pub use modulo::Modulo;
pub use plan::{Plan, Transfer, transfers};

use crate::bounds::{SLOTS, VIRTUAL_NODES, VIRTUAL_NODES_MAX};
use crate::node::{Node, NodeId};

/// Nodes on a circle of 2^64 positions, each at several of them. A position belongs to the node at it, or else to the next one
/// clockwise.
///
/// The slots lie on the circle in their order, so that neighbouring slots mostly belong to one node and a table has few ranges.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Sorted. The second number is a position in `nodes`.
    points: Vec<(u64, u16)>,
    /// Id and weight of those that take slots, sorted by id.
    nodes: Vec<(NodeId, u16)>,
}

impl Ring {
    /// A ring of the nodes that take slots, with [`VIRTUAL_NODES`] positions per unit of weight.
    #[must_use]
    pub fn of(nodes: &[Node]) -> Ring {
        Ring::with_virtual_nodes(nodes, VIRTUAL_NODES)
    }

    /// The same with so many positions per unit of weight, at least 1.
    #[must_use]
    pub fn with_virtual_nodes(nodes: &[Node], count: usize) -> Ring {
        let count = count.clamp(1, VIRTUAL_NODES_MAX);
        let taking = nodes.iter().filter(|node| node.effective_weight() > 0);
        let mut nodes: Vec<_> = taking.map(|node| (node.id.clone(), node.effective_weight())).collect();
        nodes.sort();
        nodes.dedup_by(|a, b| a.0 == b.0);
        let mut points = Vec::with_capacity(nodes.len() * count);
        for (at, (id, weight)) in nodes.iter().enumerate() {
            let virtual_nodes = count as u64 * u64::from(*weight);
            points.extend((0..virtual_nodes).map(|number| (position(id, number), at as u16)));
        }
        points.sort_unstable();
        // Of two nodes at one position the first by id stays.
        points.dedup_by_key(|point| point.0);
        Ring { points, nodes }
    }

    /// The node to which a position of the circle belongs. `None` when there are no nodes.
    #[must_use]
    pub fn node_at(&self, position: u64) -> Option<&NodeId> {
        let at = self.clockwise(position);
        let (_, node) = self.points.get(at).or_else(|| self.points.first())?;
        Some(&self.nodes[usize::from(*node)].0)
    }

    /// The node on which the ring alone would have a slot, whatever the shares are.
    #[must_use]
    pub fn node_of_slot(&self, slot: u16) -> Option<&NodeId> {
        self.node_at(slot_position(slot))
    }

    /// The position of the first point at or after this position of the circle.
    fn clockwise(&self, position: u64) -> usize {
        self.points.partition_point(|(point, _)| *point < position)
    }

    /// The nodes in the order in which they follow a slot clockwise, as positions in `nodes`; a node may come several times.
    fn following(&self, slot: u16) -> impl Iterator<Item = usize> + '_ {
        let (before, after) = self.points.split_at(self.clockwise(slot_position(slot)));
        after.iter().chain(before).map(|(_, node)| usize::from(*node))
    }
}

/// Where a slot is on the circle.
fn slot_position(slot: u16) -> u64 {
    u64::from(slot) << (u64::BITS - u32::from(SLOTS).ilog2())
}

/// Where a virtual node is on the circle. It must never change: all nodes and routers compute the same.
fn position(id: &NodeId, number: u64) -> u64 {
    mix(fnv1a(id.as_str().as_bytes()) ^ mix(number + 1))
}

/// FNV-1a of 64 bits. It and the function below are a few lines with published constants, so every platform, every version of the
/// compiler and every other language gets the same positions; the standard library's hash promises none of that.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finalizer of MurmurHash3: every bit of the input changes half of the bits. FNV alone leaves similar ids close together.
pub(crate) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{member, node};

    #[test]
    fn hashes_are_those_that_are_published() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(mix(0), 0);
        assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
    }

    #[test]
    fn a_position_belongs_to_the_next_node_clockwise() {
        let ring = Ring::with_virtual_nodes(&[member("a"), member("b"), member("c")], 8);
        assert_eq!(ring.points.len(), 24);
        for position in [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX] {
            let by_hand = ring.points.iter().find(|(point, _)| *point >= position).or(ring.points.first());
            let by_hand = &ring.nodes[usize::from(by_hand.unwrap().1)].0;
            assert_eq!(ring.node_at(position), Some(by_hand));
        }
        let (point, of) = ring.points[5];
        assert_eq!(ring.node_at(point), Some(&ring.nodes[usize::from(of)].0));
        assert_eq!(Ring::of(&[]).node_at(7), None);
    }

    #[test]
    fn a_node_that_joins_takes_positions_and_changes_no_others() {
        let few = Ring::of(&[member("a"), member("b"), member("c")]);
        let more = Ring::of(&[member("a"), member("b"), member("c"), member("d")]);
        let moved = (0..SLOTS).filter(|slot| few.node_of_slot(*slot) != more.node_of_slot(*slot));
        let moved: Vec<u16> = moved.collect();
        assert!(moved.iter().all(|slot| more.node_of_slot(*slot) == Some(&node("d"))));
        assert!((3000..5500).contains(&moved.len()), "{} slots", moved.len());
    }

    /// The numbers are of another implementation, in Python.
    #[test]
    fn positions_never_change() {
        assert_eq!(position(&node("a"), 0), 0xc28f_7ac8_ce38_c0d5);
        assert_eq!(position(&node("node-1"), 63), 0x2ad4_53a7_6290_4f24);
        assert_eq!([slot_position(0), slot_position(1), slot_position(16_383)], [0, 1 << 50, 16_383 << 50]);
    }
}
