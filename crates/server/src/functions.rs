//! Persists the libraries of Redis functions in a file of the data directory. Touches that file.
//!
//! Invariant: the file is replaced atomically, and synced with its directory before the change is acknowledged. With durability
//! memory there is none.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use keystead_commands::hub::Hub;
use keystead_core::{Code, Error, Result};
use keystead_engine::Durability;

use crate::failure::failure;
use crate::settings::Settings;

/// The name of the file. It holds the reply of FUNCTION DUMP.
pub const FILE: &str = "functions.dump";

/// For the owner only, as everything in the data directory.
const FILE_MODE: u32 = 0o600;

/// Writes a dump to a directory.
///
/// # Errors
/// `store_unavailable`; the dump before stays.
pub fn save(dir: &Path, dump: &[u8]) -> Result<()> {
    let write = || {
        let new = dir.join(format!("{FILE}.new"));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&new)?;
        file.write_all(dump)?;
        file.sync_all()?;
        fs::rename(&new, dir.join(FILE))?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|e| {
        Error::new(Code::StoreUnavailable, "the libraries of functions cannot be written").with_source(e)
    })
}

/// The dump in a directory, if there is one.
///
/// # Errors
/// `store_unavailable` when it cannot be read.
pub fn load(dir: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(dir.join(FILE)) {
        Ok(dump) => Ok(Some(dump)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => {
            Err(Error::new(Code::StoreUnavailable, "the libraries of functions cannot be read")
                .with_source(e))
        }
    }
}

/// Loads the libraries that were persisted before this start.
///
/// # Errors
/// `config_invalid` with the one line for the user.
pub fn restore(settings: &Settings, hub: &Hub) -> Result<()> {
    if settings.durability == Durability::Memory {
        return Ok(());
    }
    let path = settings.data.join(FILE);
    let advice = format!("move {} away to start without functions", path.display());
    let Some(dump) = load(&settings.data).map_err(|error| failure(error, &advice))? else {
        return Ok(());
    };
    hub.restore_functions(&dump).map_err(|fail| failure(fail.line(), &advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_replaced_atomically() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), None);
        save(dir.path(), b"one").unwrap();
        save(dir.path(), b"two").unwrap();
        assert_eq!(load(dir.path()).unwrap().unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        assert_eq!(save(&dir.path().join("nowhere"), b"x").unwrap_err().code(), Code::StoreUnavailable);
    }
}
