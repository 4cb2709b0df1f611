//! Single cases: wrong ids and times, writes of other APIs, what is not a document.

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use serde_json::{Value, json};

use super::super::{Edit, Mutation, Outcome, Settled, Status, code, names};
use super::{NOW, mutation, read, send};
use crate::bounds::{
    SYNC_CLIENT_MS, SYNC_DOCUMENT_BYTES_MAX, SYNC_FIELDS_MAX, SYNC_ITEMS_MAX, SYNC_RETENTION_MS,
};
use crate::documents::{self, Condition, DocumentChange};
use crate::testing;

const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;

fn set(id: u64, field: &str, value: Value, ts: u64) -> Mutation {
    mutation(id, "k", Edit::SetField(field.to_owned(), value), ts)
}

fn one(keys: &mut Keyspace, client: &str, mutation: Mutation, now: Millis) -> Outcome {
    send(keys, client, &[mutation], now).remove(0)
}

fn status(keys: &mut Keyspace, client: &str, mutation: Mutation, now: Millis) -> Status {
    one(keys, client, mutation, now).settled.status
}

fn reason(settled: &Settled) -> &str {
    settled.error.as_ref().map_or("", |error| &error.code)
}

/// A write through another API.
fn put(keys: &mut Keyspace, text: &str, now: Millis) {
    let put = DocumentChange::Put(Bytes::from(text.as_bytes()));
    documents::change(keys, b"k", &put, &Condition::Any, Expire::Keep, now).unwrap();
}

#[test]
fn ids_that_go_back_or_are_reused_change_nothing() {
    let mut keys = testing::keyspace();
    assert_eq!(status(&mut keys, "a", set(5, "x", json!(1), NOW.0), NOW), Status::Applied);
    assert_eq!(
        status(&mut keys, "a", set(9, "x", json!(2), NOW.0), NOW),
        Status::Applied,
        "gaps are allowed"
    );
    let revision = keys.revision();
    let goes_back = one(&mut keys, "a", set(7, "x", json!(3), NOW.0), NOW);
    assert_eq!(
        (goes_back.settled.status, reason(&goes_back.settled)),
        (Status::Rejected, code::ID_GOES_BACK)
    );
    let reused = one(&mut keys, "a", set(9, "x", json!(3), NOW.0), NOW);
    assert_eq!(reason(&reused.settled), code::ID_REUSED);
    for passed in [goes_back, reused] {
        assert_eq!(passed.settled.error.unwrap().last_id, Some(9), "the next id has to be greater");
    }
    assert_eq!(keys.revision(), revision);
    assert_eq!(
        status(&mut keys, "b", set(1, "y", json!(3), NOW.0), NOW),
        Status::Applied,
        "of another client"
    );
    assert_eq!(read(&mut keys, "k", NOW), Some(json!({"x":2,"y":3})));
}

#[test]
fn the_outcomes_of_a_whole_request_are_known_when_it_is_sent_again() {
    let mut keys = testing::keyspace();
    let chunk: Vec<Mutation> =
        (1..=SYNC_ITEMS_MAX as u64).map(|id| set(id, "x", json!(id), NOW.0 - id)).collect();
    one(&mut keys, "b", set(1, "x", json!(0), NOW.0), NOW);
    let first = send(&mut keys, "a", &chunk, NOW);
    assert!(first.iter().all(|outcome| outcome.settled.status == Status::Stale));
    let revision = keys.revision();
    let again = send(&mut keys, "a", &chunk, NOW);
    assert!(again.iter().zip(&first).all(|(again, first)| again.again && again.settled == first.settled));
    assert_eq!(keys.revision(), revision);
}

/// A client whose clock is ahead: its mutation counts as made when it arrived, and a resend must not make it newer. Without the
/// record of its ids it would, so a test of histories fails then.
#[test]
fn without_the_stored_ids_a_resend_would_win() {
    let mut keys = testing::keyspace();
    let ahead = set(1, "x", json!("ahead"), NOW.0 + YEAR_MS);
    let outcome = one(&mut keys, "a", ahead.clone(), NOW);
    assert_eq!((outcome.settled.clamped, outcome.settled.ts), (true, Some(NOW.0)));
    let later = NOW.plus_ms(10);
    assert_eq!(status(&mut keys, "b", set(1, "x", json!("later"), later.0), later), Status::Applied);
    let end = NOW.plus_ms(20);
    assert!(one(&mut keys, "a", ahead.clone(), end).again);
    assert_eq!(read(&mut keys, "k", end), Some(json!({"x":"later"})));
    keys.delete(&names::client(keystead_core::key::slot(b"k"), "a"), end).unwrap();
    assert_eq!(status(&mut keys, "a", ahead, end), Status::Applied);
    assert_eq!(read(&mut keys, "k", end), Some(json!({"x":"ahead"})));
}

