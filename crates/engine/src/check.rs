//! Offline consistency check: reads all files of a database and reports what is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use keystead_core::{Error, Result, ShardId};
use keystead_model::keyspace::Keyspace;
use keystead_model::sql;

use crate::archive::value_reader::ArchiveReader;
use crate::archive::{Access, Database};
use crate::directory::{Directory, ShardFiles};
use crate::journal::segment::Owner;
use crate::load::Counters;
use crate::recovery::load;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of shards.
    pub shards: usize,
    /// Number of keys.
    pub keys: usize,
    /// Revisions that are in the journal and not yet in the archive.
    pub unarchived: u64,
    /// Bytes at the end of journals that a crash left behind. They were never durable, so this is not a problem.
    pub torn_bytes: u64,
    /// The problems found; empty when the database is consistent.
    pub problems: Vec<String>,
}

/// Checks the database in `dir`, which no process may have open: SQLite's integrity, that every data row has its key, the
/// journal's checksums, and that archive and journal load together. Changes nothing, except that SQLite recovers its log. An
/// archive of an older version is copied for the check, and the copy is migrated.
///
/// # Errors
/// When there is no database, or another process has it open. Problems inside are in the report.
pub fn check(dir: &Path) -> Result<Report> {
    let directory = Directory::open_existing(dir)?;
    let mut report = Report { shards: directory.identity.shards, ..Report::default() };
    for shard in ShardId::all(directory.identity.shards) {
        let owner = Owner { database: directory.identity.id_bytes(), shard };
        let mut problems = Vec::new();
        if let Err(error) = check_shard(&directory.shard(shard), owner, &mut report, &mut problems) {
            problems.push(error.to_string());
        }
        report.problems.extend(problems.into_iter().map(|problem| format!("shard {shard}: {problem}")));
    }
    Ok(report)
}

fn check_shard(
    files: &ShardFiles,
    owner: Owner,
    report: &mut Report,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut database = Database::open(&files.archive, Access::Existing)?;
    problems.extend(database.integrity()?);
    if !problems.is_empty() {
        return Ok(());
    }
    let is_older = sql::schema::stored(&mut database)?.is_some_and(|schema| schema < sql::schema::SCHEMA);
    let copy = if is_older { Some(MigratedCopy::of(&mut database, &files.archive)?) } else { None };
    let path = copy.as_ref().map_or(files.archive.as_path(), |copy| &copy.0);
    if is_older {
        database = Database::open(path, Access::Existing)?;
    }
    problems.extend(sql::audit(&mut database)?);
    let archive = ArchiveReader(Database::open(path, Access::Read)?);
    let mut keyspace = Keyspace::new(Box::new(archive));
    let (found, archived) = load(&mut database, &mut keyspace, files, owner, &Counters::default())?;
    report.keys += keyspace.len();
    report.unarchived += found.last.0 - archived.revision.0;
    report.torn_bytes += found.torn_bytes;
    problems.extend(keyspace.check().err());
    // Every value can be read.
    keyspace.dump().map(|_| ()).map_err(|e: Error| e.context("a value cannot be read"))
}

/// A copy of an archive with the present schema, deleted when dropped.
struct MigratedCopy(PathBuf);

impl MigratedCopy {
    fn of(database: &mut Database, archive: &Path) -> Result<Self> {
        let copy = MigratedCopy(archive.with_extension("check"));
        // Of a check that was interrupted.
        copy.remove();
        database.copy_to(&copy.0)?;
        Database::open(&copy.0, Access::Existing)?.transaction(|database| sql::migrate(database))?;
        Ok(copy)
    }

    fn remove(&self) {
        for ending in ["check", "check-wal", "check-shm"] {
            let _ = fs::remove_file(self.0.with_extension(ending));
        }
    }
}

impl Drop for MigratedCopy {
    fn drop(&mut self) {
        self.remove();
    }
}
