//! How much more memory this process can use: what the machine has available, and what its control groups allow. Reads `/proc` and
//! `/sys/fs/cgroup`; elsewhere than on Linux nothing is known.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes, or nothing if that is not known.
pub(crate) fn free_bytes() -> Option<u64> {
    free_bytes_in(Path::new("/"))
}

fn free_bytes_in(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        match controllers {
            "" => least_of(&root.join("sys/fs/cgroup"), path, &V2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                least_of(&root.join("sys/fs/cgroup/memory"), path, &V1)
            }
            _ => None,
        }
    });
    of_groups.chain(available(root)).min()
}

/// `MemAvailable` of the machine.
fn available(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files of a version of control groups.
struct Files {
    limit: &'static str,
    usage: &'static str,
}

const V2: Files = Files { limit: "memory.max", usage: "memory.current" };
const V1: Files = Files { limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes" };

/// The least that a group and those above it allow. In a container the path may be that of the host: then its own groups are at the top.
fn least_of(mounted: &Path, path: &str, files: &Files) -> Option<u64> {
    let inside = mounted.join(path.trim_start_matches('/'));
    let first: PathBuf = if inside.is_dir() { inside } else { mounted.to_owned() };
    let groups = first.ancestors().take_while(|group| group.starts_with(mounted));
    groups.filter_map(|group| free_of(group, files)).min()
}

/// What one group allows; nothing if it has no limit.
fn free_of(group: &Path, files: &Files) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (number(files.limit)?, number(files.usage)?);
    // Pages of files that the system frees when memory is needed.
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = text.lines().find_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        matches!(name, "inactive_file" | "total_inactive_file").then(|| bytes.parse::<u64>().ok())?
    });
    Some(limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 9999999 kB\nMemFree: 1 kB\nMemAvailable:    4096 kB\n");

    #[test]
    fn without_a_limit_it_is_what_the_machine_has() {
        assert_eq!(free_bytes_in(machine(&[MEMINFO]).path()), Some(4 * MIB));
        let groups = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1\n"),
        ];
        assert_eq!(free_bytes_in(machine(&groups).path()), Some(4 * MIB));
        assert_eq!(free_bytes_in(machine(&[]).path()), None, "not Linux");
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let (limit, used) = ((3 * MIB).to_string(), (2 * MIB + 500).to_string());
        let groups = [
            MEMINFO,
            ("proc/self/cgroup", "1:cpu:/x\n0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "7\n"),
            ("sys/fs/cgroup/a/memory.max", &limit),
            ("sys/fs/cgroup/a/memory.current", &used),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 500\n"),
        ];
        assert_eq!(free_bytes_in(machine(&groups).path()), Some(MIB));
    }

    #[test]
    fn the_first_version_of_groups_counts_too_and_a_container_sees_its_own_at_the_top() {
        let groups = [
            MEMINFO,
            ("proc/self/cgroup", "4:cpu,memory:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 2500\n"),
        ];
        assert_eq!(free_bytes_in(machine(&groups).path()), Some(500));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_some() {
        assert!(free_bytes().is_some_and(|bytes| bytes > 0));
    }
}
