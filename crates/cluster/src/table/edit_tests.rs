//! Tests of the changes of a table.

use proptest::prelude::*;

use super::*;
use crate::testing::{any_move, member, node, table};

const ONE: MigrationId = MigrationId(1);

#[test]
fn the_first_table_gives_every_slot_to_a_node() {
    let table = table(&["a", "b", "c"]);
    assert_eq!(table.epoch(), Epoch(1));
    let owned: Vec<usize> = ["a", "b", "c"].iter().map(|id| table.slots_owned(&node(id))).collect();
    assert_eq!(owned.iter().sum::<usize>(), 16_384);
    assert!(owned.iter().all(|slots| slots.abs_diff(5461) <= 1), "{owned:?}");
    let twice = SlotTable::init("test", vec![member("a"), member("a")]);
    assert_eq!(twice, Err(TableError::DuplicateNode(node("a"))));
}

#[test]
fn a_node_is_added_and_removed_without_moving_a_slot() {
    let before = table(&["b", "d"]);
    for id in ["a", "c", "e"] {
        let after = before.add(member(id)).unwrap();
        assert_eq!(after.epoch(), Epoch(2));
        assert_eq!(after.slots_owned(&node(id)), 0);
        for slot in 0..16_384 {
            assert_eq!(before.owner(slot), after.owner(slot));
        }
        let removed = after.remove(&node(id)).unwrap();
        assert_eq!((removed.nodes(), &removed.owners), (before.nodes(), &before.owners));
    }
    assert_eq!(before.add(member("b")), Err(TableError::DuplicateNode(node("b"))));
    assert_eq!(before.remove(&node("x")), Err(TableError::UnknownNode(node("x"))));
    assert!(matches!(before.remove(&node("b")), Err(TableError::NodeOwnsSlots { slots: 8192, .. })));
}

#[test]
fn the_last_active_node_stays() {
    let table = table(&["a", "b"]).leave(&node("a")).unwrap();
    assert_eq!(table.leave(&node("b")), Err(TableError::LastNode(node("b"))));
    assert_eq!(table.leave(&node("a")), Err(TableError::NodeLeaves(node("a"))));
    assert_eq!(table.begin(&[any_move(&table, "b", "a")]), Err(TableError::NodeLeaves(node("a"))));
    assert!(table.stay(&node("a")).unwrap().leave(&node("b")).is_ok());
}

#[test]
fn a_migration_moves_its_slots_when_it_finishes_and_not_before() {
    let before = table(&["a", "b"]);
    let slots = any_move(&before, "a", "b").slots;
    let slot = slots.first().unwrap();
    let begun = before.begin(&[any_move(&before, "a", "b")]).unwrap();
    assert_eq!(begun.owner(slot).unwrap().id, node("a"));
    assert_eq!(begun.migration_of(slot).unwrap().id, ONE);
    let twice = begun.begin(&[any_move(&before, "a", "b")]);
    assert_eq!(twice, Err(TableError::SlotMigrates { slot, id: ONE }));

    let finished = begun.finish(ONE).unwrap();
    assert_eq!(finished.owner(slot).unwrap().id, node("b"));
    assert_eq!(finished.epoch(), Epoch(3));
    assert_eq!(finished.finish(ONE), Err(TableError::NoSuchMigration(ONE)));
    assert_eq!(finished.abort(ONE), Err(TableError::NoSuchMigration(ONE)));

    let aborted = begun.abort(ONE).unwrap();
    assert_eq!(aborted.owner(slot).unwrap().id, node("a"));
    assert_eq!(aborted.finish(ONE), Err(TableError::NoSuchMigration(ONE)));
    let again = aborted.begin(&[any_move(&before, "a", "b")]).unwrap();
    assert_eq!(again.migrations().next().unwrap().id, MigrationId(2));
}

