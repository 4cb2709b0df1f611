//! What the exhaustive model does not reach: bounds, late results, several migrations, and the coordinator's queue.

use super::source::{Feed, SourcePhase};
use super::*;
use crate::bounds::{CONCURRENT_MIGRATIONS, HAND_OVER_LAG_MAX};
use crate::ring::Ring;
use crate::table::{Edit, Epoch, Move, TableError};
use crate::testing::{any_move, member, node, table};

const ONE: MigrationId = MigrationId(1);

fn start(id: &str, table: &SlotTable) -> Member {
    Member::restart(node(id), Arc::new(table.clone()), Vec::new(), Vec::new(), &mut Vec::new())
}

/// A table in which the first slot of `a` moves to `b`, and that slot.
fn moving() -> (SlotTable, u16) {
    let table = table(&["a", "b"]);
    let moved = any_move(&table, "a", "b");
    let slot = moved.slots.first().unwrap();
    (table.begin(&[moved]).unwrap(), slot)
}

fn learn(member: &mut Member, table: &SlotTable) -> Vec<Output> {
    let mut out = Vec::new();
    member.learn(Arc::new(table.clone()), &mut out).unwrap();
    out
}

fn receive(member: &mut Member, id: MigrationId, body: Body) -> Vec<Output> {
    let mut out = Vec::new();
    let feed = Feed { oldest: Revision(0), through: Revision(9), lag: 0 };
    member.receive(&Message { id, body }, feed, &mut out);
    out
}

fn sealed() -> Sealed {
    Sealed { revision: Revision(9), digest: Digest::default(), compares_after_ms: 0 }
}

/// A source that is frozen.
fn frozen(table: &SlotTable) -> Member {
    let mut source = start("a", table);
    assert_eq!(receive(&mut source, ONE, Body::HandOver), [Output::Seal(ONE, 1)]);
    source.sealed(ONE, 1, sealed(), &mut Vec::new());
    source
}

/// A target that has everything.
fn ready(table: &SlotTable) -> Member {
    let mut target = start("b", table);
    receive(&mut target, ONE, Body::Snapshot { through: Revision(9) });
    let ends = Body::Changes { after: Revision(9), through: Revision(9), lag: 0, sealed: Some(sealed()) };
    assert_eq!(receive(&mut target, ONE, ends), [Output::Compare(ONE)]);
    target.compared(ONE, Digest::default(), &mut Vec::new());
    target
}

#[test]
fn a_node_serves_what_it_owns_and_points_to_the_owner_of_the_rest() {
    let (table, slot) = moving();
    let (a, b) = (start("a", &table), start("b", &table));
    assert_eq!(a.access(slot), Access::Serve);
    assert_eq!(b.access(slot), Access::Moved(node("a"), Epoch(2)));
    let empty = SlotTable::init("test", Vec::new()).unwrap().add(member("a")).unwrap();
    assert_eq!(start("a", &empty).access(slot), Access::Down);
}

#[test]
fn requests_that_wait_are_bounded_and_answered_when_the_table_says() {
    let (table, slot) = moving();
    let mut source = frozen(&table);
    assert_eq!(source.access(slot), Access::Park(ONE));
    for _ in 0..PARKED_MAX {
        assert!(source.park(ONE));
    }
    assert!(!source.park(ONE), "one more than the bound");
    source.expired(ONE, 3);
    assert!(source.park(ONE));
    assert_eq!(source.access(slot), Access::Park(ONE), "a deadline does not thaw");
    let mut other = source.clone();
    let moved = learn(&mut source, &table.finish(ONE).unwrap());
    assert!(moved.contains(&Output::Release(ONE, Release::Moved)), "{moved:?}");
    assert_eq!(source.access(slot), Access::Moved(node("b"), Epoch(3)));
    let stayed = learn(&mut other, &table.abort(ONE).unwrap());
    assert!(stayed.contains(&Output::Release(ONE, Release::Run)), "{stayed:?}");
    assert_eq!(other.access(slot), Access::Serve);
}

#[test]
fn a_seal_that_was_given_up_does_not_freeze_when_it_ends_late() {
    let (table, slot) = moving();
    let mut source = start("a", &table);
    receive(&mut source, ONE, Body::HandOver);
    source.give_up_sealing(ONE, &mut Vec::new());
    assert_eq!(source.access(slot), Access::Serve);
    assert_eq!(receive(&mut source, ONE, Body::HandOver), [Output::Seal(ONE, 2)]);
    source.sealed(ONE, 1, sealed(), &mut Vec::new());
    assert_eq!(source.sources()[0].phase(), SourcePhase::Sealing);
}

