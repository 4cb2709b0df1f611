//! The directory of a database: its files and its lock.
//!
//! ```text
//! DIR/lock                      held by the process that has the database open
//! DIR/database.json             format, id, number of shards; written once
//! DIR/shard-0/archive.sqlite    keys and values
//! DIR/shard-0/journal/*.journal recent changes, not all of them in the archive yet
//! ```

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use keystead_core::{Code, Error, Result, ShardId};
use serde::{Deserialize, Serialize};

use crate::bounds::SHARDS_MAX;
use crate::private;

const FORMAT: u32 = 1;

/// What is fixed when a database is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    /// Part of every journal segment, so that files of another database are detected.
    pub(crate) id: String,
    pub(crate) shards: usize,
    /// Whether every shard has its files. From then on a missing file is damage.
    #[serde(default)]
    pub(crate) complete: bool,
    /// The ids of the databases that this one is a copy of, the last one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) copied_from: Vec<String>,
}

impl Identity {
    /// The id as 16 bytes.
    pub(crate) fn id_bytes(&self) -> [u8; 16] {
        u128::from_str_radix(&self.id, 16).unwrap_or(0).to_le_bytes()
    }

    pub(crate) fn new(shards: usize) -> Self {
        // Seeded by the operating system.
        let half = || u128::from(RandomState::new().hash_one(shards));
        Identity {
            format: FORMAT,
            id: format!("{:032x}", half() << 64 | half()),
            shards,
            complete: false,
            copied_from: Vec::new(),
        }
    }
}

/// A directory that is locked by this process.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    pub(crate) identity: Identity,
    /// Released on drop.
    _lock: File,
}

impl Directory {
    /// Opens or creates a database's directory. `shards` is the requested number, if any; else a new database has `if_new`.
    pub(crate) fn open(path: &Path, shards: Option<usize>, if_new: usize) -> Result<Self> {
        create_dirs(path)?;
        let lock = lock(path)?;
        let identity = match Directory::identity(path)? {
            Some(identity) => identity,
            None => create(path, shards.unwrap_or(if_new))?,
        };
        if let Some(wanted) = shards
            && wanted != identity.shards
        {
            let stored = identity.shards;
            return Err(Error::new(
                Code::ConfigInvalid,
                format!("the database has {stored} shards, fixed when it was created: open it with {stored}, not {wanted}"),
            )
            .context(path.display()));
        }
        Ok(Directory { path: path.to_path_buf(), identity, _lock: lock })
    }

    /// Opens the directory of an existing database.
    pub(crate) fn open_existing(path: &Path) -> Result<Self> {
        if !path.join("database.json").is_file() {
            return Err(Error::new(Code::ConfigInvalid, "there is no database here").context(path.display()));
        }
        Directory::open(path, None, 1)
    }

    /// Records that every shard has its files and that they are durable.
    pub(crate) fn complete(&self) -> Result<()> {
        match self.identity.complete {
            true => Ok(()),
            false => write_identity(&self.path, &Identity { complete: true, ..self.identity.clone() }),
        }
    }

    pub(crate) fn shard(&self, shard: ShardId) -> ShardFiles {
        ShardFiles::of(&self.path, shard)
    }

    fn identity(path: &Path) -> Result<Option<Identity>> {
        let file = path.join("database.json");
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(cannot("read", &file, &e)),
        };
        let broken = |why: String| Err(Error::new(Code::Corrupt, why).context(file.display()));
        let identity: Identity = match serde_json::from_slice(&text) {
            Ok(identity) => identity,
            Err(e) => return broken(format!("this is not a database's description ({e})")),
        };
        if identity.format > FORMAT {
            let format = identity.format;
            return Err(Error::new(
                Code::Unsupported,
                format!("the database has format {format}, and this Keystead knows up to {FORMAT}: use a newer Keystead"),
            )
            .context(file.display()));
        }
        if !identity.shards.is_power_of_two() || identity.shards > SHARDS_MAX {
            return broken(format!("{} is not a number of shards", identity.shards));
        }
        Ok(Some(identity))
    }
}

fn create(path: &Path, shards: usize) -> Result<Identity> {
    if path.join("shard-0").exists() {
        return Err(Error::new(
            Code::Corrupt,
            "database.json is missing beside existing shards: restore it, or move the shards away",
        )
        .context(path.display()));
    }
    let identity = Identity::new(shards);
    write_identity(path, &identity)?;
    Ok(identity)
}

