//! From files to a keyspace: the keys of the archive, then the journal behind it.
//!
//! | Thread       | does                                                          | in        |
//! |--------------|---------------------------------------------------------------|-----------|
//! | `ks-load-N`  | reads rows of the archive                                     | `keys`    |
//! | `ks-replay`  | reads the journal, checks and decodes it                      | `records` |
//! | the caller's | puts keys into the table, then applies effects, both in order | this file |
//!
//! The keyspace is changed by one thread only, in the order in which a single thread would do everything.

mod keys;
mod records;

use std::collections::BTreeMap;
use std::fs::File;

use keystead_core::{Code, Error, Result, Revision, Stopwatch};
use keystead_model::keyspace::Keyspace;
use keystead_model::sql::{self, Archived};

use crate::archive::value_reader::ArchiveReader;
use crate::archive::{Access, Database};
use crate::bounds::{LOAD_IDS, LOAD_THREADS};
use crate::directory::{ShardFiles, cannot, sync_dir};
use crate::journal::replay::Found;
use crate::journal::segment::Owner;
use crate::load::{Counters, Portion};

use keys::KeyScan;
use records::Records;

/// A shard as recovered from its files.
pub(crate) struct Recovered {
    pub(crate) keyspace: Keyspace,
    /// The connection that the archive thread continues to use.
    pub(crate) database: Database,
    pub(crate) archived: Archived,
    pub(crate) last: Revision,
    pub(crate) segments: BTreeMap<Revision, u64>,
}

/// Opens a shard's files and recovers its keyspace. Files of a shard that is not `complete` yet are created.
pub(crate) fn recover(
    files: &ShardFiles,
    owner: Owner,
    complete: bool,
    counters: &Counters,
) -> Result<Recovered> {
    files.create()?;
    let mut database =
        Database::open(&files.archive, if complete { Access::Existing } else { Access::Write })?;
    database.transaction(|database| sql::migrate(database))?;
    if !complete {
        let synced =
            File::open(&files.archive).and_then(|file| file.sync_all()).and_then(|()| sync_dir(&files.dir));
        synced.map_err(|e| cannot("sync", &files.archive, &e))?;
    }
    let archive = ArchiveReader(Database::open(&files.archive, Access::Read)?);
    let mut keyspace = Keyspace::new(Box::new(archive));
    let (mut found, archived) = load(&mut database, &mut keyspace, files, owner, counters)?;
    if found.torn_bytes > 0 {
        tracing::info!(
            shard = files.shard.0,
            last = found.last.0,
            "the journal ended in the middle of a segment"
        );
    }
    found.cut(&files.journal)?;
    Ok(Recovered { keyspace, database, archived, last: found.last, segments: found.segments })
}

/// Loads the archive and replays the journal behind it into an empty keyspace.
pub(crate) fn load(
    database: &mut Database,
    keyspace: &mut Keyspace,
    files: &ShardFiles,
    owner: Owner,
    counters: &Counters,
) -> Result<(Found, Archived)> {
    let archived = sql::read_archived(database)?;
    let found = std::thread::scope(|scope| {
        let records = Records::start(scope, &files.journal, owner, archived.revision, counters)?;
        let watch = Stopwatch::start();
        let ids_end = sql::ids_end(database)?;
        let scan = KeyScan::start(scope, &files.archive, archived, ids_end, LOAD_THREADS)?;
        restore_keys(keyspace, scan, archived, ids_end, counters)?;
        sql::complete_load(database, keyspace, archived)?;
        counters.end_archive(watch.elapsed());
        let watch = Stopwatch::start();
        let found = records.apply(&mut |effect| keyspace.apply_effect(effect))?;
        counters.end_journal(watch.elapsed());
        Ok::<_, Error>(found)
    })?;
    if found.last < archived.newest {
        return Err(Error::new(
            Code::Corrupt,
            format!(
                "the archive has changes up to revision {}, and the journal ends with {}: the journal must be complete to \
                 restore what is between {} and there",
                archived.newest, found.last, archived.revision
            ),
        ));
    }
    Ok((found, archived))
}

/// Puts the keys of the archive into an empty keyspace.
fn restore_keys(
    keyspace: &mut Keyspace,
    mut scan: KeyScan,
    archived: Archived,
    ids_end: u64,
    counters: &Counters,
) -> Result<()> {
    let mut loaded = 0;
    counters.set_keys(Portion { done: 0, total: ids_end });
    while let Some(rows) = scan.next()? {
        if loaded == 0 {
            // As many of all ids are in use as of the first ones. If not, the table grows, or has some room.
            keyspace.reserve((rows.len() as u64 * ids_end / LOAD_IDS.min(ids_end)) as usize);
        }
        loaded += rows.len() as u64;
        for row in rows {
            sql::restore_key(keyspace, archived, row)?;
        }
        counters.set_keys(Portion { done: loaded, total: ids_end });
    }
    counters.set_keys(Portion { done: loaded, total: loaded });
    Ok(())
}
