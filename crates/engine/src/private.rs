//! Creates files and directories that only their owner can access, whatever the umask of the process.
//!
//! The engine also runs inside other programs with their own umask. Existing files keep their mode. Touches only the
//! paths it is given.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Options for a file that may have to be created.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Creates a directory and its parents.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Creates an empty file unless it exists. SQLite takes it for a new database, and creates the files beside it
/// (`-wal`, `-shm`) with the same mode; a file created by SQLite itself would be readable by every user.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    options().write(true).create(true).truncate(false).open(path).map(drop)
}
