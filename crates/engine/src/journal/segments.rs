//! The segment files of a journal, and spare files for reuse.
//!
//! An archived segment is not deleted but kept as a spare, up to a bound: its blocks are allocated and written, so a
//! sync of new records in it need not change file system metadata and takes about half the time.
//!
//! Readers of the feed may hold archived segments back, up to a bound in bytes. Those do not count as part of the journal's size.

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
    /// Bytes of archived segments that are kept only for readers, and how many may be.
    held: AtomicU64,
    held_max: u64,
    /// The last revision that no reader needs any longer.
    released: AtomicU64,
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
    pub(crate) fn new(
        dir: &Path,
        segment_bytes: u64,
        segments: BTreeMap<Revision, u64>,
        held_max: u64,
    ) -> Result<Self> {
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
        let (held, released) = (AtomicU64::new(0), AtomicU64::new(0));
        let (dir, state) = (dir.to_path_buf(), Mutex::new(state));
        Ok(Segments { dir, segment_bytes, state, bytes, held, held_max, released })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of all segments, except for those that are kept only for readers.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).saturating_sub(self.held_bytes())
    }

    /// Bytes of archived segments that are kept only for readers.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Says that no reader needs what is up to this revision any longer.
    pub(crate) fn release_held(&self, through: Revision) {
        self.released.fetch_max(through.0, Ordering::Relaxed);
    }

    /// Whether a segment that was kept for readers may be recycled.
    pub(crate) fn has_released(&self) -> bool {
        if self.held_bytes() == 0 {
            return false;
        }
        let released = Revision(self.released.load(Ordering::Relaxed));
        self.lock().segments.keys().nth(1).is_some_and(|second| *second <= released.next())
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
    /// that remains. Files are removed without the lock: the shard may need it for its next segment.
    pub(crate) fn recycle(&self, archived: Revision) -> Result<Option<Revision>> {
        let released = self.release(archived);
        for (n, (first, len)) in released.iter().enumerate() {
            if let Err(error) = self.recycle_file(&path_of(&self.dir, *first), *len) {
                // Tried again after the next checkpoint.
                self.lock().segments.extend(released[n..].iter().copied());
                return Err(error);
            }
            self.bytes.fetch_sub(*len, Ordering::Relaxed);
        }
        if !released.is_empty() {
            sync_dir(&self.dir).map_err(|e| cannot("sync", &self.dir, &e))?;
        }
        Ok(self.lock().segments.keys().next().copied())
    }

    /// Makes a spare of a segment's file, or removes it.
    fn recycle_file(&self, path: &Path, len: u64) -> Result<()> {
        let Some(spare) = self.next_spare(len) else {
            return fs::remove_file(path).map_err(|e| cannot("remove", path, &e));
        };
        fs::rename(path, &spare).map_err(|e| cannot("rename", path, &e))?;
        self.lock().spares.push(spare);
        Ok(())
    }

    /// Takes the segments that may be recycled off the list, with their lengths.
    fn release(&self, archived: Revision) -> Vec<(Revision, u64)> {
        let mut state = self.lock();
        let (released, held) = self.recyclable(&state, archived);
        self.held.store(held, Ordering::Relaxed);
        released.into_iter().filter_map(|first| Some((first, state.segments.remove(&first)?))).collect()
    }

    /// Counts what is kept only for readers, before anything is recycled.
    pub(crate) fn count_held(&self, archived: Revision) {
        let (_, held) = self.recyclable(&self.lock(), archived);
        self.held.store(held, Ordering::Relaxed);
    }

    /// The segments that may be recycled, and the bytes of those that could be if no reader needed them.
    fn recyclable(&self, state: &State, archived: Revision) -> (Vec<Revision>, u64) {
        let firsts: Vec<Revision> = state.segments.keys().copied().collect();
        let kept = firsts.windows(2).rev().skip(JOURNAL_KEPT_SEGMENTS).rev();
        let (mut released, mut held) = (Vec::new(), Vec::new());
        let needed_after = Revision(self.released.load(Ordering::Relaxed)).next();
        for pair in kept.take_while(|pair| pair[1] <= archived.next()) {
            match self.held_max > 0 && pair[1] > needed_after {
                true => held.push((pair[0], state.segments.get(&pair[0]).copied().unwrap_or_default())),
                false => released.push(pair[0]),
            }
        }
        let mut bytes: u64 = held.iter().map(|(_, len)| len).sum();
        for (first, len) in held {
            if bytes <= self.held_max {
                break;
            }
            bytes -= len;
            released.push(first);
        }
        (released, bytes)
    }

    /// The path of the next spare, if a file of this length can become one and there are not enough.
    fn next_spare(&self, len: u64) -> Option<PathBuf> {
        let mut state = self.lock();
        (len == self.segment_bytes && state.spares.len() < SPARE_SEGMENTS_MAX).then(|| {
            state.next_spare += 1;
            self.dir.join(format!("{}.spare", state.next_spare - 1))
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
