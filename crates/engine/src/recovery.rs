//! From files to a keyspace: the keys of the archive, then the journal behind it.

use std::collections::BTreeMap;
use std::fs::File;

use keystead_core::{Code, Error, Result, Revision, Stopwatch};
use keystead_model::effect::Decoder;
use keystead_model::keyspace::Keyspace;
use keystead_model::sql::{self, Archived};

use crate::archive::value_reader::ArchiveReader;
use crate::archive::{Access, Database};
use crate::directory::{ShardFiles, cannot, sync_dir};
use crate::journal::replay::{Found, replay};
use crate::journal::segment::Owner;
use crate::load::{Counters, Portion};

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
    let watch = Stopwatch::start();
    let archived = sql::load_reporting(database, keyspace, &mut |done, total| {
        counters.set_keys(Portion { done, total });
    })?;
    counters.end_archive(watch.elapsed());
    let watch = Stopwatch::start();
    let found = replay(&files.journal, owner, archived.revision, counters, &mut |effects| {
        for effect in Decoder::new(effects) {
            keyspace.apply_effect(&effect?)?;
        }
        Ok(())
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
    counters.end_journal(watch.elapsed());
    Ok((found, archived))
}
