//! Effects are the source of truth: the keyspace can be restored from the effects, from the archive, and from both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use keystead_core::{Millis, Revision};
use proptest::prelude::*;

use super::history::{Op, ops, ops_by_name};
use super::{Files, Shared, SharedReader, Sqlite};
use crate::Bytes;
use crate::effect::{Decoder, Effect, encode};
use crate::keyspace::Keyspace;
use crate::keyspace::check::KeyDump;
use crate::sql::{Pending, WholeKeys, audit, load, migrate};
use crate::value::Value;

const START: Millis = Millis(1_700_000_000_000);

fn checked(ks: &Keyspace) {
    if let Err(why) = ks.check() {
        panic!("{why}");
    }
}

fn run(ks: &mut Keyspace, now: &mut Millis, history: &[Op]) {
    for op in history {
        op.run(ks, now);
        checked(ks);
    }
}

/// Where the keys are that a history changes.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Memory,
    /// In rows, of which so many bytes are held.
    OnDemand(usize),
}

impl Mode {
    fn keyspace(self) -> Keyspace {
        match self {
            Mode::Memory => Keyspace::in_memory(),
            Mode::OnDemand(_) => Shared::with_keyspace().1,
        }
    }

    fn held_bytes(self) -> usize {
        match self {
            Mode::Memory => usize::MAX,
            Mode::OnDemand(bytes) => bytes,
        }
    }
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Memory), Just(Mode::OnDemand(0)), (0usize..3000).prop_map(Mode::OnDemand)]
}

/// Number of operations of every other job of a history. The other operations are outside of any job.
const JOB_OPS: usize = 10;

/// A history with reclaiming in between, and the effects of each operation or job. The archive is cut only between these:
/// in the middle of a change a collection may be empty.
fn recorded(history: &[Op], mode: Mode) -> (Keyspace, Vec<Vec<Effect>>) {
    let (mut ks, mut now) = (mode.keyspace(), START);
    let mut recorded = Vec::new();
    let mut take = |ks: &mut Keyspace| {
        ks.write_rows().unwrap();
        ks.shrink(mode.held_bytes());
        checked(ks);
        let mut effects = Vec::new();
        ks.take_effects(&mut effects);
        recorded.push(effects);
    };
    for (n, ops) in history.chunks(JOB_OPS).enumerate() {
        if n % 2 == 1 {
            ks.savepoint();
            ops.iter().for_each(|op| op.run(&mut ks, &mut now));
            ks.release().unwrap();
            take(&mut ks);
            continue;
        }
        for (n, op) in ops.iter().enumerate() {
            op.run(&mut ks, &mut now);
            if n % 5 == 0 {
                ks.reclaim(now, &mut 3).unwrap();
            }
            take(&mut ks);
        }
    }
    (ks, recorded)
}

fn archive() -> Arc<Mutex<Sqlite>> {
    let mut db = Sqlite::in_memory();
    migrate(&mut db).unwrap();
    Arc::new(Mutex::new(db))
}

fn write(db: &Mutex<Sqlite>, pending: &mut Pending) {
    let mut db = db.lock().unwrap();
    db.0.execute_batch("BEGIN").unwrap();
    pending.write(&mut *db).unwrap();
    db.0.execute_batch("COMMIT").unwrap();
    pending.clear();
    assert_eq!(audit(&mut *db).unwrap(), Vec::<String>::new());
}

fn absorb(db: &Mutex<Sqlite>, effects: &[Vec<Effect>], chunk: usize) {
    let mut pending = Pending::new(Revision::ZERO, Revision::ZERO);
    for chunk in effects.chunks(chunk) {
        chunk.iter().flatten().for_each(|effect| pending.absorb(effect));
        write(db, &mut pending);
    }
}

fn loaded(db: &Arc<Mutex<Sqlite>>) -> Keyspace {
    let mut ks = Keyspace::new(Box::new(SharedReader(Arc::clone(db))));
    load(&mut *db.lock().unwrap(), &mut ks).unwrap();
    checked(&ks);
    ks
}

fn replay(ks: &mut Keyspace, effects: &[Effect]) {
    for effect in effects {
        ks.apply_effect(effect).unwrap();
    }
    checked(ks);
}

/// A keyspace that goes on with its history while it is read: `pace` operations for each request.
struct Live<'a> {
    ks: Keyspace,
    now: Millis,
    rest: std::slice::Iter<'a, Op>,
    pace: usize,
    /// Of each operation: the archive is cut only between these.
    effects: Vec<Vec<Effect>>,
    requested: VecDeque<Vec<KeyDump>>,
}