#[test]
fn the_changes_end_at_the_seal_although_the_shard_goes_on() {
    let (table, _) = moving();
    let mut source = start("a", &table);
    receive(&mut source, ONE, Body::HandOver);
    let at = Sealed { revision: Revision(5), digest: Digest::default(), compares_after_ms: 0 };
    source.sealed(ONE, 1, at, &mut Vec::new());
    let changes = receive(&mut source, ONE, Body::Tail { after: Revision(3) });
    let body = Body::Changes { after: Revision(3), through: Revision(5), lag: 0, sealed: Some(at) };
    assert_eq!(changes, [Output::Send(Recipient::Node(node("b")), Message { id: ONE, body })]);
}

#[test]
fn a_restarted_source_repeats_where_the_changes_end() {
    let (table, _) = moving();
    let mut source = frozen(&table);
    // Its feed begins anew, after what other slots have changed since the seal.
    let feed = Feed { oldest: Revision(20), through: Revision(21), lag: 3 };
    let mut asked = |after| {
        let mut out = Vec::new();
        source.receive(&Message { id: ONE, body: Body::Tail { after } }, feed, &mut out);
        match out.as_slice() {
            [Output::Send(_, message)] => message.body,
            other => panic!("{other:?}"),
        }
    };
    let ends = Body::Changes { after: Revision(9), through: Revision(9), lag: 0, sealed: Some(sealed()) };
    assert_eq!(asked(Revision(9)), ends);
    assert_eq!(asked(Revision(8)), Body::Discarded);
}

#[test]
fn what_could_not_be_deleted_is_deleted_later() {
    let (table, _) = moving();
    let mut source = frozen(&table);
    learn(&mut source, &table.finish(ONE).unwrap());
    let mut out = Vec::new();
    source.tick(&mut out);
    assert_eq!(out, [Output::Delete(ONE)]);
}

#[test]
fn a_feed_that_is_discarded_after_the_seal_is_copied_again() {
    let (table, _) = moving();
    let mut target = start("b", &table);
    receive(&mut target, ONE, Body::Snapshot { through: Revision(3) });
    let some = Body::Changes { after: Revision(3), through: Revision(5), lag: 0, sealed: Some(sealed()) };
    receive(&mut target, ONE, some);
    assert!(receive(&mut target, ONE, Body::Discarded).contains(&Output::ClearStaging(ONE)));
    assert_eq!(target.targets()[0].stage(), target::TargetStage::Copying);
    let mut complete = ready(&table);
    assert_eq!(receive(&mut complete, ONE, Body::Discarded), [], "late, and it needs nothing more");
}

#[test]
fn a_target_that_is_made_the_owner_without_the_data_does_not_serve() {
    let (table, slot) = moving();
    let mut target = start("b", &table);
    learn(&mut target, &table.finish(ONE).unwrap());
    assert_eq!(target.access(slot), Access::Down);
}

#[test]
fn a_slot_that_goes_on_at_once_is_first_made_visible() {
    let (table, slot) = moving();
    let mut target = ready(&table);
    let owned = table.finish(ONE).unwrap();
    let back = Move { slots: [slot].into_iter().collect(), from: node("b"), to: node("a") };
    let out = learn(&mut target, &owned.begin(&[back]).unwrap());
    assert!(out.contains(&Output::Promote(ONE)), "{out:?}");
    assert_eq!(target.access(slot), Access::Park(ONE));
    assert_eq!(receive(&mut target, MigrationId(2), Body::Copy), [], "it would copy what is not visible yet");
    target.promoted(ONE, &mut Vec::new());
    assert_eq!(target.access(slot), Access::Serve);
    assert_eq!(receive(&mut target, MigrationId(2), Body::Copy).len(), 1);
}

#[test]
fn a_slot_that_comes_back_at_once_is_first_deleted() {
    let (table, slot) = moving();
    let mut source = frozen(&table);
    let back = Move { slots: [slot].into_iter().collect(), from: node("b"), to: node("a") };
    let out = learn(&mut source, &table.finish(ONE).unwrap().begin(&[back]).unwrap());
    assert!(out.contains(&Output::Delete(ONE)) && source.targets().is_empty(), "{out:?}");
    let mut out = Vec::new();
    source.deleted(ONE, &mut out);
    assert_eq!(out[0], Output::ForgetSource(ONE));
    assert_eq!(source.targets().len(), 1);
}