#[test]
fn a_mutation_older_than_the_tombstones_is_rejected() {
    let mut keys = testing::keyspace();
    status(&mut keys, "a", set(1, "x", json!(1), NOW.0), NOW);
    assert_eq!(
        status(&mut keys, "a", mutation(2, "k", Edit::Delete, NOW.0 + 2), NOW.plus_ms(2)),
        Status::Applied
    );
    assert_eq!(read(&mut keys, "k", NOW), None);
    let old = set(1, "x", json!("old"), NOW.0 + 1);
    let end = Millis(NOW.0 + 1 + SYNC_RETENTION_MS);
    assert_eq!(status(&mut keys, "b", old.clone(), end), Status::Stale, "the tombstone wins");
    let over = Millis(end.0 + 2 + SYNC_CLIENT_MS);
    let rejected = one(&mut keys, "c", old, over);
    assert_eq!(reason(&rejected.settled), code::TOO_OLD);
    assert_eq!(keys.count(), keys.len());
    let mut budget = usize::MAX;
    keys.reclaim(Millis(over.0 + 2 * SYNC_RETENTION_MS), &mut budget).unwrap();
    assert_eq!(keys.len(), 0, "nothing is left behind");
}

#[test]
fn a_condition_that_holds_has_seen_everything() {
    let mut keys = testing::keyspace();
    status(&mut keys, "a", set(1, "x", json!(1), NOW.0), NOW);
    let conditional =
        |id, version| Mutation { if_version: Some(version), ..set(id, "x", json!(id), NOW.0 - 9) };
    let conflict = one(&mut keys, "b", conditional(1, 7), NOW);
    assert_eq!(conflict.settled.status, Status::Conflict);
    let winner = conflict.winner.unwrap();
    assert_eq!((winner.value, winner.version), (Some(json!({"x":1})), Some(1)));
    assert_eq!(
        status(&mut keys, "b", conditional(2, 1), NOW),
        Status::Applied,
        "although it was made before"
    );
    assert_eq!(status(&mut keys, "b", conditional(3, 0), NOW), Status::Conflict);
    assert_eq!(read(&mut keys, "k", NOW), Some(json!({"x":2})));
    let absent = Mutation { key: Bytes::from(b"other".as_slice()), ..conditional(4, 0) };
    assert_eq!(status(&mut keys, "b", absent, NOW), Status::Applied);
}

