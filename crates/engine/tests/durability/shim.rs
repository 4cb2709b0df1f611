//! The file layer of `tests/shim/files.c`: compiled here, loaded into children, controlled through files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use keystead_testkit::rng::fresh_seed;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/files.c");

/// The compiled layer. The compiler is the one that SQLite was built with.
pub(crate) fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).unwrap();
    let (library, unfinished) =
        (folder.join("keystead-files.so"), folder.join(format!("files-{:x}.so", fresh_seed())));
    let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
    if changed(&library).is_ok_and(|made| made > changed(Path::new(SOURCE)).unwrap()) {
        return library;
    }
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&unfinished);
    let made = command.arg(SOURCE).arg("-lpthread").status();
    assert!(made.is_ok_and(|status| status.success()), "{compiler} cannot compile {SOURCE}");
    // Other tests compile it at the same time: the rename makes each see a complete file.
    fs::rename(&unfinished, &library).unwrap();
    library
}

/// The environment of a child whose files below `root` go through the layer.
pub(crate) fn environment(root: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("LD_PRELOAD", library().display().to_string()),
        ("SHIM_ROOT", root.canonicalize().unwrap().display().to_string()),
    ]
}

/// An error of the operating system, by its number.
#[derive(Clone, Copy)]
pub(crate) enum Errno {
    Io = 5,
    NoSpace = 28,
}

/// What a test can do to the disk of its process.
pub(crate) struct Control(PathBuf);

impl Control {
    pub(crate) fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        Control(dir.to_path_buf())
    }

    /// Holds back every sync of the journal.
    pub(crate) fn hold(&self) {
        fs::write(self.0.join("hold"), "").unwrap();
    }

    /// Releases them.
    pub(crate) fn release(&self) {
        fs::remove_file(self.0.join("hold")).unwrap();
    }

    /// Fails an operation (`write`, `sync`, `create`) on files whose path contains `part`.
    pub(crate) fn fail(&self, operation: &str, part: &str, error: Errno) {
        let (file, unfinished) = (self.0.join("fail"), self.0.join("fail.new"));
        fs::write(&unfinished, format!("{operation} {part} {}\n", error as i32)).unwrap();
        fs::rename(unfinished, file).unwrap();
    }

    /// Fails nothing any more.
    pub(crate) fn heal(&self) {
        fs::remove_file(self.0.join("fail")).unwrap();
    }
}
