//! All commands, by family, and the lookup by name. It touches nothing.

use std::sync::OnceLock;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::families::{
    bitmaps, connection, geo, hashes, hyperloglog, json, keys, lists, pubsub, rate_limits, scripting, server,
    sets, streams, strings, transactions, zsets,
};
use crate::spec::{Run, Spec};

/// A family: its title and its rows.
pub type Family = (&'static str, &'static [Spec]);

/// All families, in the order in which they are documented.
pub const FAMILIES: &[Family] = &[
    ("Strings", strings::TABLE),
    ("Keys", keys::TABLE),
    ("Hashes", hashes::TABLE),
    ("Lists", lists::TABLE),
    ("Sets", sets::TABLE),
    ("Sorted sets", zsets::TABLE),
    ("Streams", streams::TABLE),
    ("Bitmaps", bitmaps::TABLE),
    ("HyperLogLog", hyperloglog::TABLE),
    ("Geo", geo::TABLE),
    ("JSON", json::TABLE),
    ("Rate limits", rate_limits::TABLE),
    ("Scripts", scripting::TABLE),
    ("Transactions", transactions::TABLE),
    ("Publish and subscribe", pubsub::TABLE),
    ("Connection", connection::TABLE),
    ("Server", server::TABLE),
];

/// The length of the longest name. Longer names are unknown commands.
const NAME_MAX: usize = 32;

/// All rows except those of subcommands.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter())
}

/// All rows with an entry point: subcommands instead of their containers.
pub fn leaves() -> impl Iterator<Item = &'static Spec> {
    all().flat_map(|spec| match spec.run {
        Run::Within(rows) => rows.iter(),
        _ => std::slice::from_ref(spec).iter(),
    })
}

/// The row of a command. The name is case-insensitive.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    static INDEX: OnceLock<HashMap<&'static [u8], &'static Spec, FixedState>> = OnceLock::new();
    let index = INDEX.get_or_init(|| all().map(|spec| (spec.name.as_bytes(), spec)).collect());
    let mut lower = [0u8; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    index.get(&*lower).copied()
}

/// The row of a subcommand. The name is case-insensitive.
#[must_use]
pub fn find_within(rows: &'static [Spec], name: &[u8]) -> Option<&'static Spec> {
    rows.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::spec::flag;

    #[test]
    fn names_are_unique_legal_and_findable() {
        let names: HashSet<_> = all().map(|spec| spec.name).collect();
        assert_eq!(names.len(), all().count());
        for spec in all() {
            assert!(spec.name.len() <= NAME_MAX);
            assert_eq!(spec.name, spec.full_name);
            assert_eq!(spec.name, spec.name.to_ascii_lowercase());
            for name in [spec.name, &spec.upper_name()] {
                assert!(std::ptr::eq(find(name.as_bytes()).unwrap(), spec));
            }
            for row in spec.subcommands() {
                assert_eq!(row.full_name, format!("{}|{}", spec.name, row.name.to_ascii_lowercase()));
                assert!(std::ptr::eq(
                    find_within(spec.subcommands(), row.upper_name().as_bytes()).unwrap(),
                    row
                ));
            }
        }
        assert!(find(b"no-such-command").is_none() && find(&[b'x'; 100]).is_none());
    }

    fn names(wanted: impl Fn(&Spec) -> bool) -> Vec<&'static str> {
        let mut names: Vec<_> = leaves().filter(|spec| wanted(spec)).map(|spec| spec.full_name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_rest_api_accepts_all_but_these() {
        let of_client =
            |spec: &Spec| spec.full_name.starts_with("client|") || spec.full_name.starts_with("cluster|");
        let rejected = names(|spec| !spec.over_rest() && !of_client(spec));
        let expected = "asking auth blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin discard exec \
            hello monitor multi psubscribe punsubscribe quit readonly readwrite reset select shutdown ssubscribe subscribe \
            sunsubscribe unsubscribe unwatch waitsink watch";
        assert_eq!(rejected, expected.split_whitespace().collect::<Vec<_>>());
        assert!(names(|spec| spec.over_rest() && of_client(spec)).is_empty());
    }

    #[test]
    fn read_only_tokens_may_run_all_reads_but_these() {
        let rejected = names(|spec| spec.flags.has(flag::READ) && !spec.read_only());
        assert_eq!(rejected, ["keys", "randomkey", "scan", "sort_ro"]);
        // PFCOUNT caches its count, which no reply shows.
        assert_eq!(names(|spec| spec.read_only() && spec.writes()), ["pfcount"]);
        assert!(names(|spec| spec.read_only() && !matches!(spec.run, Run::Data(_))).is_empty());
        for name in ["set", "flushall", "config|get", "info", "publish", "client|list"] {
            assert!(!names(Spec::read_only).contains(&name), "{name}");
        }
        for name in ["get", "hgetall", "xread", "zrange", "object|encoding", "dbsize", "geosearch"] {
            assert!(names(Spec::read_only).contains(&name), "{name}");
        }
    }

    #[test]
    fn every_row_is_documented() {
        for spec in all().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands())) {
            let (summary, name) = (spec.summary, spec.full_name);
            assert!(
                summary.ends_with('.') && summary.starts_with(|c: char| c.is_ascii_uppercase()),
                "{name}"
            );
            assert!(spec.since.split('.').filter_map(|part| part.parse::<u32>().ok()).count() == 3, "{name}");
        }
    }
}
