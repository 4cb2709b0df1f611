//! The data directory: created, and checked to be writable before the server says that it is ready.
//! Touches one directory. The engine will own it.

use std::fs;
use std::io;
use std::path::Path;

use keystead_core::Result;

use crate::failure::{failure, io_words};

/// Creates the directory if it is missing and proves that files can be written in it.
///
/// # Errors
/// `config_invalid` with the one line for the user.
pub fn prepare(dir: &Path) -> Result<()> {
    try_prepare(dir).map_err(|e| {
        failure(
            format_args!(
                "cannot write to data directory '{}' ({})",
                dir.display(),
                io_words(&e)
            ),
            "choose another with --data DIR, or keep everything in memory with --durability memory",
        )
    })
}

fn try_prepare(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    // Only a write tells: permission bits say nothing about read-only or full file systems.
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    fs::write(&probe, b"keystead")?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_created_and_left_empty() {
        let root = std::env::temp_dir().join(format!("keystead-data-dir-{}", std::process::id()));
        let dir = root.join("a/b");
        prepare(&dir).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_place_that_cannot_hold_files_is_refused_in_one_line() {
        for dir in ["/dev/null/data", "/proc/keystead"] {
            let error = prepare(Path::new(dir)).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("cannot write to data directory '{dir}' (")),
                "{error}"
            );
            assert!(error.contains("--data DIR"), "{error}");
        }
    }
}
