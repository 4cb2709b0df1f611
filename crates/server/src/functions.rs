//! Libraries of functions between two starts: a file in the data directory. Touches that file.
//!
//! Invariant: the file is replaced as a whole, and synced with its directory before anybody is told. At durability memory
//! there is none.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use keystead_commands::hub::Hub;
use keystead_core::{Code, Error, Result};
use keystead_engine::Durability;

use crate::failure::failure;
use crate::settings::Settings;

/// The name of the file. It holds what FUNCTION DUMP gives.
pub const FILE: &str = "functions.dump";

/// For the owner alone, as everything in the data directory.
const FILE_MODE: u32 = 0o600;

/// Keeps a dump in a directory.
///
/// # Errors
/// `store_unavailable`; what was kept before is still there.
pub fn keep(dir: &Path, dump: &[u8]) -> Result<()> {
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
        Error::new(Code::StoreUnavailable, "the libraries of functions cannot be kept").with_source(e)
    })
}

/// What was kept in a directory.
///
/// # Errors
/// `store_unavailable` when it is there and cannot be read.
pub fn kept(dir: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(dir.join(FILE)) {
        Ok(dump) => Ok(Some(dump)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::new(
            Code::StoreUnavailable,
            "the libraries of functions that were kept cannot be read",
        )
        .with_source(e)),
    }
}

/// Brings back what was kept before this start.
///
/// # Errors
/// `config_invalid` with the one line for the user.
pub fn restore(settings: &Settings, hub: &Hub) -> Result<()> {
    if settings.durability == Durability::Memory {
        return Ok(());
    }
    let path = settings.data.join(FILE);
    let advice = format!("move {} away to start without functions", path.display());
    let Some(dump) = kept(&settings.data).map_err(|error| failure(error, &advice))? else {
        return Ok(());
    };
    hub.restore_functions(&dump).map_err(|fail| failure(fail.line(), &advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_kept_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kept(dir.path()).unwrap(), None);
        keep(dir.path(), b"one").unwrap();
        keep(dir.path(), b"two").unwrap();
        assert_eq!(kept(dir.path()).unwrap().unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        assert_eq!(keep(&dir.path().join("nowhere"), b"x").unwrap_err().code(), Code::StoreUnavailable);
    }
}
