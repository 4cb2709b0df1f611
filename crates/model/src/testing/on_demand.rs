//! Keys that are read on demand behave as keys in memory do, whatever is held, and cost the rows that a request touches.

use keystead_core::Millis;
use proptest::prelude::*;

use super::Shared;
use super::history::{Op, ops, ops_by_name};
use crate::Bytes;
use crate::keyspace::check::KeyDump;
use crate::keyspace::{Expire, Keyspace};

const START: Millis = Millis(1_700_000_000_000);
const NOW: Millis = Millis(1000);

fn checked(ks: &Keyspace) {
    if let Err(why) = ks.check() {
        panic!("{why}");
    }
}

/// Runs a job: its changes are in the rows, and in a transaction.
fn job(shared: &Shared, ks: &mut Keyspace, now: &mut Millis, ops: &[Op], commits: bool) {
    shared.batch("SAVEPOINT job");
    ks.savepoint();
    ops.iter().for_each(|op| op.run(ks, now));
    if commits {
        ks.write_rows().unwrap();
        ks.release().unwrap();
        shared.batch("RELEASE job");
    } else {
        ks.rollback();
        shared.batch("ROLLBACK TO job; RELEASE job");
    }
    checked(ks);
}

fn taken(ks: &mut Keyspace) {
    ks.write_rows().unwrap();
    ks.take_effects(&mut Vec::new());
}

/// A dump without ids, which differ.
fn dump(ks: &mut Keyspace) -> Vec<KeyDump> {
    let mut dump = ks.dump().unwrap();
    dump.iter_mut().for_each(|key| key.id = 0);
    dump
}

proptest! {
    #[test]
    fn they_behave_like_keys_in_memory(
        history in ops_by_name(150),
        job_ops in 1usize..12,
        held_bytes in prop_oneof![Just(0usize), 0usize..4000],
        restart_every in 1usize..20,
    ) {
        let (mut plain, mut plain_now) = (Keyspace::in_memory(), START);
        let (shared, mut lean) = Shared::with_keyspace();
        let mut now = START;
        for (n, ops) in history.chunks(job_ops).enumerate() {
            plain.savepoint();
            ops.iter().for_each(|op| op.run(&mut plain, &mut plain_now));
            plain.release().unwrap();
            job(&shared, &mut lean, &mut now, ops, true);
            taken(&mut lean);
            lean.shrink(held_bytes);
            prop_assert_eq!(lean.count_keys().unwrap(), plain.len());
            let rows = lean.dump().unwrap();
            prop_assert_eq!(lean.check_held(&rows), Ok(()));
            if n % restart_every == restart_every - 1 {
                lean = shared.keyspace();
            }
        }
        prop_assert_eq!(lean.revision(), plain.revision());
        prop_assert_eq!(dump(&mut lean), dump(&mut plain));
        for key in plain.dump().unwrap() {
            prop_assert_eq!(lean.value(&key.key, now).unwrap(), plain.value(&key.key, now).unwrap());
        }
        // Everything that can expire has expired, and is reclaimed without access.
        let late = now.plus_ms(3_600_000);
        plain.reclaim(late, &mut { usize::MAX }).unwrap();
        lean.reclaim(late, &mut { 100_000 }).unwrap();
        let values = |ks: &mut Keyspace| -> Vec<_> {
            ks.dump().unwrap().into_iter().map(|key| (key.key, key.value)).collect()
        };
        prop_assert_eq!(values(&mut lean), values(&mut plain));
        prop_assert_eq!(lean.next_due().unwrap(), Millis::NEVER);
    }

    #[test]
    fn a_rollback_leaves_nothing(before in ops(60), undone in ops(60), after in ops_by_name(30), held in 0usize..4000) {
        let (shared, mut ks) = Shared::with_keyspace();
        let mut now = START;
        job(&shared, &mut ks, &mut now, &before, true);
        taken(&mut ks);
        ks.shrink(held);
        let (rows, revision, count) = (ks.dump().unwrap(), ks.revision(), ks.count_keys().unwrap());
        job(&shared, &mut ks, &mut { now }, &undone, false);
        prop_assert_eq!((ks.dump().unwrap(), ks.revision(), ks.count_keys().unwrap()), (rows.clone(), revision, count));
        prop_assert_eq!(ks.check_held(&rows), Ok(()));
        prop_assert!(ks.effects().is_empty());

        let (control_rows, mut control) = Shared::with_keyspace();
        let mut control_now = START;
        job(&control_rows, &mut control, &mut control_now, &before, true);
        job(&control_rows, &mut control, &mut control_now, &after, true);
        job(&shared, &mut ks, &mut now, &after, true);
        prop_assert_eq!(dump(&mut ks), dump(&mut control));
    }
}

