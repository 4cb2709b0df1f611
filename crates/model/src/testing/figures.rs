//! Figures, not tests: bytes per key, and how fast effects are recorded, encoded, absorbed and loaded.
//!
//! `cargo test --release -p keystead-model figures_of_rest -- --ignored --nocapture`, one at a time: memory that one has freed is
//! there for the next.

use keystead_core::{Millis, Stopwatch};

use super::Sqlite;
use crate::Bytes;
use crate::effect::{Decoder, Effect, encode};
use crate::keyspace::{Expire, Keyspace};
use crate::rest::{Pending, Sql, load, migrate};

const NOW: Millis = Millis(1_700_000_000_000);
const KEYS: usize = 1_000_000;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn key(n: usize) -> Vec<u8> {
    format!("key:{n:012}").into_bytes()
}

fn told(what: &str, watch: Stopwatch, count: usize) {
    let seconds = watch.elapsed().as_secs_f64();
    println!("{what}: {:.3} s, {:.2} M/s", seconds, count as f64 / seconds / 1e6);
}

fn fill(ks: &mut Keyspace, each: impl Fn(&mut Keyspace, usize)) -> Vec<Effect> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    for n in 0..KEYS {
        each(ks, n);
        if n % 1024 == 1023 || n + 1 == KEYS {
            ks.take_effects(&mut batch);
            all.append(&mut batch);
        }
    }
    all
}

fn memory(what: &str, each: impl Fn(&mut Keyspace, usize)) {
    let before = resident_bytes();
    let mut ks = Keyspace::in_memory();
    let mut batch = Vec::new();
    let watch = Stopwatch::start();
    for n in 0..KEYS {
        each(&mut ks, n);
        if n % 1024 == 0 {
            ks.take_effects(&mut batch);
        }
    }
    told(what, watch, KEYS);
    let resident = (resident_bytes() - before) / KEYS;
    println!("{what}: {resident} bytes a key resident, {} counted", ks.used_bytes() / KEYS);
}

#[test]
#[ignore = "figures"]
fn figures_of_short_strings() {
    memory("strings of 3 bytes", |ks, n| {
        ks.set_str(&key(n), Bytes::from(b"xxx"), Expire::Keep, NOW).unwrap();
    });
}

#[test]
#[ignore = "figures"]
fn figures_of_strings() {
    memory("strings of 32 bytes", |ks, n| {
        ks.set_str(&key(n), Bytes::from(&[b'x'; 32][..]), Expire::Keep, NOW).unwrap();
    });
}

#[test]
#[ignore = "figures"]
fn figures_of_hashes() {
    memory("hashes of 5 fields", |ks, n| {
        let key = key(n);
        let mut hash = ks.hash_mut(&key, NOW).unwrap();
        for field in 0..5 {
            hash.set(&Bytes::from(format!("field{field}").as_bytes()), &Bytes::from(b"value"));
        }
    });
}

#[test]
#[ignore = "figures"]
fn figures_of_rest() {
    let mut ks = Keyspace::in_memory();
    let watch = Stopwatch::start();
    let effects = fill(&mut ks, |ks, n| {
        ks.set_str(&key(n), Bytes::from(b"xxx"), Expire::Keep, NOW).unwrap();
    });
    told("record", watch, KEYS);
    let mut bytes = Vec::with_capacity(64 << 20);
    let watch = Stopwatch::start();
    effects.chunks(128).for_each(|batch| encode(batch, &mut bytes));
    told("encode", watch, KEYS);
    println!("{} bytes an effect in batches of 128", bytes.len() / KEYS);
    bytes.clear();
    encode(&effects, &mut bytes);
    let watch = Stopwatch::start();
    assert_eq!(Decoder::new(&bytes).filter(Result::is_ok).count(), KEYS);
    told("decode", watch, KEYS);
    let watch = Stopwatch::start();
    let mut replayed = Keyspace::in_memory();
    effects.iter().for_each(|effect| replayed.apply_effect(effect).unwrap());
    told("replay", watch, KEYS);

    let path = std::env::temp_dir().join(format!("keystead-figures-{}.db", std::process::id()));
    let mut db = Sqlite::at(&path);
    migrate(&mut db).unwrap();
    let mut pending = Pending::new(0);
    archive("new keys", &mut db, &mut pending, &effects);
    let updates = fill(&mut ks, |ks, n| {
        let n = n.wrapping_mul(7_919) % KEYS;
        ks.set_str(&key(n), Bytes::from(b"yyy"), Expire::Keep, NOW).unwrap();
    });
    archive("random updates", &mut db, &mut pending, &updates);

    let watch = Stopwatch::start();
    let mut rows = 0;
    let directory = "SELECT id, name, type, version, revision, expires_at FROM keys ORDER BY id";
    db.query(directory, &[], &mut |cells| {
        rows += cells.len();
        Ok(())
    })
    .unwrap();
    told("of which the rows of the directory take", watch, rows / 6);
    let watch = Stopwatch::start();
    let mut loaded = Keyspace::in_memory();
    load(&mut db, &mut loaded).unwrap();
    told("load", watch, KEYS);
    assert_eq!(loaded.len(), KEYS);
    let deletes = fill(&mut ks, |ks, n| assert!(ks.delete(&key(n), NOW).unwrap()));
    archive("deletes", &mut db, &mut pending, &deletes[..KEYS / 2]);
    ks.flush();
    let mut effects = Vec::new();
    ks.take_effects(&mut effects);
    let watch = Stopwatch::start();
    pending.absorb(&effects[0]);
    write(&mut db, &mut pending);
    told("flush of half of them", watch, KEYS / 2);
    std::fs::remove_file(&path).unwrap();
}

fn archive(what: &str, db: &mut Sqlite, pending: &mut Pending, effects: &[Effect]) {
    let watch = Stopwatch::start();
    for chunk in effects.chunks(250_000) {
        chunk.iter().for_each(|effect| pending.absorb(effect));
        write(db, pending);
    }
    told(&format!("archive {what}"), watch, effects.len());
}

fn write(db: &mut Sqlite, pending: &mut Pending) {
    db.0.execute_batch("BEGIN").unwrap();
    pending.write(db, b"").unwrap();
    db.0.execute_batch("COMMIT").unwrap();
    pending.clear();
}
