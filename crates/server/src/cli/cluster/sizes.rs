//! How large the slots that move are, and whether their targets have room for them. Touches the nodes.

use std::collections::{BTreeMap, BTreeSet};

use hyper::Method;
use keystead_cluster::{Migration, Move, NodeId, SlotSet, SlotTable};
use keystead_core::{Code, Error, Result, Stopwatch};
use serde_json::Value;
use tokio::time::sleep;

use super::peers::Peers;
use crate::bounds::{MIGRATION_DISK_FACTOR, MIGRATION_POLL_INTERVAL, SIZES_TIMEOUT};
use crate::cluster::migration::call::PATH;
use crate::settings::size::show_bytes;

/// Keys and bytes of some slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) keys: u64,
    /// Bytes without values: what must fit into the memory of a target that evicts values.
    pub(super) entries: u64,
    /// All that is in memory.
    pub(super) bytes: u64,
}

/// The sizes of the slots that move, and what their targets have left.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    slots: BTreeMap<u16, Size>,
    memory_free: BTreeMap<NodeId, u64>,
    /// Nodes with a limit of their own, which evict values.
    evicting: BTreeSet<NodeId>,
    disk_free: BTreeMap<NodeId, u64>,
}

impl Sizes {
    /// Asks the nodes that send or get something, as long as they do not answer and may still do so.
    pub(super) async fn read(peers: &mut Peers<'_>, table: &SlotTable, moves: &[Move]) -> Result<Sizes> {
        let migrating = table.migrations().flat_map(|Migration { from, to, .. }| [from, to]);
        let moving = moves.iter().flat_map(|Move { from, to, .. }| [from, to]);
        let nodes: BTreeSet<NodeId> = migrating.chain(moving).cloned().collect();
        let (mut sizes, waited) = (Sizes::default(), Stopwatch::start());
        for node in nodes {
            let report = loop {
                match peers.call(table, &node, Method::GET, &format!("{PATH}/sizes")).await {
                    Ok(report) => break report,
                    Err(error) if waited.elapsed() > SIZES_TIMEOUT || error.code() == Code::Unsupported => {
                        return Err(error);
                    }
                    Err(_) => sleep(MIGRATION_POLL_INTERVAL).await,
                }
            };
            sizes.take(&node, table, &report);
        }
        Ok(sizes)
    }

    fn take(&mut self, node: &NodeId, table: &SlotTable, report: &Value) {
        for row in report["slots"].as_array().into_iter().flatten() {
            let number = |at: usize| row[at].as_u64().unwrap_or(0);
            let slot = u16::try_from(number(0)).unwrap_or(u16::MAX);
            // What a target has staged already is counted by its source.
            if table.owner(slot).is_some_and(|owner| owner.id == *node) {
                self.slots.insert(slot, Size { keys: number(1), entries: number(2), bytes: number(3) });
            }
        }
        self.memory_free.extend(report["memory_free"].as_u64().map(|free| (node.clone(), free)));
        self.evicting.extend((report["evicts"] == true).then(|| node.clone()));
        self.disk_free.extend(report["disk_free"].as_u64().map(|free| (node.clone(), free)));
    }

    pub(super) fn of(&self, slots: &SlotSet) -> Size {
        let sizes = slots.iter().filter_map(|slot| self.slots.get(&slot));
        sizes.fold(Size::default(), |sum, size| Size {
            keys: sum.keys + size.keys,
            entries: sum.entries + size.entries,
            bytes: sum.bytes + size.bytes,
        })
    }

    /// Rejects moves for which a target has no room.
    pub(super) fn check(&self, moves: &[Move]) -> Result<()> {
        let mut wanted: BTreeMap<&NodeId, Size> = BTreeMap::new();
        for moved in moves {
            let (sum, size) = (wanted.entry(&moved.to).or_default(), self.of(&moved.slots));
            sum.entries += size.entries;
            sum.bytes += size.bytes;
        }
        for (node, size) in wanted {
            let refused = |what: &str, needs: u64, free: Option<&u64>, fix: &str| match free {
                Some(free) if needs > *free => {
                    let (needs, free) = (show_bytes(needs), show_bytes(*free));
                    let what = format!(
                        "nothing moves: node '{node}' has {free} of {what} left, and would get {needs}: {fix}"
                    );
                    Err(Error::new(Code::OutOfMemory, what))
                }
                _ => Ok(()),
            };
            let (memory, fix) = match self.evicting.contains(node) {
                true => (size.entries, "restart it with a higher --memory, or add another node"),
                false => (size.bytes, "give it more memory, start it with --memory, or add another node"),
            };
            refused("memory", memory, self.memory_free.get(node), fix)?;
            let on_disk = size.bytes.saturating_mul(MIGRATION_DISK_FACTOR);
            refused("disk", on_disk, self.disk_free.get(node), "give it a larger disk, or add another node")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keystead_cluster::Node;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_without_room_is_refused() {
        let id = |name: &str| NodeId::new(name).unwrap();
        let node = |name: &str| Node::new(id(name), format!("redis://{name}:1"), format!("http://{name}:2"));
        let table = SlotTable::init("test", vec![node("a"), node("b")]).unwrap();
        let slot = (0..).find(|slot| table.owner(*slot).unwrap().id == id("a")).unwrap();
        let moves = [Move { slots: std::iter::once(slot).collect(), from: id("a"), to: id("b") }];
        let mut sizes = Sizes::default();
        let of_a = json!({ "slots": [[slot, 10, 2000, 3000]], "memory_free": null, "disk_free": 1 });
        sizes.take(&id("a"), &table, &of_a);
        let free = |sizes: &mut Sizes, memory: Value, disk: u64| {
            let staged = json!({ "slots": [[slot, 1, 1, 1]], "memory_free": memory, "evicts": true, "disk_free": disk });
            sizes.take(&id("b"), &table, &staged);
            sizes.check(&moves).map_err(|error| error.message().to_owned())
        };
        assert_eq!(sizes.of(&moves[0].slots), Size { keys: 10, entries: 2000, bytes: 3000 });
        assert_eq!(free(&mut sizes, json!(null), 1 << 30), Ok(()));
        assert_eq!(free(&mut sizes, json!(2000), 1 << 30), Ok(()));
        let error = free(&mut sizes, json!(1999), 1 << 30).unwrap_err();
        assert!(error.contains("node 'b' has 1.9kb of memory left, and would get 1.9kb"), "{error}");
        let error = free(&mut sizes, json!(2000), 3000).unwrap_err();
        assert!(error.contains("of disk left"), "{error}");
        // Without a limit of its own a node keeps all values in memory.
        let mut sizes = Sizes { evicting: BTreeSet::new(), ..sizes };
        let of_b = |memory: u64| json!({ "slots": [], "memory_free": memory, "evicts": false, "disk_free": 1 << 30 });
        sizes.take(&id("b"), &table, &of_b(3000));
        assert_eq!(sizes.check(&moves).map_err(|error| error.message().to_owned()), Ok(()));
        sizes.take(&id("b"), &table, &of_b(2999));
        let error = sizes.check(&moves).unwrap_err();
        assert!(error.message().contains("2.9kb: give it more memory, start it with --memory"), "{error}");
    }
}