#[test]
fn a_write_of_another_api_is_not_overwritten_by_what_has_not_seen_it() {
    let mut keys = testing::keyspace();
    status(&mut keys, "a", set(1, "x", json!(1), NOW.0), NOW);
    put(&mut keys, r#"{"x":"put"}"#, NOW);
    let later = NOW.plus_ms(1000);
    let blind = one(&mut keys, "a", set(2, "x", json!("blind"), NOW.0 + 500), later);
    assert_eq!(blind.settled.status, Status::Stale);
    assert_eq!(blind.winner.unwrap().value, Some(json!("put")));
    put(&mut keys, r#"{"x":"again"}"#, later);
    let seen = Mutation { seen: Some(3), ..set(3, "x", json!("seen"), NOW.0) };
    assert_eq!(status(&mut keys, "a", seen, later), Status::Applied, "a slow clock does not matter");
    assert_eq!(read(&mut keys, "k", later), Some(json!({"x":"seen"})));
    keys.delete(b"k", later).unwrap();
    let unaware = Mutation { seen: Some(4), ..set(4, "x", json!("unaware"), later.0) };
    let lost = one(&mut keys, "a", unaware, later.plus_ms(1));
    assert_eq!((lost.settled.status, lost.winner.unwrap().value), (Status::Stale, None));
}

#[test]
fn a_document_of_another_api_is_older_than_all_mutations_unless_they_say_otherwise() {
    let mut keys = testing::keyspace();
    put(&mut keys, r#"{"x":1,"y":1}"#, NOW);
    let unaware = Mutation { seen: Some(7), ..set(1, "x", json!(2), NOW.0) };
    assert_eq!(status(&mut keys, "a", unaware, NOW.plus_ms(1)), Status::Stale);
    let mut keys = testing::keyspace();
    put(&mut keys, r#"{"x":1,"y":1}"#, NOW);
    assert_eq!(status(&mut keys, "a", set(1, "x", json!(2), NOW.0 - 9), NOW), Status::Applied);
    assert_eq!(read(&mut keys, "k", NOW), Some(json!({"x":2,"y":1})));
}

#[test]
fn what_is_no_document_is_rejected_and_its_id_is_settled() {
    let mut keys = testing::keyspace();
    keys.list_mut(b"k", NOW).unwrap().push_back(&Bytes::from(b"x".as_slice()));
    let rejected = one(&mut keys, "a", set(1, "x", json!(1), NOW.0), NOW);
    assert_eq!((rejected.settled.status, reason(&rejected.settled)), (Status::Rejected, "wrong_type"));
    keys.delete(b"k", NOW).unwrap();
    let again = one(&mut keys, "a", set(1, "x", json!(1), NOW.0), NOW);
    assert!(again.again && again.settled == rejected.settled, "it is settled");
    assert_eq!(status(&mut keys, "a", set(2, "x", json!(1), NOW.0), NOW), Status::Applied);
}

#[test]
fn a_full_memory_settles_nothing_and_holds_back_what_comes_after() {
    let mut keys = testing::keyspace();
    keys.set_str(b"filler", Bytes::from(vec![0; 4096]), Expire::Keep, NOW).unwrap();
    keys.set_memory_bound(1024, false);
    let chunk = [set(1, "x", json!(1), NOW.0), set(2, "x", json!(2), NOW.0)];
    let outcomes = send(&mut keys, "a", &chunk, NOW);
    assert_eq!(
        outcomes.iter().map(|o| reason(&o.settled)).collect::<Vec<_>>(),
        ["out_of_memory", code::AFTER_RETRY]
    );
    assert!(outcomes.iter().all(|outcome| outcome.settled.status == Status::Retry));
    keys.set_memory_bound(1 << 20, false);
    let outcomes = send(&mut keys, "a", &chunk, NOW);
    assert!(outcomes.iter().all(|outcome| outcome.settled.status == Status::Applied && !outcome.again));
}

#[test]
fn the_members_with_a_stamp_are_bounded() {
    let mut keys = testing::keyspace();
    let field = |id: u64| set(id, &format!("f{id}"), json!(1), NOW.0);
    for id in 1..=SYNC_FIELDS_MAX as u64 {
        assert_eq!(status(&mut keys, "a", field(id), NOW), Status::Applied);
    }
    let next = SYNC_FIELDS_MAX as u64 + 1;
    let rejected = one(&mut keys, "a", field(next), NOW);
    assert_eq!(reason(&rejected.settled), code::TOO_MANY_FIELDS);
    let whole = mutation(next + 1, "k", Edit::Put(json!({"f1":2})), NOW.0 + 1);
    assert_eq!(status(&mut keys, "a", whole, NOW.plus_ms(1)), Status::Applied);
    let after = mutation(next + 2, "k", Edit::SetField("g".into(), json!(1)), NOW.0 + 2);
    assert_eq!(status(&mut keys, "a", after, NOW.plus_ms(2)), Status::Applied);
    assert_eq!(read(&mut keys, "k", NOW), Some(json!({"f1":2,"g":1})));
}

/// A clock that is corrected goes back.
#[test]
fn an_own_earlier_mutation_never_wins() {
    let mut keys = testing::keyspace();
    assert!(one(&mut keys, "a", set(1, "x", json!(1), NOW.0 + YEAR_MS), NOW).settled.clamped);
    let corrected = one(&mut keys, "a", set(2, "x", json!(2), NOW.0 - 5), NOW);
    assert_eq!((corrected.settled.status, corrected.settled.ts), (Status::Applied, Some(NOW.0)));
    let whole = one(&mut keys, "a", mutation(3, "k", Edit::Put(json!({"y":3})), NOW.0 - 9), NOW);
    assert_eq!((whole.settled.status, whole.settled.lost), (Status::Applied, vec![]));
    assert_eq!(read(&mut keys, "k", NOW), Some(json!({"y":3})));
    assert_eq!(
        status(&mut keys, "b", set(1, "y", json!(4), NOW.0 - 5), NOW),
        Status::Stale,
        "another client's does"
    );
}

#[test]
fn documents_are_bounded_and_large_ones_take_several_steps() {
    let mut keys = testing::keyspace();
    let text = |bytes: usize| json!("x".repeat(bytes));
    let part = SYNC_DOCUMENT_BYTES_MAX / 8;
    let chunk: Vec<Mutation> = (1..=9).map(|id| set(id, &format!("f{id}"), text(part), NOW.0)).collect();
    let mut outcomes = Vec::new();
    let mut steps = 0;
    while outcomes.len() < chunk.len() {
        steps += 1;
        outcomes.extend(send(&mut keys, "a", &chunk[outcomes.len()..], NOW));
    }
    assert!(steps > 1, "{steps}");
    let rejected: Vec<&str> = outcomes.iter().map(|outcome| reason(&outcome.settled)).collect();
    assert_eq!(rejected, ["", "", "", "", "", "", "", "too_large", "too_large"]);
    put(&mut keys, &text(SYNC_DOCUMENT_BYTES_MAX).to_string(), NOW);
    let outcome = one(&mut keys, "a", set(10, "x", json!(1), NOW.0), NOW);
    assert_eq!(reason(&outcome.settled), "too_large");
}
