//! Every command there is, by family, and finding one by its name. It touches nothing.

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

/// The longest name that is looked up; longer ones are unknown.
const NAME_MAX: usize = 32;

/// All rows but those of subcommands.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter())
}

/// All rows that run, those of subcommands included.
pub fn leaves() -> impl Iterator<Item = &'static Spec> {
    all().flat_map(|spec| match spec.run {
        Run::Within(rows) => rows.iter(),
        _ => std::slice::from_ref(spec).iter(),
    })
}

/// The row of a command, by its name in any case of letters.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    static INDEX: OnceLock<HashMap<&'static [u8], &'static Spec, FixedState>> = OnceLock::new();
    let index = INDEX.get_or_init(|| all().map(|spec| (spec.name.as_bytes(), spec)).collect());
    let mut capitals = [0u8; NAME_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    index.get(&*capitals).copied()
}

/// The row of a subcommand in a container.
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
            assert_eq!(spec.name.to_ascii_lowercase(), spec.full_name, "{}", spec.name);
            assert!(std::ptr::eq(find(spec.full_name.as_bytes()).unwrap(), spec));
            if let Run::Within(rows) = spec.run {
                for row in rows {
                    let full = format!("{}|{}", spec.full_name, row.name.to_ascii_lowercase());
                    assert_eq!(row.full_name, full);
                }
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
    fn the_rest_door_takes_all_but_these() {
        let of_client = |spec: &Spec| spec.full_name.starts_with("client|");
        let refused = names(|spec| !spec.over_rest() && !of_client(spec));
        let expected = "asking auth blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin cluster discard exec \
            hello monitor multi psubscribe punsubscribe quit readonly readwrite reset select shutdown ssubscribe subscribe \
            sunsubscribe unsubscribe unwatch watch";
        assert_eq!(refused, expected.split_whitespace().collect::<Vec<_>>());
        assert!(names(|spec| spec.over_rest() && of_client(spec)).is_empty());
    }

    #[test]
    fn who_may_only_read_may_run_what_looks_at_keys_but_these() {
        let refused = names(|spec| spec.flags.has(flag::READ) && !spec.read_only());
        assert_eq!(refused, ["keys", "randomkey", "scan", "sort_ro"]);
        // PFCOUNT keeps its count, which no answer shows.
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
        for spec in leaves() {
            assert!(!spec.summary.is_empty() && spec.summary.ends_with('.'), "{}", spec.full_name);
        }
    }
}
