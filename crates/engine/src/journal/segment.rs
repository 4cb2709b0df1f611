//! One journal file: a header that identifies its shard, then records up to the first invalid one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use keystead_core::{Code, Error, Result, Revision, ShardId};

use super::record;
use crate::directory::cannot;

const MAGIC: [u8; 8] = *b"KEYSTJ01";

/// Offset of the first record.
pub(crate) const HEADER_BYTES: u64 = 48;

/// The shard that a journal belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) database: [u8; 16],
    pub(crate) shard: ShardId,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) owner: Owner,
    pub(crate) first: Revision,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.owner.database);
        bytes.extend_from_slice(&(self.owner.shard.0 as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.first.0.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// `None` when these bytes are not a complete header.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES as usize)?;
        let (body, checksum) = bytes.split_at(44);
        if body[..8] != MAGIC || crc32fast::hash(body).to_le_bytes() != checksum {
            return None;
        }
        Some(SegmentHeader {
            owner: Owner {
                database: body[8..24].try_into().ok()?,
                shard: ShardId(u32::from_le_bytes(body[24..28].try_into().ok()?) as usize),
            },
            first: Revision(u64::from_le_bytes(body[32..40].try_into().ok()?)),
        })
    }

    /// Seed of every checksum of the segment.
    pub(crate) fn salt(&self) -> u32 {
        crc32fast::hash(&self.encode())
    }
}

/// The path of the segment that begins with `first`. Names sort by revision.
pub(crate) fn path_of(dir: &Path, first: Revision) -> PathBuf {
    dir.join(format!("{first:020}.journal"))
}

/// The segments in a directory, by their first revision.
pub(crate) fn list(dir: &Path) -> Result<Vec<(Revision, PathBuf)>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| cannot("read", dir, &e))? {
        let path = entry.map_err(|e| cannot("read", dir, &e))?.path();
        if path.extension().is_some_and(|extension| extension == "journal") {
            let first = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).map(Revision);
            segments.push((first.ok_or_else(|| foreign(&path))?, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

fn foreign(path: &Path) -> Error {
    Error::new(Code::Corrupt, "this is not a journal of this shard: move it away").context(path.display())
}

/// A segment that is open for reading.
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) salt: u32,
    file: File,
}

impl Segment {
    /// Opens a segment. `None` when its header is not complete; then it holds nothing that was acknowledged as durable.
    pub(crate) fn open(path: &Path, owner: Owner) -> Result<Option<Self>> {
        let file = OpenOptions::new().read(true).open(path).map_err(|e| cannot("open", path, &e))?;
        let mut bytes = [0; HEADER_BYTES as usize];
        let read = read_full_at(&file, &mut bytes, 0).map_err(|e| cannot("read", path, &e))?;
        let Some(header) = SegmentHeader::decode(&bytes[..read]) else { return Ok(None) };
        if header.owner != owner {
            return Err(foreign(path));
        }
        Ok(Some(Segment { path: path.to_path_buf(), salt: header.salt(), header, file }))
    }

    pub(crate) fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| cannot("read", &self.path, &e))?.len())
    }

    /// Reads the record at `offset` into `buffer`. `None` when there is no complete record.
    pub(crate) fn read(&self, offset: u64, buffer: &mut Vec<u8>) -> Result<Option<record::Header>> {
        buffer.resize(record::HEADER_BYTES, 0);
        let read = self.read_at(buffer, offset)?;
        let Some(header) = record::Header::read(&buffer[..read]) else { return Ok(None) };
        if offset + header.record_len() as u64 > self.len()? {
            return Ok(None);
        }
        buffer.resize(header.record_len(), 0);
        let read = self.read_at(&mut buffer[record::HEADER_BYTES..], offset + record::HEADER_BYTES as u64)?;
        Ok((read == header.len && header.matches(self.salt, buffer)).then_some(header))
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        read_full_at(&self.file, buffer, offset).map_err(|e| cannot("read", &self.path, &e))
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_identifies_its_shard_and_detects_damage() {
        let header =
            SegmentHeader { owner: Owner { database: [7; 16], shard: ShardId(3) }, first: Revision(99) };
        let bytes = header.encode();
        assert_eq!(bytes.len() as u64, HEADER_BYTES);
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(SegmentHeader::decode(&damaged), None, "byte {at}");
        }
    }
}
