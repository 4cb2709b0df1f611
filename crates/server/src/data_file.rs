//! Small files of the server in the data directory: for the owner only, replaced atomically. Touches them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use keystead_core::{Code, Error, Result};

/// For the owner only, as everything in the data directory.
const FILE_MODE: u32 = 0o600;

/// Replaces a file, and returns when that is on disk.
///
/// # Errors
/// `store_unavailable`; the file before stays.
pub(crate) fn replace(dir: &Path, name: &str, text: &str) -> Result<()> {
    let write = || {
        write(dir, name, text)?.sync_all()?;
        fs::rename(dir.join(format!("{name}.new")), dir.join(name))?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| cannot("written", name, error))
}

/// The same for a file that survives the death of the process, and may be lost or older after a power loss.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_unsynced(dir: &Path, name: &str, text: &str) -> Result<()> {
    let write = || {
        write(dir, name, text)?;
        fs::rename(dir.join(format!("{name}.new")), dir.join(name))
    };
    write().map_err(|error| cannot("written", name, error))
}

fn write(dir: &Path, name: &str, text: &str) -> io::Result<File> {
    let new = dir.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&new)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// The text of a file, if there is one.
///
/// # Errors
/// `store_unavailable` when it cannot be read.
pub(crate) fn read(dir: &Path, name: &str) -> Result<Option<String>> {
    match fs::read_to_string(dir.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", name, error)),
    }
}

fn cannot(what: &str, name: &str, error: io::Error) -> Error {
    Error::new(Code::StoreUnavailable, format!("{name} cannot be {what}")).with_source(error)
}
