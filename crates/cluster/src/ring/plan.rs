//! What should move, from a table to a better one: every node gets its share to the slot, and the fewest slots move.
//!
//! 1. *Shares*: weight times slots, rounded down; the slots that rounding leaves go to nodes that have more than their share anyway,
//!    so that they need not move.
//! 2. A slot stays where it is unless its owner leaves or has more than its share.
//! 3. Of the slots that must or may move, those go first that the ring wants on a node with room. What is left goes to the next
//!    node clockwise that has room (consistent hashing with bounded loads, the bound being the share).
//!
//! So a join moves what the newcomer should have and nothing between the others. A plan depends on the table and on nothing else.

use std::collections::BTreeMap;

use super::Ring;
use crate::bounds::{MIGRATION_SLOTS_MAX, SLOTS};
use crate::node::NodeId;
use crate::slots::SlotSet;
use crate::table::{Move, SlotTable};

/// Slots whose owner differs between two tables. Without a source they had no owner, without a target they have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The slots.
    pub slots: SlotSet,
    /// The owner in the first table.
    pub from: Option<NodeId>,
    /// The owner in the second.
    pub to: Option<NodeId>,
}

/// What moves between two tables, by source and target.
#[must_use]
pub fn transfers(from: &SlotTable, to: &SlotTable) -> Vec<Transfer> {
    let owners = |slot| (from.owner(slot).map(|node| &node.id), to.owner(slot).map(|node| &node.id));
    between((0..SLOTS).map(owners))
}

fn between<'a>(owners: impl Iterator<Item = (Option<&'a NodeId>, Option<&'a NodeId>)>) -> Vec<Transfer> {
    let mut slots: BTreeMap<_, Vec<u16>> = BTreeMap::new();
    for (slot, (from, to)) in owners.enumerate().filter(|(_, (from, to))| from != to) {
        slots.entry((from, to)).or_default().push(slot as u16);
    }
    let transfer = |((from, to), slots): ((Option<&NodeId>, Option<&NodeId>), Vec<u16>)| Transfer {
        slots: slots.into_iter().collect(),
        from: from.cloned(),
        to: to.cloned(),
    };
    slots.into_iter().map(transfer).collect()
}

/// The owners that a table should have. See the [module](self).
#[derive(Clone, Debug)]
pub struct Plan {
    before: Vec<Option<NodeId>>,
    after: Vec<Option<NodeId>>,
}

impl Plan {
    /// The planned owner of each slot, in order.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = Option<&NodeId>> {
        self.after.iter().map(Option::as_ref)
    }

    /// What moves, by source and target. Slots of migrations under way count as moved.
    #[must_use]
    pub fn transfers(&self) -> Vec<Transfer> {
        between(self.before.iter().zip(&self.after).map(|(from, to)| (from.as_ref(), to.as_ref())))
    }

    /// How many slots move.
    #[must_use]
    pub fn slots_moved(&self) -> usize {
        self.before.iter().zip(&self.after).filter(|(before, after)| before != after).count()
    }

    /// The moves to begin, each of at most [`MIGRATION_SLOTS_MAX`] slots of one shard. Sources take turns, so that those which
    /// run at the same time are of different nodes where that is possible.
    #[must_use]
    pub fn moves(&self, table: &SlotTable) -> Vec<Move> {
        let mut by_pair = Vec::new();
        for Transfer { slots, from, to } in self.transfers() {
            let (Some(from), Some(to)) = (from, to) else { continue };
            let shards = table.node(&from).map_or(1, |node| node.shards);
            let chunks = slots.chunks(MIGRATION_SLOTS_MAX, shards).into_iter();
            by_pair.push(chunks.map(move |slots| Move { slots, from: from.clone(), to: to.clone() }));
        }
        let mut moves = Vec::new();
        while !by_pair.is_empty() {
            by_pair.retain_mut(|chunks| chunks.next().map(|chunk| moves.push(chunk)).is_some());
        }
        moves
    }
}

