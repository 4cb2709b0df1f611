//! A consistent copy of a running database: each shard's archive, brought up to date and copied as one SQLite file.

use std::fs::{self, File};
use std::path::Path;

use keystead_core::{Code, Error, Result, Revision};
use tokio::sync::oneshot;

use crate::archive::archiver::{Copy, Request};
use crate::bounds::{COPIES_KNOWN_MAX, SEGMENT_BYTES};
use crate::directory::{Identity, ShardFiles, cannot, create_dirs, sync_dir, write_identity};
use crate::engine::Engine;
use crate::journal::segment::Owner;
use crate::options::Durability;

impl Engine {
    /// The id of the database: a copy has another one. None for a database in memory.
    #[must_use]
    pub fn id(&self) -> Option<&String> {
        self.inner.identity.as_ref().map(|(id, _)| id)
    }

    /// The ids of the databases that this one is a copy of, the last one first.
    #[must_use]
    pub fn copied_from(&self) -> &[String] {
        self.inner.identity.as_ref().map_or(&[], |(_, copied_from)| copied_from)
    }

    /// Writes a copy to `dir`, which must not exist or be empty, and returns each shard's revision in it. The copy has
    /// everything that was acknowledged before the call, and opens as a database.
    ///
    /// # Errors
    /// `unsupported` for a database in memory, `bad_request` when `dir` is not empty, `store_unavailable` when it cannot be
    /// written. An incomplete copy does not open as a database: `database.json` is written last.
    pub async fn backup(&self, dir: &Path) -> Result<Vec<Revision>> {
        if self.durability() == Durability::Memory {
            return Err(Error::new(
                Code::Unsupported,
                "a database in memory has nothing to copy: it has no files",
            ));
        }
        create_dirs(dir)?;
        if fs::read_dir(dir).map_err(|e| cannot("read", dir, &e))?.next().is_some() {
            return Err(Error::new(
                Code::BadRequest,
                format!("{} is not empty: choose another directory", dir.display()),
            ));
        }
        let copied_from =
            self.id().into_iter().chain(self.copied_from()).take(COPIES_KNOWN_MAX).cloned().collect();
        let identity = Identity { complete: true, copied_from, ..Identity::new(self.shards()) };
        let mut copies = Vec::new();
        for (id, shard) in self.shard_ids().zip(&self.inner.shards) {
            let files = ShardFiles::of(dir, id);
            files.create()?;
            let (reply, copied) = oneshot::channel();
            let owner = Owner { database: identity.id_bytes(), shard: id };
            let segment_bytes = shard.files.as_ref().map_or(SEGMENT_BYTES, |files| files.segment_bytes());
            let copy = Copy { files: files.clone(), owner, segment_bytes };
            let requested = shard.archive.as_ref().map(|archive| archive.send(Request::Copy(copy, reply)));
            if !matches!(requested, Some(Ok(()))) {
                return Err(ended());
            }
            copies.push((files, copied));
        }
        let mut revisions = Vec::new();
        for (files, copied) in copies {
            revisions.push(copied.await.map_err(|_| ended())??);
            let synced = File::open(&files.archive)
                .and_then(|file| file.sync_all())
                .and_then(|()| sync_dir(&files.dir));
            synced.map_err(|e| cannot("sync", &files.archive, &e))?;
        }
        write_identity(dir, &identity)?;
        Ok(revisions)
    }
}

fn ended() -> Error {
    Error::new(Code::StoreUnavailable, "the database is closed")
}