impl<'a> Live<'a> {
    fn new(ks: Keyspace, history: &'a [Op], pace: usize) -> Self {
        let (rest, effects, requested) = (history.iter(), Vec::new(), VecDeque::new());
        Live { ks, now: START, rest, pace, effects, requested }
    }

    fn go_on(&mut self, ops: usize) {
        for op in self.rest.by_ref().take(ops) {
            op.run(&mut self.ks, &mut self.now);
            let mut effects = Vec::new();
            self.ks.take_effects(&mut effects);
            self.effects.push(effects);
        }
    }

    fn since(&self, revision: Revision) -> Vec<Vec<Effect>> {
        let is_new = |effects: &&Vec<Effect>| effects.first().is_some_and(|first| first.revision > revision);
        self.effects.iter().filter(is_new).cloned().collect()
    }
}

impl WholeKeys for Live<'_> {
    fn request(&mut self, ids: Vec<u32>) -> keystead_core::Result<()> {
        self.go_on(self.pace);
        self.requested.push_back(self.ks.dump_whole(&ids));
        Ok(())
    }

    fn receive(&mut self) -> keystead_core::Result<Vec<KeyDump>> {
        Ok(self.requested.pop_front().expect("a request is under way"))
    }

    fn durable(&mut self) -> keystead_core::Result<Revision> {
        Ok(self.ks.revision())
    }
}

/// What a user can see: without ids and revisions, as new keys may get other ids.
fn values(ks: &mut Keyspace) -> Vec<(Bytes, Millis, Value)> {
    ks.dump().unwrap().into_iter().map(|key| (key.key, key.expires_at, key.value)).collect()
}