#[test]
fn a_move_that_makes_no_sense_is_refused() {
    let table = table(&["a", "b"]);
    let good = any_move(&table, "a", "b");
    let slot = good.slots.first().unwrap();
    let begin = |changed: Move| table.begin(&[changed]).unwrap_err();
    assert!(matches!(table.begin(&[]), Err(TableError::MoveInvalid(_))));
    assert!(matches!(begin(Move { slots: SlotSet::default(), ..good.clone() }), TableError::MoveInvalid(_)));
    assert!(matches!(begin(Move { to: node("a"), ..good.clone() }), TableError::MoveInvalid(_)));
    assert_eq!(begin(Move { to: node("z"), ..good.clone() }), TableError::UnknownNode(node("z")));
    let wrong = Move { from: node("b"), to: node("a"), ..good.clone() };
    assert_eq!(begin(wrong), TableError::NotOwner { slot, node: node("b") });
    let many: SlotSet = (0..16_384).filter(|slot| table.owner(*slot).unwrap().id == node("a")).collect();
    assert!(matches!(begin(Move { slots: many.clone(), ..good.clone() }), TableError::MoveInvalid(_)));

    let sharded = table.update(Node { shards: 4, ..member("a") }).unwrap();
    let two: SlotSet = [many.first().unwrap(), many.iter().last().unwrap()].into_iter().collect();
    let spans = sharded.begin(&[Move { slots: two, ..good.clone() }]);
    assert_eq!(spans, Err(TableError::SpansShards { node: node("a"), shards: 4 }));
    let begun = table.begin(&[good]).unwrap();
    let id = ONE;
    assert_eq!(
        begun.update(Node { shards: 4, ..member("a") }),
        Err(TableError::NodeMigrates { node: node("a"), id })
    );
    assert_eq!(begun.remove(&node("b")), Err(TableError::NodeMigrates { node: node("b"), id }));
}

#[test]
fn only_slots_without_an_owner_are_assigned() {
    let empty = SlotTable::init("test", Vec::new()).unwrap().add(member("a")).unwrap();
    assert!(empty.owner(7).is_none());
    let slots: SlotSet = [7].into_iter().collect();
    let assigned = empty.assign(&slots, &node("a")).unwrap();
    assert_eq!(assigned.owner(7).unwrap().id, node("a"));
    assert_eq!(
        assigned.assign(&slots, &node("a")),
        Err(TableError::SlotAssigned { slot: 7, node: node("a") })
    );
}

#[test]
fn a_node_goes_back_to_no_older_table_and_to_no_other_cluster() {
    let first = table(&["a"]);
    let second = first.add(member("b")).unwrap();
    assert_eq!(first.may_be_followed_by(&second), Ok(()));
    let older = TableError::OlderEpoch { known: Epoch(2), offered: Epoch(1) };
    assert_eq!(second.may_be_followed_by(&first), Err(older));
    let other = SlotTable::init("other", vec![member("a")]).unwrap();
    assert!(matches!(first.may_be_followed_by(&other), Err(TableError::OtherCluster { .. })));
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let id = || prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(node);
    let slots = || prop::collection::vec(0..16_384u16, 1..4).prop_map(|slots| slots.into_iter().collect());
    prop_oneof![
        id().prop_map(|id| Edit::Add(member(id.as_str()))),
        (id(), 1..5u16).prop_map(|(id, weight)| Edit::Update(Node { weight, ..member(id.as_str()) })),
        id().prop_map(Edit::Leave),
        id().prop_map(Edit::Stay),
        id().prop_map(Edit::Remove),
        (slots(), id()).prop_map(|(slots, id)| Edit::Assign(slots, id)),
        (slots(), id(), id()).prop_map(|(slots, from, to)| Edit::Begin(vec![Move { slots, from, to }])),
        (1..6u64).prop_map(|id| Edit::Finish(MigrationId(id))),
        (1..6u64).prop_map(|id| Edit::Abort(MigrationId(id))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any changes: the epoch has counted those that were made, the JSON form is the same table, and a slot changed its owner
    /// only by a migration that finished or by an assignment.
    #[test]
    fn any_changes_leave_a_valid_table(edits in prop::collection::vec(any_edit(), 1..40)) {
        let mut table = table(&["a", "b"]);
        for edit in edits {
            let Ok(next) = edit.apply(Some(&table)) else { continue };
            prop_assert_eq!(next.epoch(), table.epoch().next());
            let may_move = matches!(edit, Edit::Finish(_) | Edit::Assign(..));
            for slot in 0..16_384 {
                let owners = (table.owner(slot).map(|node| &node.id), next.owner(slot).map(|node| &node.id));
                prop_assert!(may_move || owners.0 == owners.1, "{:?}: slot {}", edit, slot);
            }
            for migration in next.migrations() {
                let owner = |slot: u16| next.owner(slot).map(|node| &node.id);
                prop_assert!(migration.slots.iter().all(|slot| owner(slot) == Some(&migration.from)));
            }
            table = next;
        }
        prop_assert_eq!(SlotTable::from_json(&table.to_json()), Ok(table));
    }
}
