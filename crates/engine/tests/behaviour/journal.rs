//! Journals that are damaged at the end, in the middle, or are foreign.
//!
//! Damage is distinguished from a torn end by each record's `synced`: the last revision that was on disk when it was written. A
//! record that is missing although a later one has it as synced was durable, so its loss is an error that gives the offset. No
//! later record proves that the very last one was synced: after a crash it cannot be distinguished from one that was never
//! synced, and the journal ends before it. A clean close archives everything first, so then not even that record can be lost.

use std::fs;
use std::path::{Path, PathBuf};

use keystead_core::Code;
use keystead_engine::{Engine, check};
use tempfile::TempDir;

use crate::common::{copy_dir, count_right, crashed, options};

const KEYS: usize = 120;
const SEGMENT_HEADER_BYTES: usize = 48;
const RECORD_HEADER_BYTES: usize = 32;

/// The file and byte range of each record.
fn records(dir: &Path) -> Vec<(PathBuf, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    for path in segments(dir) {
        let bytes = fs::read(&path).unwrap();
        let mut at = SEGMENT_HEADER_BYTES;
        while let Some(len) = bytes.get(at..at + 4) {
            let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
            if len == 0 {
                break;
            }
            found.push((path.clone(), at..at + RECORD_HEADER_BYTES + len));
            at += RECORD_HEADER_BYTES + len;
        }
    }
    found
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("shard-0/journal")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "journal"));
    paths.sort();
    paths
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn copy_of(original: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_dir(original, copy.path());
    copy
}

/// Opens it and returns how many keys there are; checks that everything is consistent after that.
async fn open_and_count(dir: &Path) -> usize {
    let engine = Engine::open(&options(dir)).unwrap();
    let count = count_right(&engine, KEYS).await;
    engine.close().await.unwrap();
    assert_eq!(check(dir).unwrap().problems, Vec::<String>::new());
    count
}

/// Opening fails with a message that contains `location`; a check reports the same; nothing is changed.
fn is_rejected(dir: &Path, location: &str, what: &str) {
    let before: Vec<Vec<u8>> = segments(dir).iter().map(|path| fs::read(path).unwrap()).collect();
    let error = Engine::open(&options(dir)).err().unwrap_or_else(|| panic!("{what}: it opened"));
    assert_eq!(error.code(), Code::Corrupt, "{what}: {error}");
    assert!(error.message().contains(location), "{what}: {location} is not in: {error}");
    let problems = check(dir).unwrap().problems;
    assert!(problems.iter().any(|problem| problem.contains(location)), "{what}: {problems:?}");
    let after: Vec<Vec<u8>> = segments(dir).iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(before, after, "{what}");
}

#[tokio::test]
async fn a_torn_end_costs_only_what_is_torn() {
    let original = tempfile::tempdir().unwrap();
    crashed(original.path(), 1, KEYS).await;
    let records = records(original.path());
    assert_eq!(records.len(), KEYS);
    assert!(segments(original.path()).len() > 2, "it should be several segments");
    let (path, last) = records.last().unwrap();
    let name = path.strip_prefix(original.path()).unwrap();
    for cut in [last.start, last.start + 1, last.start + RECORD_HEADER_BYTES, last.end - 1, last.end] {
        let copy = copy_of(original.path());
        let file = fs::OpenOptions::new().write(true).open(copy.path().join(name)).unwrap();
        file.set_len(cut as u64).unwrap();
        assert_eq!(
            open_and_count(copy.path()).await,
            if cut == last.end { KEYS } else { KEYS - 1 },
            "cut at {cut}"
        );
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_last_record_ends_the_journal_before_it() {
    let original = tempfile::tempdir().unwrap();
    crashed(original.path(), 1, KEYS).await;
    let (path, last) = records(original.path()).pop().unwrap();
    let name = path.strip_prefix(original.path()).unwrap();
    for at in last.clone().step_by(7) {
        let copy = copy_of(original.path());
        flip(&copy.path().join(name), at);
        assert_eq!(open_and_count(copy.path()).await, KEYS - 1, "byte {at}");
    }
    // After a clean close the archive has it too, and nothing is lost.
    let engine = Engine::open(&options(original.path())).unwrap();
    engine.close().await.unwrap();
    let copy = copy_of(original.path());
    flip(&copy.path().join(name), last.start + 40);
    assert_eq!(open_and_count(copy.path()).await, KEYS);
}

#[tokio::test]
async fn damage_in_the_middle_is_named_with_file_and_byte() {
    let original = tempfile::tempdir().unwrap();
    crashed(original.path(), 1, KEYS).await;
    let records = records(original.path());
    for (index, (path, bytes)) in records.iter().enumerate().take(KEYS - 1).step_by(5) {
        let name = path.strip_prefix(original.path()).unwrap();
        let copy = copy_of(original.path());
        flip(&copy.path().join(name), bytes.start + (index * 11) % bytes.len());
        let location = format!("byte {} of {}", bytes.start, copy.path().join(name).display());
        is_rejected(copy.path(), &location, &format!("record {index}"));
    }
}

#[tokio::test]
async fn a_missing_cut_or_headless_segment_in_the_middle_is_rejected() {
    let original = tempfile::tempdir().unwrap();
    crashed(original.path(), 1, KEYS).await;
    let paths = segments(original.path());
    let (first, middle) = (&paths[0], &paths[1]);
    let name = |path: &Path| path.strip_prefix(original.path()).unwrap().to_path_buf();
    for (path, what) in [(first, "the first"), (middle, "a middle one")] {
        let copy = copy_of(original.path());
        fs::remove_file(copy.path().join(name(path))).unwrap();
        is_rejected(copy.path(), ".journal", &format!("{what} is missing"));

        let copy = copy_of(original.path());
        fs::write(copy.path().join(name(path)), "").unwrap();
        is_rejected(copy.path(), ".journal", &format!("{what} is empty"));

        let copy = copy_of(original.path());
        flip(&copy.path().join(name(path)), 20);
        is_rejected(copy.path(), ".journal", &format!("{what} has a damaged header"));

        let copy = copy_of(original.path());
        let bytes = fs::read(path).unwrap();
        fs::write(copy.path().join(name(path)), &bytes[..bytes.len() / 2]).unwrap();
        is_rejected(copy.path(), &name(path).display().to_string(), &format!("{what} is cut"));
    }
}

#[tokio::test]
async fn a_segment_of_another_database_or_shard_is_rejected() {
    let (original, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    crashed(original.path(), 1, KEYS).await;
    crashed(other.path(), 2, KEYS).await;
    let path = &segments(original.path())[1];
    let name = path.strip_prefix(original.path()).unwrap();
    let words = "not a journal of this shard";

    let copy = copy_of(original.path());
    fs::copy(&segments(other.path())[0], copy.path().join(name)).unwrap();
    is_rejected(copy.path(), words, "of another database");

    let copy = copy_of(original.path());
    fs::write(copy.path().join("shard-0/journal/notes.journal"), "hello").unwrap();
    is_rejected(copy.path(), words, "of another program");

    let copy = copy_of(other.path());
    let mine = segments(copy.path())[0].clone();
    let theirs = fs::read_dir(copy.path().join("shard-1/journal")).unwrap().next().unwrap().unwrap().path();
    fs::copy(theirs, mine).unwrap();
    is_rejected(copy.path(), words, "of another shard");
}