proptest! {
    #[test]
    fn effects_restore_the_keyspace(history in ops(150), mode in modes()) {
        let (mut original, effects) = recorded(&history, mode);
        let effects = effects.concat();
        let mut bytes = Vec::new();
        encode(&effects, &mut bytes);
        let decoded: Vec<Effect> = Decoder::new(&bytes).map(Result::unwrap).collect();
        prop_assert_eq!(&decoded, &effects);
        let mut rebuilt = Keyspace::in_memory();
        replay(&mut rebuilt, &effects);
        prop_assert_eq!(rebuilt.dump().unwrap(), original.dump().unwrap());
        prop_assert_eq!(rebuilt.revision(), original.revision());
        prop_assert!(effects.iter().map(|effect| effect.revision.0).eq(1..=original.revision().0));
    }

    #[test]
    fn the_archive_restores_the_keyspace(history in ops(150), chunk in 1usize..60, mode in modes()) {
        let (mut original, effects) = recorded(&history, mode);
        let db = archive();
        absorb(&db, &effects, chunk);
        let mut rebuilt = loaded(&db);
        prop_assert_eq!(rebuilt.dump().unwrap(), original.dump().unwrap());
        prop_assert_eq!(rebuilt.revision(), original.revision());
    }

    #[test]
    fn archive_and_effects_from_any_earlier_point_restore_the_keyspace(
        history in ops(150),
        archived in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        mode in modes(),
    ) {
        let (mut original, effects) = recorded(&history, mode);
        let archived = archived.index(effects.len() + 1);
        let from = from.index(effects[..archived].iter().flatten().count() + 1);
        let db = archive();
        absorb(&db, &effects[..archived], archived.max(1));
        let mut rebuilt = loaded(&db);
        replay(&mut rebuilt, &effects.concat()[from..]);
        prop_assert_eq!(rebuilt.dump().unwrap(), original.dump().unwrap());
        prop_assert_eq!(rebuilt.revision(), original.revision());
    }

    #[test]
    fn an_archive_written_from_a_changing_keyspace_restores_it(
        history in ops(200),
        begun in any::<prop::sample::Index>(),
        held in 0usize..40,
        pace in 0usize..5,
        rounds in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 0..5),
    ) {
        let files = Files::new();
        let mut db = files.open();
        migrate(&mut db).unwrap();
        let mut live = Live::new(files.keyspace(), &history, pace);
        live.go_on(begun.index(history.len() + 1));
        let mut pending = Pending::new(Revision::ZERO, Revision::ZERO);
        for (cut, evicts, restarts) in rounds {
            let new = live.since(pending.revision());
            for (n, effect) in new[..cut.index(new.len() + 1)].iter().flatten().enumerate() {
                if n == held {
                    pending.drop_values();
                }
                pending.absorb(effect);
            }
            db.0.execute_batch("BEGIN").unwrap();
            pending.write_from(&mut db, &mut live).unwrap();
            db.0.execute_batch("COMMIT").unwrap();
            pending.clear();
            prop_assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
            live.ks.set_archived(pending.revision());
            if evicts {
                live.ks.evict(0);
            }
            if restarts {
                let mut rebuilt = files.keyspace();
                let archived = load(&mut db, &mut rebuilt).unwrap();
                prop_assert_eq!((archived.revision, archived.newest), (pending.revision(), pending.newest()));
                replay(&mut rebuilt, &live.since(archived.revision).concat());
                prop_assert_eq!(rebuilt.dump().unwrap(), live.ks.dump().unwrap());
                pending = Pending::new(archived.revision, archived.newest);
                live.ks = rebuilt;
            }
            live.go_on(pace);
        }
        // With everything absorbed the rows are of one revision again.
        live.go_on(usize::MAX);
        live.since(pending.revision()).iter().flatten().for_each(|effect| pending.absorb(effect));
        pending.write_from(&mut db, &mut live).unwrap();
        prop_assert_eq!(pending.newest(), pending.revision());
        let mut exact = files.keyspace();
        load(&mut db, &mut exact).unwrap();
        checked(&exact);
        prop_assert_eq!(exact.dump().unwrap(), live.ks.dump().unwrap());
        prop_assert_eq!(audit(&mut db).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_loaded_keyspace_behaves_like_the_original(before in ops(100), after in ops_by_name(60), mode in modes()) {
        let (mut original, effects) = recorded(&before, mode);
        let db = archive();
        absorb(&db, &effects, before.len().max(1));
        let mut ks = loaded(&db);
        for goes_on in [&mut original, &mut ks] {
            let mut now = START.plus_ms(500);
            run(goes_on, &mut now, &after);
            // Everything that can expire has expired, and is reclaimed without access.
            goes_on.reclaim(now.plus_ms(3_600_000), &mut { usize::MAX }).unwrap();
            checked(goes_on);
        }
        prop_assert_eq!(values(&mut ks), values(&mut original));
        prop_assert!(ks.dump().unwrap().iter().all(|key| key.expires_at == Millis::NEVER));
    }

    #[test]
    fn a_rollback_leaves_nothing(before in ops(60), undone in ops(60), after in ops_by_name(30)) {
        let (mut ks, mut now) = (Keyspace::in_memory(), START);
        run(&mut ks, &mut now, &before);
        let (dump, revision, effects) = (ks.dump().unwrap(), ks.revision(), ks.effects().to_vec());
        ks.savepoint();
        run(&mut ks, &mut { now }, &undone);
        ks.rollback();
        checked(&ks);
        prop_assert_eq!(ks.dump().unwrap(), dump);
        prop_assert_eq!(ks.revision(), revision);
        prop_assert_eq!(ks.effects(), effects);
        prop_assert!(ks.take_seen() <= revision);

        let (mut control, mut control_now) = (Keyspace::in_memory(), START);
        run(&mut control, &mut control_now, &before);
        run(&mut control, &mut control_now, &after);
        run(&mut ks, &mut now, &after);
        control.reclaim(now, &mut { usize::MAX }).unwrap();
        ks.reclaim(now, &mut { usize::MAX }).unwrap();
        let mut rebuilt = Keyspace::in_memory();
        replay(&mut rebuilt, ks.effects());
        prop_assert_eq!(rebuilt.dump().unwrap(), ks.dump().unwrap());
        prop_assert_eq!(values(&mut ks), values(&mut control));
    }

    #[test]
    fn eviction_changes_no_result(history in ops(150), every in 1usize..20) {
        let db = archive();
        let mut pending = Pending::new(Revision::ZERO, Revision::ZERO);
        let (mut plain, mut plain_now) = (Keyspace::in_memory(), START);
        let (mut lean, mut now) = (Keyspace::new(Box::new(SharedReader(Arc::clone(&db)))), START);
        let mut effects = Vec::new();
        for (n, op) in history.iter().enumerate() {
            op.run(&mut plain, &mut plain_now);
            op.run(&mut lean, &mut now);
            lean.take_effects(&mut effects);
            effects.iter().for_each(|effect| pending.absorb(effect));
            if n % every == 0 {
                write(&db, &mut pending);
                lean.set_archived(pending.revision());
            }
            lean.evict(0);
            checked(&lean);
        }
        write(&db, &mut pending);
        prop_assert_eq!(lean.revision(), plain.revision());
        prop_assert_eq!(lean.dump().unwrap(), plain.dump().unwrap());
    }
}
