//! Finds the end of a journal after a crash, and returns every record on the way.
//!
//! The first offset without a complete record is the journal's end unless a later record proves otherwise: a crash may preserve
//! any part of what was not synced. But when a later record was written after the missing one had been synced, the missing one
//! was acknowledged as durable: that is damage, and an error that gives the offset.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;

use keystead_core::{Code, Error, Result, Revision};

use super::record;
use super::segment::{HEADER_BYTES, Owner, Segment, list};
use crate::directory::{cannot, sync_dir};
use crate::load::{Counters, Portion};

/// Bytes that the search for later records reads at a time.
const BLOCK_BYTES: usize = 64 * 1024;

/// The content of a journal.
pub(crate) struct Found {
    /// The last revision.
    pub(crate) last: Revision,
    /// The segments that are valid, by first revision, with their valid length.
    pub(crate) segments: BTreeMap<Revision, u64>,
    /// Files behind the end, which are not valid.
    behind: Vec<std::path::PathBuf>,
    /// Bytes of the last segment that are not valid.
    pub(crate) torn_bytes: u64,
}

/// Reads the journal in `dir` and passes each record younger than `archived` to `apply`. Changes nothing.
pub(crate) fn replay(
    dir: &Path,
    owner: Owner,
    archived: Revision,
    counters: &Counters,
    apply: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<Found> {
    let files = list(dir)?;
    let mut found = Found { last: archived, segments: BTreeMap::new(), behind: Vec::new(), torn_bytes: 0 };
    // The first unarchived revision is in the last segment that does not begin after it. Segments before that are not read.
    let Some(start) = files.iter().rposition(|(first, _)| *first <= archived.next()) else {
        // The name of the segment before them was not on disk yet, or it is missing.
        end_here(&files, owner, archived.next(), 0, &mut found)?;
        return Ok(found);
    };
    for (first, path) in &files[..start] {
        found.segments.insert(*first, length(path)?);
    }
    let lengths = files[start..].iter().map(|(_, path)| length(path)).collect::<Result<Vec<u64>>>()?;
    let mut bytes = Portion { done: 0, total: lengths.iter().sum() };
    counters.set_journal_bytes(bytes);
    let mut expected = files[start].0;
    let mut buffer = Vec::new();
    for (index, (first, path)) in files.iter().enumerate().skip(start) {
        let rest = &files[index..];
        let Some(segment) = Segment::open(path, owner)?.filter(|segment| segment.header.first == *first)
        else {
            end_here(rest, owner, expected, 0, &mut found)?;
            break;
        };
        let mut offset = HEADER_BYTES;
        while let Some(header) = segment.read(offset, &mut buffer)?.filter(|header| header.first == expected)
        {
            if header.last > archived {
                apply(&buffer[record::HEADER_BYTES..]).map_err(|e| e.context(path.display()))?;
                found.last = header.last;
            }
            offset += header.record_len() as u64;
            expected = header.last.next();
            counters.set_journal_bytes(Portion { done: bytes.done + offset, ..bytes });
        }
        bytes.done += lengths[index - start];
        found.segments.insert(*first, offset);
        if files.get(index + 1).is_none_or(|(successor, _)| *successor != expected) {
            end_here(rest, owner, expected, offset, &mut found)?;
            break;
        }
    }
    counters.set_journal_bytes(Portion { done: bytes.total, ..bytes });
    if expected <= archived {
        // The archive is on disk and the end of the journal is not, which is possible at `commit` only: all of this is archived.
        found.segments.clear();
        found.behind = files.into_iter().map(|(_, path)| path).collect();
        found.torn_bytes = 0;
    }
    Ok(found)
}

fn length(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).map_err(|e| cannot("read", path, &e))?.len())
}

