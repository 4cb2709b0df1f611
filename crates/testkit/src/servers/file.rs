//! A directory that all processes of a run share, for stores on files: there is no process to start.

use std::path::PathBuf;

use super::{Kind, nothing_to_join};

/// The directory.
pub static FILE: Kind = Kind {
    name: "sqlite-file",
    ports: 0,
    find: || Ok(PathBuf::from("/")),
    prepare: |_, _| Ok(()),
    commands: |_, _| Vec::new(),
    ready: |site| Box::pin(async { site.dir.is_dir() }),
    join: nothing_to_join,
};
