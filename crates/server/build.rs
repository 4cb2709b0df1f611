//! Sets `KEYSTEAD_LONG_VERSION`, which `keystead --version` prints: the version, and the commit if it is known. Reads `.git`.
//!
//! The commit is that of the checkout, read without running git, or the value of `KEYSTEAD_COMMIT` when that variable is set
//! at build time (empty: no commit); a debug build has none. The same source therefore gives the same binary.

#![allow(clippy::print_stdout, reason = "Cargo reads what a build script prints")]

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Digits of the commit that are shown.
const COMMIT_DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KEYSTEAD_COMMIT");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commit = match env::var("KEYSTEAD_COMMIT") {
        Ok(commit) => Some(commit),
        // Every commit would compile the server and its tests again.
        Err(_) if env::var("PROFILE").is_ok_and(|profile| profile == "debug") => None,
        Err(_) => head_commit(&root),
    };
    println!("cargo::rustc-env=KEYSTEAD_LONG_VERSION={}", long_version(commit.as_deref()));
}

/// `0.1.0`, or `0.1.0 (16378ca0b1d2)` if this is a commit.
pub(crate) fn long_version(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let is_hash = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match commit.map(str::trim).filter(is_hash) {
        Some(commit) => format!("{version} ({})", &commit[..commit.len().min(COMMIT_DIGITS)]),
        None => version.to_owned(),
    }
}

/// The commit that is checked out in `root`, if it is a git checkout or a git worktree.
pub(crate) fn head_commit(root: &Path) -> Option<String> {
    let git = git_dir(&root.join(".git"))?;
    let head = read_watched(&git.join("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else { return Some(head) };
    // A worktree shares the branches of its repository.
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git,
    };
    let loose = common.join(branch);
    if loose.is_file() {
        return read_watched(&loose);
    }
    // The next commit creates the file, so its directory is watched. Cargo would take a file that is missing for changed.
    if let Some(dir) = loose.ancestors().skip(1).find(|dir| dir.is_dir()) {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    let packed = read_watched(&common.join("packed-refs"))?;
    packed.lines().find_map(|line| Some(line.strip_suffix(branch)?.strip_suffix(' ')?.to_owned()))
}

/// In a worktree `.git` is a file that names the directory.
fn git_dir(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let text = fs::read_to_string(dot_git).ok()?;
    Some(dot_git.with_file_name(text.strip_prefix("gitdir:")?.trim()))
}

/// The text of a file. The build script runs again when it changes.
fn read_watched(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text)
}
