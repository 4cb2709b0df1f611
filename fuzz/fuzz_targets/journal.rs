//! Journals: segments of records with correct checksums and arbitrary contents, then damaged. A start finds the end of the journal or reports
//! damage, and a second start finds the same.

#![no_main]

use std::fs;
use std::path::Path;

use keystead_engine::fuzzing::{Record, replay, segment, segment_path};
use keystead_fuzz::source::Source;
use keystead_model::effect::{Decoder, encode};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// The largest id of a key: a table allocates all slots below it.
const ID_MAX: u32 = 4096;

/// A directory in memory if there is one, where a sync costs nothing.
fn dir() -> TempDir {
    let in_memory = TempDir::with_prefix_in("keystead-fuzz", "/dev/shm");
    in_memory.or_else(|_| TempDir::with_prefix("keystead-fuzz")).expect("there is space")
}

/// Writes the segments of an input.
fn write(dir: &Path, source: &mut Source<'_>) {
    let mut next = 1;
    for _ in 0..=source.below(3) {
        let first = if source.byte() == 255 { source.number().max(1) } else { next };
        let mut records = Vec::new();
        for _ in 0..source.below(5) {
            // Most are consecutive, or no second record would ever be read.
            let begins = if source.byte() == 255 { source.number() } else { next };
            let last = begins.saturating_add(source.number());
            let synced = begins.saturating_sub(1).saturating_sub(source.number());
            let effects = source.short();
            if Decoder::new(effects).flatten().any(|effect| effect.id > ID_MAX) {
                continue;
            }
            records.push(Record { first: begins, last, synced, effects });
            next = last.saturating_add(1);
        }
        let mut bytes = segment(first, &records);
        for _ in 0..source.below(3) {
            let at = source.below(bytes.len());
            bytes[at] = source.byte();
        }
        bytes.truncate(bytes.len() - source.below(8));
        fs::write(segment_path(dir, first), bytes).expect("there is space");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    if source.byte() % 4 == 0 {
        // Effects alone: what decodes survives another round trip.
        let effects: Vec<_> = Decoder::new(source.rest()).map_while(Result::ok).collect();
        let mut encoded = Vec::new();
        encode(&effects, &mut encoded);
        let again: Vec<_> = Decoder::new(&encoded).map(|effect| effect.expect("it was encoded")).collect();
        assert!(again == effects, "effects are decoded differently");
        return;
    }
    thread_local!(static DIR: TempDir = dir());
    DIR.with(|dir| {
        let dir = dir.path();
        for file in fs::read_dir(dir).expect("it is ours") {
            fs::remove_file(file.expect("it is ours").path()).expect("it is ours");
        }
        // SQLite's integers are signed.
        let archived = if source.byte() == 255 { source.number() >> 1 } else { 0 };
        write(dir, &mut source);
        let Ok((mut keyspace, last)) = replay(dir, archived) else { return };
        // Checksums do not prevent effects that no keyspace records, such as an empty collection; `keystead check` reports them.
        let _ = keyspace.check();
        // A start continues in a segment of its own, so the next one reads no older segments than this one did.
        fs::write(segment_path(dir, last + 1), segment(last + 1, &[])).expect("there is space");
        let (mut again, last_again) = replay(dir, archived).expect("it was read before");
        assert_eq!(last, last_again);
        assert!(keyspace.dump().ok() == again.dump().ok(), "a second start finds another keyspace");
    });
});
