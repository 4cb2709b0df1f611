//! What the fuzz targets need of the journal's insides. It is compiled for them alone.

use std::path::{Path, PathBuf};

use keystead_core::Result;
use keystead_model::effect::Decoder;
use keystead_model::keyspace::Keyspace;

use crate::journal::record;
use crate::journal::replay::replay as replay_files;
use crate::journal::segment::{Owner, SegmentHeader, path_of};

/// Whose journals these are.
const OWNER: Owner = Owner { database: [7; 16], shard: 0 };

/// A record of a journal whose checksum is right, whatever it holds.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its first revision.
    pub first: u64,
    /// Its last revision.
    pub last: u64,
    /// The revision that was on disk when it was written.
    pub synced: u64,
    /// Its effects, encoded.
    pub effects: &'a [u8],
}

/// The bytes of a segment that begins with this revision.
#[must_use]
pub fn segment(first: u64, records: &[Record<'_>]) -> Vec<u8> {
    let header = SegmentHeader { owner: OWNER, first };
    let mut bytes = header.encode();
    for of in records {
        record::append(&mut bytes, header.salt(), of.first, of.last, of.synced, of.effects);
    }
    bytes
}

/// The name of the segment that begins with this revision.
#[must_use]
pub fn segment_path(dir: &Path, first: u64) -> PathBuf {
    path_of(dir, first)
}

/// Replays the journal in `dir` behind an archive of this revision: the keyspace and its last revision. What stands behind the journal's end is
/// cut off.
///
/// # Errors
/// As at a start.
pub fn replay(dir: &Path, archived: u64) -> Result<(Keyspace, u64)> {
    let mut keyspace = Keyspace::in_memory();
    let mut found = replay_files(dir, OWNER, archived, &mut |effects| {
        for effect in Decoder::new(effects) {
            keyspace.apply_effect(&effect?)?;
        }
        Ok(())
    })?;
    found.cut(dir)?;
    Ok((keyspace, found.last))
}