fn name(n: u32) -> Vec<u8> {
    format!("key:{n}").into_bytes()
}

/// So many strings in rows, and nothing in memory.
fn with_keys(count: u32) -> Shared {
    let (shared, mut ks) = Shared::with_keyspace();
    shared.batch("BEGIN");
    for n in 0..count {
        ks.set_str(&name(n), Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
    }
    taken(&mut ks);
    shared.batch("COMMIT");
    shared
}

/// The rows that a request reads in an object that has just woken.
fn rows_of(shared: &Shared, run: impl FnOnce(&mut Keyspace)) -> u64 {
    let before = shared.rows_read();
    let mut ks = shared.keyspace();
    run(&mut ks);
    taken(&mut ks);
    shared.rows_read() - before
}

/// The schema, two revisions, the last id: and then what the request touches.
#[test]
fn waking_an_object_of_100_000_keys_for_one_request_reads_a_handful_of_rows() {
    const WAKING: u64 = 4;
    let shared = with_keys(100_000);
    let get = rows_of(&shared, |ks| assert!(ks.str(&name(77_777), NOW).unwrap().is_some()));
    let absent = rows_of(&shared, |ks| assert!(ks.str(b"absent", NOW).unwrap().is_none()));
    let set = rows_of(&shared, |ks| {
        ks.set_str(&name(5), Bytes::from(b"w"), Expire::Keep, NOW).unwrap();
        ks.set_str(b"new", Bytes::from(b"w"), Expire::Keep, NOW).unwrap();
    });
    let scan = rows_of(&shared, |ks| assert!(ks.scan(0, 10, NOW, |_, _| {}).unwrap() > 0));
    // A scan reads one row more than it returns, to know whether it was the last.
    assert_eq!((get, absent, set, scan), (WAKING + 1, WAKING, WAKING + 1, WAKING + 11));
    let random = rows_of(&shared, |ks| assert!(ks.random_key(12_345, NOW).unwrap().is_some()));
    let due = rows_of(&shared, |ks| ks.reclaim(NOW, &mut 100).unwrap());
    assert!(random <= WAKING + 9 && due == WAKING, "{random}, {due}");
}

#[test]
fn a_scan_visits_every_key_that_stays_exactly_once() {
    let shared = with_keys(3000);
    let mut ks = shared.keyspace();
    let (mut seen, mut cursor, mut step) = (Vec::new(), 0, 0);
    loop {
        cursor = ks.scan(cursor, 10, NOW, |key, _| seen.push(key.clone())).unwrap();
        ks.delete(&name(step * 2 + 1), NOW).unwrap();
        ks.set_str(&name(10_001 + step * 2), Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
        ks.shrink(step as usize * 100);
        step += 1;
        if cursor == 0 {
            break;
        }
    }
    for n in 0..1500 {
        let times = seen.iter().filter(|key| key[..] == name(n * 2)[..]).count();
        assert_eq!(times, 1, "{n}");
    }
}

#[test]
fn what_is_held_is_bounded() {
    let shared = with_keys(1000);
    let mut ks = shared.keyspace();
    for n in 0..1000 {
        assert!(ks.exists(&name(n), NOW).unwrap());
        ks.shrink(10_000);
    }
    assert!((1..200).contains(&ks.len()), "{}", ks.len());
    assert_eq!(ks.count_keys().unwrap(), 1000);
    ks.set_str(b"a", Bytes::from(b"v"), Expire::Keep, NOW).unwrap();
    ks.shrink(0);
    assert!(!ks.is_empty(), "what is not written is held");
    ks.write_rows().unwrap();
    ks.shrink(0);
    assert_eq!((ks.len(), ks.count_keys().unwrap()), (0, 1001));
}