#[test]
fn tables_of_others_and_of_the_past_are_refused() {
    let (table, _) = moving();
    let mut node = start("a", &table);
    let other = SlotTable::init("other", vec![member("a")]).unwrap();
    let rejected = node.learn(Arc::new(other), &mut Vec::new());
    assert!(matches!(rejected, Err(TableError::OtherCluster { .. })));
    let older = node.learn(Arc::new(crate::testing::table(&["a", "b"])), &mut Vec::new());
    assert_eq!(older, Err(TableError::OlderEpoch { known: Epoch(2), offered: Epoch(1) }));
    assert_eq!(learn(&mut node, &table), [], "the same again");
}

#[test]
fn what_is_persisted_survives_its_json() {
    let (table, _) = moving();
    let migration = table.migration(ONE).unwrap().clone();
    let record = SourceRecord { migration: migration.clone(), stage: source::SourceStage::Frozen(sealed()) };
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<SourceRecord>(&json).unwrap(), record);
    let record = TargetRecord { migration, stage: target::TargetStage::Tailing(Revision(7)) };
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<TargetRecord>(&json).unwrap(), record);
}

#[test]
fn a_coordinator_begins_some_moves_at_a_time_until_none_is_left() {
    let mut now = Arc::new(table(&["a", "b"]).add(member("c")).unwrap());
    let moves = Ring::of(now.nodes()).plan(&now).moves(&now);
    let total: usize = moves.iter().map(|moved| moved.slots.len()).sum();
    let mut coordinator = Coordinator::new(Arc::clone(&now)).with_moves(moves, CONCURRENT_MIGRATIONS);
    let mut rounds = 0;
    while !coordinator.is_done() {
        rounds += 1;
        let mut out = Vec::new();
        coordinator.tick(&mut out);
        let Some(Order::Change(begin, Some(epoch))) = out.first() else { panic!("{out:?}") };
        assert_eq!(*epoch, now.epoch());
        now = Arc::new(begin.apply(Some(&now)).unwrap());
        assert!(now.migrations().len() <= CONCURRENT_MIGRATIONS);
        coordinator.learn(Arc::clone(&now), &mut Vec::new()).unwrap();
        let ids: Vec<_> = now.migrations().map(|migration| migration.id).collect();
        for id in ids {
            let mut out = Vec::new();
            coordinator.receive(&Message { id, body: Body::Progress(Progress::Ready) }, &mut out);
            assert_eq!(out, [Order::Change(Edit::Finish(id), None)]);
            now = Arc::new(now.finish(id).unwrap());
        }
        coordinator.learn(Arc::clone(&now), &mut Vec::new()).unwrap();
    }
    assert!(rounds > 5, "{rounds}");
    assert_eq!(now.slots_owned(&node("c")), total);
}

#[test]
fn a_coordinator_hands_over_only_what_has_nearly_caught_up_and_nothing_that_it_aborts() {
    let (table, _) = moving();
    let mut coordinator = Coordinator::new(Arc::new(table.clone()));
    let progress = |coordinator: &mut Coordinator, progress| {
        let mut out = Vec::new();
        coordinator.receive(&Message { id: ONE, body: Body::Progress(progress) }, &mut out);
        out
    };
    assert_eq!(progress(&mut coordinator, Progress::Tailing { lag: HAND_OVER_LAG_MAX + 1 }), []);
    let hand_over = Order::Send(Recipient::Node(node("a")), Message { id: ONE, body: Body::HandOver });
    assert_eq!(progress(&mut coordinator, Progress::Tailing { lag: HAND_OVER_LAG_MAX }), [hand_over]);
    let abort = Order::Change(Edit::Abort(ONE), None);
    assert_eq!(progress(&mut coordinator, Progress::Differs), std::slice::from_ref(&abort));
    assert_eq!(progress(&mut coordinator, Progress::Ready), [], "it is unwanted");
    let mut out = Vec::new();
    coordinator.tick(&mut out);
    assert_eq!(out, [abort]);
    coordinator.learn(Arc::new(table.abort(ONE).unwrap()), &mut Vec::new()).unwrap();
    assert!(coordinator.unwanted().is_empty() && coordinator.is_done());
}
