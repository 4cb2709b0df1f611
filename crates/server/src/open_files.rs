//! The limit of open files and sockets (RLIMIT_NOFILE). Touches the process's own limit.

use keystead_engine::bounds::SHARDS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bounds::{CONNECTIONS_MAX, FILES_PER_SHARD, FILES_RESERVED};

/// Raises the limit to as many files as a server can use. To be called before the database is opened: the usual default is too low
/// for many shards.
pub fn raise_limit() {
    raise((2 * CONNECTIONS_MAX + FILES_RESERVED + SHARDS_MAX * FILES_PER_SHARD) as u64);
}

/// How many connections each of the two listeners may have beside the files of so many shards.
#[must_use]
pub fn connections_max(shards: usize) -> usize {
    let connections_max = connections_of(raise(0), shards);
    // A little less is not worth a warning: few servers have so many clients.
    if connections_max < CONNECTIONS_MAX / 2 {
        tracing::warn!(
            connections_max,
            "the limit of open files allows fewer connections: raise it with ulimit -n"
        );
    }
    connections_max
}

/// Raises the limit to `wanted` as far as this user may, and never lowers it. Returns the limit. The usual default of 1024 exists for
/// programs that use select(), which this one does not.
fn raise(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (current, most) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let target = wanted.min(most);
    if current >= target {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum }) {
        Ok(()) => target,
        Err(_) => current,
    }
}

/// At least one connection, so that the server can report its health.
fn connections_of(files: u64, shards: usize) -> usize {
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    let free = files.saturating_sub(FILES_RESERVED + shards * FILES_PER_SHARD);
    (free / 2).clamp(1, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_other_uses() {
        assert_eq!(connections_of(u64::MAX, 256), CONNECTIONS_MAX);
        assert_eq!(connections_of(1024, 2), (1024 - FILES_RESERVED - 2 * FILES_PER_SHARD) / 2);
        assert_eq!(connections_of(10, 1), 1);
    }

    #[test]
    fn the_limit_is_never_lowered() {
        let before = raise(0);
        assert_eq!(raise(before), before);
        assert!(raise(before.saturating_add(1)) >= before);
    }
}