impl Ring {
    /// The owners that a table should have, with equal shares and the fewest moves.
    ///
    /// Slots of migrations under way count as moved already, so a plan can be made again at any time.
    #[must_use]
    pub fn plan(&self, table: &SlotTable) -> Plan {
        let mut before: Vec<_> =
            (0..SLOTS).map(|slot| table.owner(slot).map(|node| node.id.clone())).collect();
        let mut fixed = vec![false; before.len()];
        for migration in table.migrations() {
            for slot in migration.slots.iter().map(usize::from) {
                (before[slot], fixed[slot]) = (Some(migration.to.clone()), true);
            }
        }
        let at = |id: &NodeId| self.nodes.binary_search_by(|(other, _)| other.cmp(id)).ok();
        let mut owners: Vec<Option<usize>> = before.iter().map(|id| id.as_ref().and_then(at)).collect();
        if !self.nodes.is_empty() {
            let mut level = Levelling::new(self, &owners, fixed);
            level.follow_the_ring(&mut owners);
            level.place_what_is_left(&mut owners);
        }
        let id = |(owner, before): (Option<usize>, &Option<NodeId>)| match owner {
            Some(owner) => Some(self.nodes[owner].0.clone()),
            // Without a node that takes slots, they stay.
            None => before.clone(),
        };
        let after = owners.into_iter().zip(&before).map(id).collect();
        Plan { before, after }
    }

    /// How many slots each node should have, in the order of `nodes`, if it has so many now.
    fn shares(&self, counts: &[usize]) -> Vec<usize> {
        let total: usize = self.nodes.iter().map(|(_, weight)| usize::from(*weight)).sum();
        let exact = |weight: u16| usize::from(weight) * usize::from(SLOTS);
        let mut shares: Vec<usize> = self.nodes.iter().map(|(_, weight)| exact(*weight) / total).collect();
        let left = usize::from(SLOTS) - shares.iter().sum::<usize>();
        let mut order: Vec<usize> = (0..shares.len()).collect();
        // Those that have more already, then those that rounding took most from, then by id.
        let remainder = |at: usize| exact(self.nodes[at].1) % total;
        let key = |at: &usize| (counts[*at] <= shares[*at], usize::MAX - remainder(*at), *at);
        order.sort_by_key(key);
        // Fewer are left than there are nodes whose share was rounded, so nobody gets more than one.
        for at in order.into_iter().filter(|at| remainder(*at) > 0).take(left) {
            shares[at] += 1;
        }
        shares
    }
}

struct Levelling<'a> {
    ring: &'a Ring,
    /// How many slots each node has more than its share.
    excess: Vec<usize>,
    /// How many slots each node has less than its share.
    room: Vec<usize>,
    /// Slots of migrations under way, which stay as they are.
    fixed: Vec<bool>,
}

impl<'a> Levelling<'a> {
    fn new(ring: &'a Ring, owners: &[Option<usize>], fixed: Vec<bool>) -> Self {
        let mut counts = vec![0; ring.nodes.len()];
        for owner in owners.iter().flatten() {
            counts[*owner] += 1;
        }
        let shares = ring.shares(&counts);
        let differences = || counts.iter().zip(&shares);
        Levelling {
            ring,
            excess: differences().map(|(count, share)| count.saturating_sub(*share)).collect(),
            room: differences().map(|(count, share)| share.saturating_sub(*count)).collect(),
            fixed,
        }
    }

    fn may_move(&self, slot: usize, owner: Option<usize>) -> bool {
        !self.fixed[slot] && owner.is_none_or(|owner| self.excess[owner] > 0)
    }

    fn give(&mut self, owner: &mut Option<usize>, to: usize) {
        if let Some(from) = *owner {
            self.excess[from] -= 1;
        }
        self.room[to] -= 1;
        *owner = Some(to);
    }

    fn follow_the_ring(&mut self, owners: &mut [Option<usize>]) {
        for (slot, owner) in owners.iter_mut().enumerate() {
            let Some(wanted) = self.ring.following(slot as u16).next() else { return };
            if self.may_move(slot, *owner) && *owner != Some(wanted) && self.room[wanted] > 0 {
                self.give(owner, wanted);
            }
        }
    }

    fn place_what_is_left(&mut self, owners: &mut [Option<usize>]) {
        for (slot, owner) in owners.iter_mut().enumerate() {
            // A slot that is where the ring wants it is given away as well: its owner has too many.
            if self.may_move(slot, *owner)
                && let Some(to) = self.ring.following(slot as u16).find(|node| self.room[*node] > 0)
            {
                self.give(owner, to);
            }
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