/// Writes `database.json` atomically.
pub(crate) fn write_identity(path: &Path, identity: &Identity) -> Result<()> {
    let (file, temporary) = (path.join("database.json"), path.join("database.json.new"));
    let write = || -> std::io::Result<()> {
        let mut out = private::options().write(true).create(true).truncate(true).open(&temporary)?;
        out.write_all(serde_json::to_string(identity)?.as_bytes())?;
        out.write_all(b"\n")?;
        out.sync_all()?;
        fs::rename(&temporary, &file)?;
        sync_dir(path)
    };
    write().map_err(|e| cannot("write", &file, &e))
}

fn lock(path: &Path) -> Result<File> {
    let file = path.join("lock");
    let mut lock = private::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&file)
        .map_err(|e| cannot("write to", path, &e))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&file).unwrap_or_default();
            let holder = holder.trim();
            let who = match holder {
                "" => "another process".into(),
                own if own == std::process::id().to_string() => "this process already".into(),
                other => format!("another process ({other})"),
            };
            return Err(Error::new(
                Code::StoreUnavailable,
                format!("the database is open in {who}: close it there, or choose another directory"),
            )
            .context(path.display()));
        }
        Err(TryLockError::Error(e)) => return Err(cannot("lock", &file, &e)),
    }
    let note = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    note.map_err(|e| cannot("write to", path, &e))?;
    Ok(lock)
}

/// The files of one shard.
#[derive(Clone, Debug)]
pub(crate) struct ShardFiles {
    pub(crate) shard: ShardId,
    pub(crate) dir: PathBuf,
    pub(crate) archive: PathBuf,
    pub(crate) journal: PathBuf,
}

impl ShardFiles {
    pub(crate) fn of(path: &Path, shard: ShardId) -> Self {
        let dir = path.join(format!("shard-{shard}"));
        ShardFiles { shard, archive: dir.join("archive.sqlite"), journal: dir.join("journal"), dir }
    }

    /// Creates the directories durably.
    pub(crate) fn create(&self) -> Result<()> {
        private::create_dir_all(&self.journal).map_err(|e| cannot("create", &self.journal, &e))?;
        let parent = self.dir.parent().unwrap_or(&self.dir);
        sync_dir(parent).and_then(|()| sync_dir(&self.dir)).map_err(|e| cannot("sync", &self.dir, &e))
    }
}

/// Creates a directory and its parents, and syncs their names. One that exists may have been created by a process
/// that ended before it could sync it.
pub(crate) fn create_dirs(path: &Path) -> Result<()> {
    let made = path.ancestors().take_while(|folder| !folder.exists()).count();
    private::create_dir_all(path).map_err(|e| cannot("create", path, &e))?;
    let whole = path.canonicalize().map_err(|e| cannot("find", path, &e))?;
    for folder in whole.ancestors().skip(1).take(made.max(1)) {
        match sync_dir(folder) {
            // A directory that may not be read cannot be synced, and nothing was created in it either.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {}
            synced => synced.map_err(|e| cannot("sync", folder, &e))?,
        }
    }
    Ok(())
}

/// Makes renames, new and removed names in `path` durable.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// Converts the error of a file operation, after which nothing has changed.
pub(crate) fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ": choose a directory that can be written"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ": free some space",
        _ => "",
    };
    Error::new(Code::StoreUnavailable, format!("cannot {what} {}: {error}{advice}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_shards_is_fixed_at_creation() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Directory::open(dir.path(), Some(4), 1).unwrap().identity;
        assert_eq!(Directory::open(dir.path(), None, 1).unwrap().identity, identity);
        assert_eq!(Directory::open(dir.path(), None, 8).unwrap().identity, identity);
        let error = Directory::open(dir.path(), Some(8), 1).unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(error.message().contains("has 4 shards"), "{error}");
    }

    #[test]
    fn a_second_open_is_rejected_and_names_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let held = Directory::open(dir.path(), None, 1).unwrap();
        let error = Directory::open(dir.path(), None, 1).unwrap_err();
        assert!(error.message().contains("open in this process already"), "{error}");
        drop(held);
        assert!(Directory::open(dir.path(), None, 1).is_ok());
    }

    #[test]
    fn foreign_newer_and_damaged_descriptions_are_rejected() {
        for (text, code, word) in [
            ("hello", Code::Corrupt, "not a database's description"),
            (r#"{"format":2,"id":"0","shards":1}"#, Code::Unsupported, "use a newer Keystead"),
            (r#"{"format":1,"id":"0","shards":3}"#, Code::Corrupt, "not a number of shards"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("database.json"), text).unwrap();
            let error = Directory::open(dir.path(), None, 1).unwrap_err();
            assert_eq!(error.code(), code);
            assert!(error.message().contains(word), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("shard-0")).unwrap();
        assert!(
            Directory::open(dir.path(), None, 1).unwrap_err().message().contains("database.json is missing")
        );
    }
}
