//! `slot % nodes`: perfectly even, and almost every slot moves when a node joins or leaves. The baseline of the tables in the
//! documentation; nothing else uses it.

use crate::node::NodeId;

/// Nodes in the order of their ids, each with every n-th slot.
#[derive(Clone, Debug)]
pub struct Modulo {
    nodes: Vec<NodeId>,
}

impl Modulo {
    /// Of these nodes.
    #[must_use]
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Modulo {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort();
        Modulo { nodes }
    }

    /// The node of a slot. `None` when there are no nodes.
    #[must_use]
    pub fn node_of_slot(&self, slot: u16) -> Option<&NodeId> {
        self.nodes.get(usize::from(slot).checked_rem(self.nodes.len())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node;

    #[test]
    fn every_nth_slot_is_of_one_node() {
        let modulo = Modulo::of([node("b"), node("a"), node("c")]);
        let nodes: Vec<_> = (0..4).map(|slot| modulo.node_of_slot(slot).unwrap().as_str()).collect();
        assert_eq!(nodes, ["a", "b", "c", "a"]);
        assert_eq!(Modulo::of([]).node_of_slot(0), None);
    }
}
