//! How this crate makes files and directories: for their owner alone, whatever the umask of the process.
//!
//! The engine also runs inside other people's programs, whose umask is theirs. What is there already keeps its mode. Touches the
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

/// Makes a directory with those above it.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Makes an empty file unless there is one. SQLite takes it for a new database, and gives the files that it makes beside it
/// (`-wal`, `-shm`) the same mode; a file that SQLite itself made would be open to everybody.
pub(crate) fn create_file(path: &Path) -> io::Result<()> {
    options().write(true).create(true).truncate(false).open(path).map(drop)
}
