//! What COMMAND and ACL report of a row: Redis's names of flags, groups and categories, and key positions. It touches nothing.

use crate::keys_of::Keys;
use crate::spec::{Flags, Run, Spec, flag};
use crate::table::FAMILIES;

/// Redis's categories, in its order.
pub(in crate::families::server) const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Redis's group (in COMMAND DOCS) and category (in ACL) of a family, by its title.
const GROUPS: &[(&str, &str, &str)] = &[
    ("Strings", "string", "string"),
    ("Keys", "generic", "keyspace"),
    ("Hashes", "hash", "hash"),
    ("Lists", "list", "list"),
    ("Sets", "set", "set"),
    ("Sorted sets", "sorted-set", "sortedset"),
    ("Streams", "stream", "stream"),
    ("Bitmaps", "bitmap", "bitmap"),
    ("HyperLogLog", "hyperloglog", "hyperloglog"),
    ("Geo", "geo", "geo"),
    ("JSON", "json", ""),
    ("Rate limits", "rate-limit", ""),
    ("Transactions", "transactions", "transaction"),
    ("Publish and subscribe", "pubsub", "pubsub"),
    ("Connection", "connection", "connection"),
    ("Scripts", "scripting", "scripting"),
    ("Server", "server", ""),
];

const FLAG_NAMES: &[(Flags, &str)] = &[
    (flag::WRITE, "write"),
    (flag::READ, "readonly"),
    (flag::DENY_OOM, "denyoom"),
    (flag::ADMIN, "admin"),
    (flag::PUBSUB, "pubsub"),
    (flag::NO_SCRIPT, "noscript"),
    (flag::BLOCKING, "blocking"),
    (flag::FAST, "fast"),
    (flag::NO_AUTH, "no_auth"),
    (flag::NO_MULTI, "no_multi"),
];

/// A row with Redis's names for its family.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) spec: &'static Spec,
    pub(super) group: &'static str,
    category: &'static str,
}

/// All rows except those of subcommands.
pub(super) fn entries() -> impl Iterator<Item = Entry> {
    FAMILIES.iter().flat_map(|(title, rows)| {
        let known = GROUPS.iter().find(|(known, _, _)| known == title);
        let (_, group, category) = known.copied().unwrap_or((title, "generic", ""));
        rows.iter().map(move |spec| Entry { spec, group, category })
    })
}

/// A row by its name, `get` or `xgroup|create`.
pub(super) fn find(name: &[u8]) -> Option<Entry> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let first = parts.next()?;
    let entry = entries().find(|entry| entry.spec.name.as_bytes().eq_ignore_ascii_case(first))?;
    match parts.next() {
        None => Some(entry),
        Some(sub) => {
            let mut rows = entry.within();
            rows.find(|row| row.spec.name.as_bytes().eq_ignore_ascii_case(sub))
        }
    }
}

/// The names of the commands of a category, including subcommands.
pub(in crate::families::server) fn in_category(category: &str) -> Vec<&'static str> {
    let all = entries().flat_map(|entry| std::iter::once(entry).chain(entry.within()));
    let of_category = all.filter(|entry| entry.categories().iter().any(|known| known[1..] == *category));
    of_category.map(|entry| entry.spec.full_name).collect()
}

impl Entry {
    /// Its subcommands.
    pub(super) fn within(self) -> impl Iterator<Item = Entry> {
        self.spec.subcommands().iter().map(move |spec| Entry { spec, ..self })
    }

    /// Its flags, by Redis's names.
    pub(super) fn flags(&self) -> Vec<&'static str> {
        let named = FLAG_NAMES.iter().filter(|(flags, _)| self.spec.flags.has(*flags)).map(|(_, name)| *name);
        named.chain(moves(self.spec.keys).then_some("movablekeys")).collect()
    }

    /// Its categories, each with an @.
    pub(super) fn categories(&self) -> Vec<String> {
        let flags = self.spec.flags;
        let container = matches!(self.spec.run, Run::Within(_));
        let of = |category: &str| match category {
            "read" => flags.has(flag::READ),
            "write" => flags.has(flag::WRITE),
            "admin" | "dangerous" => flags.has(flag::ADMIN),
            "fast" => flags.has(flag::FAST),
            "slow" => !flags.has(flag::FAST),
            "blocking" => flags.has(flag::BLOCKING),
            category => category == self.category && !container,
        };
        CATEGORIES.iter().filter(|category| of(category)).map(|category| format!("@{category}")).collect()
    }
}

/// Whether the positions of keys depend on the arguments.
fn moves(keys: Keys) -> bool {
    matches!(
        keys,
        Keys::Counted(_)
            | Keys::CountedPairs
            | Keys::StoreCounted
            | Keys::Streams
            | Keys::AndAfter(_)
            | Keys::AndStored(_)
    )
}

/// The first key, the last key and the step between them, for old clients; 0 if they are not fixed.
pub(super) fn range(keys: Keys) -> [i64; 3] {
    let int = |index: usize| i64::try_from(index).unwrap_or(0);
    match keys {
        Keys::None | Keys::Counted(_) | Keys::CountedPairs | Keys::Streams => [0, 0, 0],
        Keys::At(at) => [int(at), int(at), 1],
        Keys::Two(a, b) => [int(a), int(b), int(b) - int(a)],
        Keys::From(first) => [int(first), -1, 1],
        Keys::Every(first, step) => [int(first), -1, int(step)],
        Keys::Until(first, without) => [int(first), -1 - int(without), 1],
        Keys::StoreCounted | Keys::AndAfter(_) | Keys::AndStored(_) => [1, 1, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_group() {
        for (title, _) in FAMILIES {
            assert!(
                GROUPS.iter().any(|(known, _, _)| known == title),
                "{title} has no group: add a row to GROUPS"
            );
        }
        assert_eq!(GROUPS.len(), FAMILIES.len(), "a row of GROUPS has no family");
        for (_, _, category) in GROUPS {
            assert!(category.is_empty() || CATEGORIES.contains(category), "{category}");
        }
    }

    #[test]
    fn rows_are_found_and_named() {
        let publish = find(b"Publish").unwrap();
        assert_eq!((publish.group, publish.flags()), ("pubsub", vec!["pubsub", "fast"]));
        assert_eq!(publish.categories(), ["@pubsub", "@fast"]);
        assert_eq!(find(b"client|ID").unwrap().spec.full_name, "client|id");
        assert!(find(b"client|nope").is_none() && find(b"nope").is_none() && find(b"ping|x").is_none());
        assert_eq!(find(b"config").unwrap().categories(), ["@slow"]);
        assert_eq!(in_category("transaction"), ["multi", "exec", "discard", "watch", "unwatch"]);
    }

    #[test]
    fn key_positions_match_redis() {
        for (keys, expected) in [
            (Keys::None, [0, 0, 0]),
            (Keys::At(2), [2, 2, 1]),
            (Keys::Two(1, 2), [1, 2, 1]),
            (Keys::From(1), [1, -1, 1]),
            (Keys::Every(1, 2), [1, -1, 2]),
            (Keys::Until(1, 1), [1, -2, 1]),
            (Keys::Counted(1), [0, 0, 0]),
            (Keys::StoreCounted, [1, 1, 1]),
        ] {
            assert_eq!(range(keys), expected, "{keys:?}");
        }
    }
}