/// The journal ends before `missing`, at `offset` of the first of `rest`, unless something behind that was written after
/// `missing` had been synced.
fn end_here(
    rest: &[(Revision, std::path::PathBuf)],
    owner: Owner,
    missing: Revision,
    offset: u64,
    found: &mut Found,
) -> Result<()> {
    for (index, (_, path)) in rest.iter().enumerate() {
        let from = if index == 0 { offset.max(HEADER_BYTES) } else { HEADER_BYTES };
        if let Some(segment) = Segment::open(path, owner)?
            && let Some(at) = later_record(&segment, from, missing)?
        {
            return Err(damaged(&rest[0].1, offset, missing, path, at));
        }
    }
    let kept = usize::from(offset > 0);
    found.behind.extend(rest.iter().skip(kept).map(|(_, path)| path.clone()));
    if let Some((_, path)) = rest.first().filter(|_| kept == 1)
        && let Some(segment) = Segment::open(path, owner)?
    {
        found.torn_bytes = written_behind(&segment, offset)?;
    }
    Ok(())
}

fn damaged(first: &Path, offset: u64, missing: Revision, later: &Path, at: u64) -> Error {
    let place = match offset {
        0 => format!("before {}", first.display()),
        _ => format!("at byte {offset} of {}", first.display()),
    };
    let later = later.display();
    let words = format!(
        "the journal is damaged {place}: revision {missing} was durable and is missing, while {later} continues at byte {at}"
    );
    Error::new(Code::Corrupt, words)
}

/// Number of bytes from `from` to the last one that is not zero: a segment is filled with zeros until it is written.
fn written_behind(segment: &Segment, from: u64) -> Result<u64> {
    let (end, mut at, mut last) = (segment.len()?, from, from);
    let mut block = vec![0; BLOCK_BYTES];
    while at < end {
        let read = segment.read_at(&mut block, at)?;
        if let Some(index) = block[..read].iter().rposition(|byte| *byte != 0) {
            last = at + index as u64 + 1;
        }
        at += BLOCK_BYTES as u64;
    }
    Ok(last - from)
}

/// Searches at every byte from `from` on for a complete record that was written when `missing` was on disk.
fn later_record(segment: &Segment, from: u64, missing: Revision) -> Result<Option<u64>> {
    let (end, mut at) = (segment.len()?, from);
    let mut window = vec![0; BLOCK_BYTES + record::HEADER_BYTES];
    let zeros = vec![0; BLOCK_BYTES + 4];
    let mut whole = Vec::new();
    while at < end {
        let read = segment.read_at(&mut window, at)?;
        window[read..].fill(0);
        // A record begins with its length, so none begins with zeros; and most of a journal's end is zeros.
        let starts = if window[..zeros.len()] == zeros { 0 } else { BLOCK_BYTES };
        for start in 0..starts {
            let header = record::Header::read(&window[start..]);
            if header.is_some_and(|header| header.synced >= missing && header.first > missing) {
                let offset = at + start as u64;
                if segment.read(offset, &mut whole)?.is_some() {
                    return Ok(Some(offset));
                }
            }
        }
        at += BLOCK_BYTES as u64;
    }
    Ok(None)
}

impl Found {
    /// Removes what is behind the end, so that it can never be taken for a part of the journal, and syncs the rest:
    /// the last process may have been killed at `commit` with some of it unsynced, and readers see it from now on.
    pub(crate) fn cut(&mut self, dir: &Path) -> Result<()> {
        for path in self.behind.drain(..) {
            tracing::warn!(file = %path.display(), "removing a journal segment that was never durable");
            fs::remove_file(&path).map_err(|e| cannot("remove", &path, &e))?;
        }
        let end = self.segments.keys().next_back().copied();
        for (first, len) in &self.segments {
            let path = super::segment::path_of(dir, *first);
            let settle = || -> std::io::Result<()> {
                let file = OpenOptions::new().write(true).open(&path)?;
                if end == Some(*first) && file.metadata()?.len() > *len {
                    file.set_len(*len)?;
                }
                file.sync_all()
            };
            settle().map_err(|e| cannot("sync", &path, &e))?;
        }
        sync_dir(dir).map_err(|e| cannot("sync", dir, &e))
    }
}
