//! Appending to the journal: one segment at a time; when it is full, the next one is begun.
//!
//! Beginning a segment syncs nothing, because at `commit` the shard itself does it. Its name and its header reach the disk with its
//! first records, and until then the journal ends before it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use keystead_core::Revision;

use super::record;
use super::segment::{HEADER_BYTES, Owner, SegmentHeader, path_of};
use super::segments::Segments;
use crate::directory::sync_dir;
use crate::private;

/// The end of a shard's journal.
pub(crate) struct Writer {
    segments: Arc<Segments>,
    owner: Owner,
    file: Arc<File>,
    salt: u32,
    offset: u64,
    capacity: u64,
    /// Whether the name of the file may not be on disk yet.
    is_new: bool,
}

impl Writer {
    /// Begins a new segment at `first`.
    pub(crate) fn begin(segments: Arc<Segments>, owner: Owner, first: Revision) -> io::Result<Self> {
        let (file, salt) = create(&segments, owner, first, segments.segment_bytes())?;
        let capacity = segments.segment_bytes();
        Ok(Writer {
            segments,
            owner,
            file: Arc::new(file),
            salt,
            offset: HEADER_BYTES,
            capacity,
            is_new: true,
        })
    }

    /// Makes sure that a record of `len` effect bytes that begins with `first` fits. Returns the previous file, which
    /// may not be synced yet, when this begins a new segment.
    pub(crate) fn begin_record(&mut self, first: Revision, len: usize) -> io::Result<Option<Arc<File>>> {
        let needed = (record::HEADER_BYTES + len) as u64;
        if self.offset + needed <= self.capacity || self.offset == HEADER_BYTES {
            return Ok(None);
        }
        let capacity = self.segments.segment_bytes();
        let (file, salt) = create(&self.segments, self.owner, first, capacity)?;
        let old = std::mem::replace(&mut self.file, Arc::new(file));
        (self.salt, self.offset, self.capacity, self.is_new) = (salt, HEADER_BYTES, capacity, true);
        Ok(Some(old))
    }

    /// Seed of the next record's checksum.
    pub(crate) fn salt(&self) -> u32 {
        self.salt
    }

    /// Bytes that fit into the current segment.
    pub(crate) fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.offset)
    }

    /// Appends records.
    pub(crate) fn write(&mut self, records: &[u8]) -> io::Result<()> {
        self.file.write_all_at(records, self.offset)?;
        self.offset += records.len() as u64;
        Ok(())
    }

    /// Returns when everything that was written to the current segment is on disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.is_new {
            sync_dir(self.segments.dir())?;
            self.is_new = false;
        }
        Ok(())
    }

    /// Truncates the unused part, so that the next start need not search it for what a crash left.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.file.set_len(self.offset)?;
        self.file.sync_all()
    }

    /// The directory of the segments.
    pub(crate) fn dir(&self) -> PathBuf {
        self.segments.dir().to_owned()
    }

    /// The current segment's file.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Creates a segment from a spare or new file.
fn create(segments: &Segments, owner: Owner, first: Revision, bytes: u64) -> io::Result<(File, u32)> {
    let path = path_of(segments.dir(), first);
    let header = SegmentHeader { owner, first };
    let file = match segments.take_spare() {
        Some(spare) => {
            let file = OpenOptions::new().read(true).write(true).open(&spare)?;
            // A crash may preserve the new name with the old header, which is of an earlier revision: the file is not valid then.
            file.write_all_at(&header.encode(), 0)?;
            fs::rename(&spare, &path)?;
            file
        }
        None => {
            let file = private::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            file.write_all_at(&header.encode(), 0)?;
            file.set_len(bytes)?;
            file
        }
    };
    segments.add(first, bytes);
    Ok((file, header.salt()))
}
