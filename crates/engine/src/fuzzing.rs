//! Access to the journal's internals for the fuzz targets. Compiled only for them.

use std::path::{Path, PathBuf};

use keystead_core::{Result, Revision, ShardId};
use keystead_model::effect::Decoder;
use keystead_model::keyspace::Keyspace;

use crate::journal::record;
use crate::journal::replay::replay as replay_files;
use crate::journal::segment::{Owner, SegmentHeader, path_of};
use crate::load::Counters;

/// The owner of these journals.
const OWNER: Owner = Owner { database: [7; 16], shard: ShardId(0) };

/// A journal record with a valid checksum and arbitrary content.
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
    let header = SegmentHeader { owner: OWNER, first: Revision(first) };
    let mut bytes = header.encode();
    for of in records {
        record::append(
            &mut bytes,
            header.salt(),
            Revision(of.first),
            Revision(of.last),
            Revision(of.synced),
            of.effects,
        );
    }
    bytes
}

/// The name of the segment that begins with this revision.
#[must_use]
pub fn segment_path(dir: &Path, first: u64) -> PathBuf {
    path_of(dir, Revision(first))
}

/// Replays the journal in `dir` on top of an archive of this revision; returns the keyspace and its last revision. What is behind
/// the journal's end is cut off.
///
/// # Errors
/// As at a start.
pub fn replay(dir: &Path, archived: u64) -> Result<(Keyspace, u64)> {
    let mut keyspace = Keyspace::in_memory();
    let mut found = replay_files(dir, OWNER, Revision(archived), &Counters::default(), &mut |effects| {
        for effect in Decoder::new(effects) {
            keyspace.apply_effect(&effect?)?;
        }
        Ok(())
    })?;
    found.cut(dir)?;
    Ok((keyspace, found.last.0))
}
