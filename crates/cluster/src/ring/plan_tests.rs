//! Tests of plans.

use proptest::prelude::*;

use super::*;
use crate::node::Node;
use crate::table::{Edit, MigrationId};
use crate::testing::{member, node, table};

/// Runs the whole plan of a table: every migration begins and finishes.
fn rebalanced(mut table: SlotTable) -> SlotTable {
    for moved in Ring::of(table.nodes()).plan(&table).moves(&table) {
        table = table.begin(&[moved]).unwrap();
        let id = table.migrations().next().unwrap().id;
        table = table.finish(id).unwrap();
    }
    table
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("node-{n}")).collect()
}

fn of(count: usize) -> SlotTable {
    let names = names(count);
    table(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn counts(table: &SlotTable) -> Vec<usize> {
    table.nodes().iter().map(|node| table.slots_owned(&node.id)).collect()
}

#[test]
fn a_balanced_table_moves_nothing() {
    for nodes in [1, 3, 10, 100] {
        let table = of(nodes);
        assert_eq!(Ring::of(table.nodes()).plan(&table).slots_moved(), 0, "{nodes} nodes");
    }
}

#[test]
fn a_join_moves_the_share_of_the_newcomer_and_nothing_else() {
    for nodes in [1, 3, 10, 100] {
        let joined = of(nodes).add(member("new")).unwrap();
        let plan = Ring::of(joined.nodes()).plan(&joined);
        assert!(plan.slots_moved() <= 16_384 / (nodes + 1) + 1, "{nodes} nodes: {}", plan.slots_moved());
        assert!(plan.transfers().iter().all(|transfer| transfer.to == Some(node("new"))));
        let after = rebalanced(joined);
        let spread = counts(&after).iter().max().unwrap() - counts(&after).iter().min().unwrap();
        assert!(spread <= 1, "{nodes} nodes: {:?}", counts(&after));
    }
}

#[test]
fn a_leave_moves_the_slots_of_the_leaver_and_nothing_else() {
    for nodes in [2, 3, 10, 100] {
        let leaver = node("node-1");
        let left = of(nodes).leave(&leaver).unwrap();
        let plan = Ring::of(left.nodes()).plan(&left);
        assert_eq!(plan.slots_moved(), left.slots_owned(&leaver));
        assert!(plan.transfers().iter().all(|transfer| transfer.from == Some(leaver.clone())));
        let after = rebalanced(left).remove(&leaver).unwrap();
        let spread = counts(&after).iter().max().unwrap() - counts(&after).iter().min().unwrap();
        assert!(spread <= 1, "{nodes} nodes: {:?}", counts(&after));
    }
}

#[test]
fn weights_share_the_slots_out() {
    let nodes = vec![member("a"), Node { weight: 2, ..member("b") }, Node { weight: 5, ..member("c") }];
    let table = SlotTable::init("test", nodes).unwrap();
    assert_eq!(counts(&table), [2048, 4096, 10_240]);
    let heavier = table.update(Node { weight: 2, ..member("a") }).unwrap();
    let after = rebalanced(heavier);
    assert!(counts(&after)[0].abs_diff(3641) <= 1, "{:?}", counts(&after));
}

#[test]
fn migrations_under_way_count_as_moved() {
    let joined = of(3).add(member("new")).unwrap();
    let plan = Ring::of(joined.nodes()).plan(&joined);
    let moves = plan.moves(&joined);
    let begun = joined.begin(&moves[..5]).unwrap();
    let rest = Ring::of(begun.nodes()).plan(&begun);
    let first: usize = moves[..5].iter().map(|moved| moved.slots.len()).sum();
    assert_eq!(rest.slots_moved(), plan.slots_moved() - first);
    let all_begun = begun.begin(&rest.moves(&begun)).unwrap();
    assert_eq!(Ring::of(all_begun.nodes()).plan(&all_begun).slots_moved(), 0);
}

#[test]
fn moves_are_short_and_sources_take_turns() {
    let joined = of(3).add(member("new")).unwrap();
    let moves = Ring::of(joined.nodes()).plan(&joined).moves(&joined);
    assert!(moves.iter().all(|moved| moved.slots.len() <= MIGRATION_SLOTS_MAX));
    let sources: Vec<_> = moves[..3].iter().map(|moved| moved.from.as_str()).collect();
    assert_eq!(sources, ["node-0", "node-1", "node-2"]);
}

#[test]
fn transfers_between_two_tables_are_listed_by_source_and_target() {
    let before = table(&["a", "b"]);
    let slot = (0..16_384).find(|slot| before.owner(*slot).unwrap().id == node("a")).unwrap();
    let moved = Move { slots: [slot].into_iter().collect(), from: node("a"), to: node("b") };
    let after = before.begin(std::slice::from_ref(&moved)).unwrap().finish(MigrationId(1)).unwrap();
    let expected = Transfer { slots: moved.slots, from: Some(node("a")), to: Some(node("b")) };
    assert_eq!(transfers(&before, &after), [expected]);
    assert_eq!(transfers(&after, &after), []);
    let empty = SlotTable::init("test", Vec::new()).unwrap();
    assert!(transfers(&empty, &before).iter().all(|transfer| transfer.from.is_none()));
}

#[test]
fn without_nodes_nothing_is_planned() {
    let empty = SlotTable::init("test", Vec::new()).unwrap();
    let plan = Ring::of(&[]).plan(&empty);
    assert!(plan.owners().all(|owner| owner.is_none()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Joins, leaves and new weights in any order: each plan reaches every share to the slot, and moves no slot of a node that
    /// stays and has no more than its share.
    #[test]
    fn any_sequence_of_joins_and_leaves_stays_level(
        changes in prop::collection::vec((0..3u8, 0..8usize, 1..6u16), 1..8)
    ) {
        let mut table = table(&["a", "b"]);
        for (kind, number, weight) in changes {
            let id = format!("n{number}");
            let edit = match kind {
                0 => Edit::Add(Node { weight, ..member(&id) }),
                1 => Edit::Leave(node(&id)),
                _ => Edit::Update(Node { weight, ..member(&id) }),
            };
            let Ok(changed) = edit.apply(Some(&table)) else { continue };
            let plan = Ring::of(changed.nodes()).plan(&changed);
            let total: f64 = changed.nodes().iter().map(|node| f64::from(node.effective_weight())).sum();
            let mut least = 0.0;
            for node in changed.nodes() {
                let ideal = f64::from(node.effective_weight()) * 16_384.0 / total;
                let planned = plan.owners().filter(|owner| *owner == Some(&node.id)).count() as f64;
                prop_assert!((planned - ideal).abs() < 1.0, "{}: {} of {}", node.id, planned, ideal);
                least += (changed.slots_owned(&node.id) as f64 - ideal).max(0.0);
            }
            prop_assert!(plan.slots_moved() as f64 <= least + changed.nodes().len() as f64);
            prop_assert!(plan.slots_moved() as f64 >= least - changed.nodes().len() as f64);
            table = rebalanced(changed);
        }
    }
}
