//! The ring: virtual nodes against uniformity, size of the table, keys that move and time of a lookup, compared with `slot % nodes`.
//!
//! *Alone* is the node that the ring gives a slot; *levelled* is what a table gets: equal shares, the fewest moves.

use std::collections::HashMap;
use std::hint::black_box;

use keystead_cluster::{Modulo, Node, NodeId, Ring, SlotTable};

use crate::report::{Random, median, ns_per_operation};

const KEYS: usize = 1_000_000;
const SLOTS: u16 = 16_384;
const LOOKUPS: usize = 5_000_000;

pub(crate) fn run() {
    let keys = keys_of_slots();
    println!(
        "nodes  virtual  keys off their share         ranges of    keys moved by a join               lookup, ns"
    );
    println!(
        "                alone     levelled           the table    alone   by plan  anew    modulo    ring    table"
    );
    for nodes in [3, 10, 100] {
        for virtual_nodes in [1, 16, 64, 256, 1024] {
            row(&keys, nodes, virtual_nodes);
        }
    }
}

fn row(keys: &[usize], nodes: usize, virtual_nodes: usize) {
    let members = |count: usize| -> Vec<Node> { (0..count).map(node).collect() };
    let ring = Ring::with_virtual_nodes(&members(nodes), virtual_nodes);
    let larger = Ring::with_virtual_nodes(&members(nodes + 1), virtual_nodes);

    let empty = SlotTable::init("bench", Vec::new()).unwrap();
    let (before, anew) = (ring.plan(&empty), larger.plan(&empty));
    let before: Vec<&NodeId> = before.owners().flatten().collect();
    let anew: Vec<&NodeId> = anew.owners().flatten().collect();
    let table = table_of(&members(nodes), &before);
    let by_plan = larger.plan(&table.add(node(nodes)).unwrap());
    let by_plan: Vec<&NodeId> = by_plan.owners().flatten().collect();

    let alone = |slot: u16| ring.node_of_slot(slot).unwrap();
    let alone_larger = |slot: u16| larger.node_of_slot(slot).unwrap();
    let (few, more) = (Modulo::of((0..nodes).map(id)), Modulo::of((0..=nodes).map(id)));
    let at = |owners: &[&NodeId], slot: u16| owners[usize::from(slot)].clone();
    println!(
        "{nodes:5}  {virtual_nodes:7}  {:6.1} %  {:6.2} %           {:9}    {:5.1} %  {:5.1} %  {:5.1} %  {:5.1} %   {:6.1}  {:6.1}",
        deviation(keys, nodes, |slot| alone(slot).clone()) * 100.0,
        deviation(keys, nodes, |slot| at(&before, slot)) * 100.0,
        table.ranges().count(),
        moved(keys, |slot| alone(slot) != alone_larger(slot)) * 100.0,
        moved(keys, |slot| at(&before, slot) != at(&by_plan, slot)) * 100.0,
        moved(keys, |slot| at(&before, slot) != at(&anew, slot)) * 100.0,
        moved(keys, |slot| few.node_of_slot(slot) != more.node_of_slot(slot)) * 100.0,
        lookup_ns(|random| {
            black_box(ring.node_at((random.below(1 << 31) as u64) << 33));
        }),
        lookup_ns(|random| {
            black_box(table.owner(random.below(usize::from(SLOTS)) as u16));
        }),
    );
}

fn id(number: usize) -> NodeId {
    NodeId::new(&format!("node-{number}")).unwrap()
}

fn node(number: usize) -> Node {
    Node::new(id(number), format!("redis://10.0.0.{number}:6379"), format!("http://10.0.0.{number}:8080"))
}

/// A table with these owners.
fn table_of(nodes: &[Node], owners: &[&NodeId]) -> SlotTable {
    let mut table = SlotTable::init("bench", Vec::new()).unwrap();
    for node in nodes {
        table = table.add(node.clone()).unwrap();
        let slots = (0..SLOTS).filter(|slot| *owners[usize::from(*slot)] == node.id).collect();
        table = table.assign(&slots, &node.id).unwrap();
    }
    table
}

/// How many of a million keys each slot has.
fn keys_of_slots() -> Vec<usize> {
    let mut keys = vec![0; usize::from(SLOTS)];
    for number in 0..KEYS {
        keys[usize::from(keystead_core::key::slot(format!("user:{number}:profile").as_bytes()))] += 1;
    }
    keys
}

/// How far the node that is farthest from its share is from it, relative to the share.
fn deviation(keys: &[usize], nodes: usize, owner: impl Fn(u16) -> NodeId) -> f64 {
    let mut counts: HashMap<NodeId, usize> = (0..nodes).map(|number| (id(number), 0)).collect();
    for slot in 0..SLOTS {
        *counts.entry(owner(slot)).or_default() += keys[usize::from(slot)];
    }
    let share = KEYS as f64 / nodes as f64;
    counts.values().map(|count| (*count as f64 - share).abs() / share).fold(0.0, f64::max)
}

/// The share of the keys whose slot moves.
fn moved(keys: &[usize], is_moved: impl Fn(u16) -> bool) -> f64 {
    let slots = (0..SLOTS).filter(|slot| is_moved(*slot));
    slots.map(|slot| keys[usize::from(slot)]).sum::<usize>() as f64 / KEYS as f64
}

/// The median of a few rounds of random lookups. It includes a random number, about a nanosecond.
fn lookup_ns(lookup: impl Fn(&mut Random) + Sync) -> f64 {
    let round = |_| {
        ns_per_operation(1, LOOKUPS, |_, operations| {
            let mut random = Random(7);
            (0..operations).for_each(|_| lookup(&mut random));
        })
    };
    median((0..3).map(round).collect())
}
