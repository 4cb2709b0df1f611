//! Checks which other users may read or change the settings, secrets and data. Touches the metadata of the paths it is given.
//!
//! Access of other users draws a warning. Settings and secrets that belong to neither this user nor root are an error.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use keystead_core::Result;
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::failure::failure;

const READ: u32 = 0o4;
const WRITE: u32 = 0o2;
/// In a directory with this bit (`/tmp`) only the owner of a file may replace it.
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Owner, group and mode of a file or directory.
#[derive(Clone, Copy, Debug)]
struct Access {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Access {
    /// The access of a path, links followed; none if it cannot be read, which opening it will report.
    fn of(path: &Path) -> Option<Access> {
        let found = fs::metadata(path).ok()?;
        let mode = if is_read_only(path) { found.mode() & !(WRITE | WRITE << 3) } else { found.mode() };
        Some(Access { owner: found.uid(), group: found.gid(), mode })
    }

    /// Whether a user other than the owner has this right. A group with the id of the owner is the owner's own.
    fn others_may(self, right: u32) -> bool {
        self.mode & right != 0 || self.mode & (right << 3) != 0 && self.group != self.owner
    }

    /// Whether another user could replace a file in this directory.
    fn others_may_replace(self) -> bool {
        self.others_may(WRITE) && self.mode & STICKY == 0
    }

    /// Whether a secret is open to other users. A file of root that a group may read is the usual way to give a secret to a service.
    fn is_open_secret(self, me: u32) -> bool {
        let for_service = self.owner == ROOT && me != ROOT && self.mode & READ == 0;
        self.others_may(WRITE) || self.others_may(READ) && !for_service
    }

    fn is_foreign(self, me: u32) -> bool {
        self.owner != me && self.owner != ROOT
    }
}

/// Whether a path is on a file system that is mounted read-only. Kubernetes mounts a ConfigMap read-only, in a directory with mode 777.
fn is_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a file belongs to neither this user nor root.
pub(crate) fn is_foreign(path: &Path) -> bool {
    Access::of(path).is_some_and(|access| access.is_foreign(me()))
}

/// Warnings about the settings file.
///
/// # Errors
/// When it, or its directory, belongs to another user.
pub(crate) fn settings_file(path: &Path, holds_secret: bool) -> Result<Vec<String>> {
    let shown = path.display();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let foreign = |what: &str, access: Access| {
        failure(
            format_args!(
                "{what} belongs to another user (uid {}), who could change what this server does",
                access.owner
            ),
            "make it your own or root's with chown, or name another settings file with --config FILE",
        )
    };
    let mut warnings = Vec::new();
    if let Some(access) = Access::of(path) {
        if access.is_foreign(me()) {
            return Err(foreign(&format!("settings file '{shown}'"), access));
        }
        if access.others_may(WRITE) {
            warnings
                .push(format!("settings file '{shown}' can be changed by other users: chmod go-w {shown}"));
        }
        if holds_secret && access.is_open_secret(me()) {
            warnings.push(format!(
                "settings file '{shown}' holds a token or password and is open to other users: chmod 600 {shown}"
            ));
        }
    }
    if let Some(access) = Access::of(parent) {
        let directory = parent.display();
        if access.is_foreign(me()) {
            return Err(foreign(&format!("the directory of settings file '{shown}'"), access));
        }
        if access.others_may_replace() {
            warnings.push(format!(
                "settings file '{shown}' can be replaced by other users, who may write to its directory: chmod go-w {directory}"
            ));
        }
    }
    Ok(warnings)
}

/// Why a file with a secret is not safe.
pub(crate) enum Exposure {
    /// Other users may read or change it: the warning.
    Open(String),
    /// It belongs to another user, with this uid.
    Foreign(u32),
}

/// Why a file with a secret is not safe, if it is not.
pub(crate) fn secret(what: &str, path: &Path) -> Option<Exposure> {
    let access = Access::of(path)?;
    if access.is_foreign(me()) {
        return Some(Exposure::Foreign(access.owner));
    }
    let shown = path.display();
    access.is_open_secret(me()).then(|| {
        Exposure::Open(format!("{what} '{shown}' can be read or changed by other users: chmod 600 {shown}"))
    })
}

/// A warning about the data directory. What the server creates in it is for this user only; the directory may have been there before.
pub(crate) fn data(path: &Path) -> Option<String> {
    let access = Access::of(path)?;
    let shown = path.display();
    if access.is_foreign(me()) {
        let owner = access.owner;
        return Some(format!(
            "data directory '{shown}' belongs to another user (uid {owner}): chown it to this one"
        ));
    }
    let open = access.others_may(READ) || access.others_may(WRITE);
    open.then(|| format!("data directory '{shown}' is open to other users: chmod 700 {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u32 = 1000;

    fn access(owner: u32, group: u32, mode: u32) -> Access {
        Access { owner, group, mode }
    }

    #[test]
    fn others_are_all_users_and_shared_groups() {
        for (group, mode, may_read, may_write) in [
            (US, 0o600, false, false),
            (US, 0o660, false, false),
            (US, 0o664, true, false),
            (50, 0o640, true, false),
            (50, 0o660, true, true),
            (50, 0o602, false, true),
        ] {
            let access = access(US, group, mode);
            assert_eq!(
                (access.others_may(READ), access.others_may(WRITE)),
                (may_read, may_write),
                "{mode:o}"
            );
        }
    }

    #[test]
    fn a_secret_of_root_may_be_readable_by_a_group() {
        for (owner, group, mode, is_open) in [
            (US, US, 0o600, false),
            (US, 50, 0o640, true),
            (US, US, 0o644, true),
            (ROOT, 50, 0o640, false),
            (ROOT, 50, 0o440, false),
            (ROOT, 50, 0o444, true),
            (ROOT, 50, 0o660, true),
        ] {
            assert_eq!(access(owner, group, mode).is_open_secret(US), is_open, "{owner} {mode:o}");
        }
        assert!(access(ROOT, 50, 0o640).is_open_secret(ROOT));
    }

    #[test]
    fn another_user_is_neither_this_user_nor_root() {
        assert!(!access(US, US, 0).is_foreign(US) && !access(ROOT, ROOT, 0).is_foreign(US));
        assert!(access(1001, US, 0).is_foreign(US) && access(1001, US, 0).is_foreign(ROOT));
    }

    #[test]
    fn in_a_sticky_directory_only_the_owner_replaces_a_file() {
        assert!(access(ROOT, ROOT, 0o777).others_may_replace());
        assert!(
            !access(ROOT, ROOT, 0o1777).others_may_replace() && !access(US, US, 0o775).others_may_replace()
        );
    }
}
