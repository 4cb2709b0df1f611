//! How evenly the slots spread keys over nodes, and how many keys move when a node joins or leaves, beside `slot % nodes`.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::HashMap;

use keystead_cluster::bounds::VIRTUAL_NODES;
use keystead_cluster::{Modulo, Node, NodeId, Ring, SlotTable};

const KEYS: usize = 1_000_000;
const SLOTS: u16 = 16_384;

fn id(number: usize) -> NodeId {
    NodeId::new(&format!("node-{number}")).unwrap()
}

fn node(number: usize) -> Node {
    Node::new(id(number), format!("redis://10.0.0.{number}:6379"), format!("http://10.0.0.{number}:8080"))
}

fn table(nodes: usize) -> SlotTable {
    SlotTable::init("test", (0..nodes).map(node).collect()).unwrap()
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
fn deviation<'a>(keys: &[usize], nodes: usize, owner: impl Fn(u16) -> Option<&'a NodeId>) -> f64 {
    let mut counts: HashMap<&NodeId, usize> = HashMap::new();
    for slot in 0..SLOTS {
        *counts.entry(owner(slot).unwrap()).or_default() += keys[usize::from(slot)];
    }
    let share = KEYS as f64 / nodes as f64;
    let farthest = counts.values().map(|count| (*count as f64 - share).abs()).fold(0.0, f64::max);
    if counts.len() == nodes { farthest / share } else { 1.0 }
}

/// The share of the keys whose owner differs.
fn moved<'a>(
    keys: &[usize],
    before: impl Fn(u16) -> Option<&'a NodeId>,
    after: impl Fn(u16) -> Option<&'a NodeId>,
) -> f64 {
    let differs = |slot: &u16| before(*slot) != after(*slot);
    (0..SLOTS).filter(differs).map(|slot| keys[usize::from(slot)]).sum::<usize>() as f64 / KEYS as f64
}

#[test]
fn keys_per_node_are_within_five_percent() {
    let keys = keys_of_slots();
    for nodes in [3, 10, 100] {
        let table = table(nodes);
        let off = deviation(&keys, nodes, |slot| table.owner(slot).map(|node| &node.id));
        println!("{nodes} nodes: {:.2} % off", off * 100.0);
        assert!(off < 0.05, "{nodes} nodes: {off}");
    }
}

#[test]
fn a_join_moves_one_nth_of_the_keys_and_modulo_moves_most_of_them() {
    let keys = keys_of_slots();
    for nodes in [3, 10, 100] {
        let before = table(nodes);
        let joined = before.add(node(nodes)).unwrap();
        let plan = Ring::of(joined.nodes()).plan(&joined);
        let planned: Vec<_> = plan.owners().collect();
        let owner = |slot| before.owner(slot).map(|node| &node.id);
        let by_plan = moved(&keys, owner, |slot| planned[usize::from(slot)]);
        let after = deviation(&keys, nodes + 1, |slot| planned[usize::from(slot)]);

        let (few, more) = (Modulo::of((0..nodes).map(id)), Modulo::of((0..=nodes).map(id)));
        let by_modulo = moved(&keys, |slot| few.node_of_slot(slot), |slot| more.node_of_slot(slot));
        println!("{nodes} nodes and one more: {by_plan:.4} of the keys move, by modulo {by_modulo:.4}");
        let fair = 1.0 / (nodes + 1) as f64;
        assert!((by_plan - fair).abs() < 0.1 * fair, "{nodes} nodes: {by_plan}");
        assert!(after < 0.05, "{nodes} nodes and one more: {after}");
        assert!(by_modulo > 0.7, "{nodes} nodes: {by_modulo}");
    }
}

#[test]
fn a_leave_moves_one_nth_of_the_keys() {
    let keys = keys_of_slots();
    for nodes in [3, 10, 100] {
        let before = table(nodes);
        let left = before.leave(&id(1)).unwrap();
        let plan = Ring::of(left.nodes()).plan(&left);
        let planned: Vec<_> = plan.owners().collect();
        let owner = |slot| before.owner(slot).map(|node| &node.id);
        let share = moved(&keys, owner, |slot| planned[usize::from(slot)]);
        println!("{nodes} nodes and one less: {share:.4} of the keys move");
        let fair = 1.0 / nodes as f64;
        assert!((share - fair).abs() < 0.05 * fair, "{nodes} nodes: {share}");
        let off = deviation(&keys, nodes - 1, |slot| planned[usize::from(slot)]);
        assert!(off < 0.05, "{nodes} nodes and one less: {off}");
    }
}

/// The ring alone would not do: this is why plans level.
#[test]
fn the_ring_alone_is_farther_off_than_five_percent() {
    let keys = keys_of_slots();
    for nodes in [10, 100] {
        let members: Vec<_> = (0..nodes).map(node).collect();
        let ring = Ring::with_virtual_nodes(&members, VIRTUAL_NODES);
        let off = deviation(&keys, nodes, |slot| ring.node_of_slot(slot));
        assert!(off > 0.05, "{nodes} nodes: {off}");
    }
}

/// Hashes of two tables, computed one time: another platform or version must plan the same.
#[test]
fn plans_never_change() {
    let hash = |table: &SlotTable| {
        table.to_json().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    assert_eq!([hash(&table(3)), hash(&table(100))], [0xab8a_ecb6_51cd_a694, 0xc745_8265_3eea_589d]);
}

#[test]
fn the_order_of_nodes_does_not_matter() {
    let reversed = SlotTable::init("test", (0..10).rev().map(node).collect()).unwrap();
    assert_eq!(reversed, table(10));
}

/// DynamoDB takes 400 KB; only Deno KV takes less.
#[test]
fn the_table_of_a_hundred_nodes_is_small() {
    let bytes = table(100).to_json().len();
    println!("{bytes} bytes");
    assert!(bytes < 200_000, "{bytes}");
}
