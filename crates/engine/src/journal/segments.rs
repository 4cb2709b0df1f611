//! The segment files of a journal, and spare files for reuse.
//!
//! An archived segment is not deleted but kept as a spare, up to a bound: its blocks are allocated and written, so a
//! sync of new records in it need not change file system metadata and takes about half the time.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keystead_core::{Result, Revision};

use super::segment::path_of;
use crate::bounds::{JOURNAL_KEPT_SEGMENTS, SPARE_SEGMENTS_MAX};
use crate::directory::{cannot, sync_dir};
use crate::private;

/// How much of a new spare is written at a time.
const BLANK_BYTES: u64 = 4 * 1024 * 1024;

/// The files of a shard's journal.
pub(crate) struct Segments {
    dir: PathBuf,
    segment_bytes: u64,
    state: Mutex<State>,
    /// Bytes of all segments: an atomic, because the shard reads it in every batch and must not wait for file operations.
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Length of each segment by its first revision.
    segments: BTreeMap<Revision, u64>,
    spares: Vec<PathBuf>,
    next_spare: u64,
}

impl Segments {
    /// The journal in a directory with these segments. Spare files of an earlier process that are complete are reused,
    /// others are removed.
    pub(crate) fn new(dir: &Path, segment_bytes: u64, segments: BTreeMap<Revision, u64>) -> Result<Self> {
        let mut state = State { segments, ..State::default() };
        for entry in fs::read_dir(dir).map_err(|e| cannot("read", dir, &e))?.flatten() {
            let path = entry.path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
            let whole = entry.metadata().is_ok_and(|metadata| metadata.len() == segment_bytes);
            match (extension, number) {
                ("spare", Some(number)) if whole && state.spares.len() < SPARE_SEGMENTS_MAX => {
                    state.next_spare = state.next_spare.max(number + 1);
                    state.spares.push(path);
                }
                ("spare" | "blank", _) => fs::remove_file(&path).map_err(|e| cannot("remove", &path, &e))?,
                _ => {}
            }
        }
        let bytes = AtomicU64::new(state.segments.values().sum());
        Ok(Segments { dir: dir.to_path_buf(), segment_bytes, bytes, state: Mutex::new(state) })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The first revision of the segment that contains `revision`.
    pub(crate) fn holding(&self, revision: Revision) -> Option<Revision> {
        self.lock().segments.range(..=revision).next_back().map(|(first, _)| *first)
    }

    pub(crate) fn add(&self, first: Revision, len: u64) {
        self.bytes.fetch_add(len, Ordering::Relaxed);
        self.lock().segments.insert(first, len);
    }

    /// A spare file for reuse.
    pub(crate) fn take_spare(&self) -> Option<PathBuf> {
        self.lock().spares.pop()
    }

    /// Writes some more zeros to a file that becomes a spare, unless there is one: allocated and written blocks make syncing cheap,
    /// but writing a whole segment at once would keep the disk busy for too long.
    pub(crate) fn prepare_spare(&self) -> std::io::Result<()> {
        if !self.lock().spares.is_empty() {
            return Ok(());
        }
        let path = self.dir.join("next.blank");
        let mut file = private::options().create(true).append(true).open(&path)?;
        let missing = self.segment_bytes.saturating_sub(file.metadata()?.len());
        file.write_all(&vec![0; missing.min(BLANK_BYTES) as usize])?;
        if missing > BLANK_BYTES {
            return file.sync_data();
        }
        file.sync_all()?;
        let mut state = self.lock();
        let spare = self.dir.join(format!("{}.spare", state.next_spare));
        fs::rename(&path, &spare)?;
        state.next_spare += 1;
        state.spares.push(spare);
        Ok(())
    }

    /// Recycles segments that contain nothing younger than `archived`, except for the last few, and returns the first revision
    /// that remains.
    pub(crate) fn recycle(&self, archived: Revision) -> Result<Option<Revision>> {
        let mut state = self.lock();
        let firsts: Vec<Revision> = state.segments.keys().copied().collect();
        let mut released = false;
        for pair in firsts.windows(2).rev().skip(JOURNAL_KEPT_SEGMENTS).rev() {
            let (first, next) = (pair[0], pair[1]);
            if next > archived.next() {
                break;
            }
            let path = path_of(&self.dir, first);
            let whole = state.segments.get(&first) == Some(&self.segment_bytes);
            if whole && state.spares.len() < SPARE_SEGMENTS_MAX {
                let spare = self.dir.join(format!("{}.spare", state.next_spare));
                fs::rename(&path, &spare).map_err(|e| cannot("rename", &path, &e))?;
                state.next_spare += 1;
                state.spares.push(spare);
            } else {
                fs::remove_file(&path).map_err(|e| cannot("remove", &path, &e))?;
            }
            self.bytes.fetch_sub(state.segments.remove(&first).unwrap_or(0), Ordering::Relaxed);
            released = true;
        }
        let oldest = state.segments.keys().next().copied();
        drop(state);
        if released {
            sync_dir(&self.dir).map_err(|e| cannot("sync", &self.dir, &e))?;
        }
        Ok(oldest)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
