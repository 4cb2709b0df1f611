//! Where a Redis command runs: on the owner of its keys, on all nodes, or in the router itself. Pure.
//!
//! Every row of the command table has a place; one that is forgotten fails a test. What concerns one node, and no key says which, is
//! an error: it must be sent to that node.

use keystead_commands::args::Args;
use keystead_commands::errors::{self, Fail};
use keystead_commands::keys_of::Keys;
use keystead_commands::spec::{Run, Spec, flag};
use keystead_core::key::slot;

use super::merge::Merge;

/// Where a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// In the router: it concerns the connection.
    Router,
    /// On the owner of this slot.
    Slot(u16),
    /// On any node: the reply is the same on all.
    Any,
    /// On all nodes.
    Every(Merge),
    /// On the owners of its keys, each of which gets its own.
    Split(Split),
    /// On one node after the other.
    Scan,
}

/// A command on several keys that need not be one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// For each slot, the indices of its keys among the arguments.
    pub(super) parts: Vec<(u16, Vec<usize>)>,
    pub(super) merge: Merge,
}

/// Commands without keys on all nodes.
fn every(name: &str) -> Option<Merge> {
    Some(match name {
        "dbsize" => Merge::Sum,
        "keys" => Merge::Join,
        "flushall" | "flushdb" => Merge::First,
        "script|load" | "script|flush" | "function|load" | "function|delete" | "function|flush"
        | "function|restore" => Merge::First,
        "script|exists" => Merge::Least,
        "randomkey" => Merge::Some,
        _ => return None,
    })
}

/// Commands without keys whose reply is the same on every node.
const ANY: [&str; 2] = ["function|list", "function|dump"];

/// Commands that concern one node, and no key says which.
const NOWHERE: [&str; 37] = [
    "acl|log",
    "bgrewriteaof",
    "bgsave",
    "cluster|countkeysinslot",
    "cluster|getkeysinslot",
    "config|get",
    "config|resetstat",
    "config|rewrite",
    "config|set",
    "debug",
    "function|kill",
    "function|stats",
    "lastsave",
    "latency|doctor",
    "latency|graph",
    "latency|histogram",
    "latency|history",
    "latency|latest",
    "latency|reset",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|purge",
    "memory|stats",
    "replicaof",
    "save",
    "script|debug",
    "script|kill",
    "shutdown",
    "slaveof",
    "slowlog|get",
    "slowlog|len",
    "slowlog|reset",
    "swapdb",
    "wait",
    "waitaof",
    "waitsink",
    "json.debug",
];

/// Where a command runs. In a `cluster`, nodes reject a script that touches what is not their own.
///
/// # Errors
/// Redis's errors for keys that cannot be found, and in several slots; and for commands that a router cannot run.
#[inline]
pub(super) fn place(spec: &'static Spec, args: Args<'_>, is_cluster: bool) -> Result<Destination, Fail> {
    if let Keys::At(index) = spec.keys {
        return Ok(Destination::Slot(slot(args.at(index))));
    }
    if let Run::Conn(_) | Run::Control(_) = spec.run {
        return if NOWHERE.contains(&spec.full_name) {
            Err(unavailable(spec))
        } else {
            Ok(Destination::Router)
        };
    }
    let keys = spec.keys(args)?;
    if let Some(first) = keys.first() {
        let first = slot(args.at(*first));
        return match keys.iter().all(|key| slot(args.at(*key)) == first) {
            true => Ok(Destination::Slot(first)),
            false if spec.flags.has(flag::SPLIT) => Ok(Destination::Split(split(spec, args, &keys))),
            false => Err(errors::CROSS_SLOT),
        };
    }
    without_keys(spec, args, is_cluster)
}

fn without_keys(spec: &'static Spec, args: Args<'_>, is_cluster: bool) -> Result<Destination, Fail> {
    let name = spec.full_name;
    if matches!(name, "publish" | "spublish") {
        // A channel is published on the node of its slot, so that its messages have an order.
        return Ok(Destination::Slot(slot(args.at(1))));
    }
    if name == "scan" {
        return Ok(Destination::Scan);
    }
    if let Some(merge) = every(name) {
        return Ok(Destination::Every(merge));
    }
    let is_script = !matches!(spec.keys, Keys::None);
    if ANY.contains(&name) || name.ends_with("|help") || is_script && is_cluster {
        return Ok(Destination::Any);
    }
    Err(unavailable(spec))
}

fn split(spec: &Spec, args: Args<'_>, keys: &[usize]) -> Split {
    let mut parts: Vec<(u16, Vec<usize>)> = Vec::new();
    let mut of_slot = std::collections::HashMap::new();
    let mut order = Vec::with_capacity(keys.len());
    for key in keys {
        let slot = slot(args.at(*key));
        let at = *of_slot.entry(slot).or_insert_with(|| {
            parts.push((slot, Vec::new()));
            parts.len() - 1
        });
        order.push((at as u32, parts[at].1.len() as u32));
        parts[at].1.push(*key);
    }
    let merge = if spec.full_name == "mget" { Merge::Pick(order) } else { Merge::Sum };
    Split { parts, merge }
}

/// Whether a command may wait for its keys.
pub(super) fn may_block(spec: &Spec, args: Args<'_>) -> bool {
    let is_streams = matches!(spec.keys, Keys::Streams);
    spec.flags.has(flag::BLOCKING)
        && (!is_streams || args.from(1).any(|word| word.eq_ignore_ascii_case(b"BLOCK")))
}

/// Whether a command may be part of a transaction, which runs on a connection that others share.
pub(super) fn may_queue(spec: &Spec, place: &Destination) -> bool {
    match place {
        Destination::Slot(_) | Destination::Any => true,
        Destination::Router => matches!(
            spec.full_name,
            "ping" | "echo" | "time" | "unwatch" | "multi" | "exec" | "discard" | "watch" | "reset" | "quit"
        ),
        _ => false,
    }
}

/// The error of a command that a router cannot run.
pub(super) fn unavailable(spec: &Spec) -> Fail {
    let name = spec.full_name.to_uppercase().replace('|', " ");
    Fail::text(format!(
        "ERR Command is not available through a router: '{name}'. It has no key that names its node: send it to a node"
    ))
}

/// The error of a command that cannot be part of a transaction.
pub(super) fn not_in_transaction(spec: &Spec) -> Fail {
    let name = spec.full_name.to_uppercase().replace('|', " ");
    Fail::text(format!("ERR Command is not available in a transaction through a router: '{name}'"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use keystead_commands::{Command, dispatch, table};

    use super::*;

    fn placed(line: &str) -> Result<Destination, String> {
        let command = Command::new(line.split(' '));
        let spec = dispatch::resolve(command.args()).unwrap();
        place(spec, command.args(), true).map_err(|fail| fail.line().into_owned())
    }

    #[test]
    fn a_command_runs_where_its_keys_are() {
        let at = |key: &str| Ok(Destination::Slot(slot(key.as_bytes())));
        for (line, to) in [
            ("GET a", at("a")),
            ("MSET {t}a 1 {t}b 2", at("t")),
            ("EVAL x 2 {t}a {t}b c", at("t")),
            ("XREAD COUNT 1 STREAMS s 0", at("s")),
            ("PUBLISH channel x", at("channel")),
            ("OBJECT ENCODING a", at("a")),
            ("BLPOP {t}a {t}b 0", at("t")),
            ("MGET {t}a {t}b", at("t")),
            ("PING", Ok(Destination::Router)),
            ("WATCH a", Ok(Destination::Router)),
            ("EVAL x 0", Ok(Destination::Any)),
            ("DBSIZE", Ok(Destination::Every(Merge::Sum))),
            ("KEYS *", Ok(Destination::Every(Merge::Join))),
            ("SCAN 0", Ok(Destination::Scan)),
        ] {
            assert_eq!(placed(line), to, "{line}");
        }
        for line in ["MSET a 1 b 2", "RENAME a b", "EVAL x 2 a b", "SINTER a b"] {
            assert!(placed(line).unwrap_err().starts_with("CROSSSLOT "), "{line}");
        }
        let command = Command::new(["EVAL", "x", "0"]);
        let spec = dispatch::resolve(command.args()).unwrap();
        assert!(place(spec, command.args(), false).is_err(), "no node of a list rejects the keys of others");
    }

    #[test]
    fn keys_in_several_slots_are_split_and_keep_their_order() {
        let Ok(Destination::Split(split)) = placed("MGET a b {a}c a") else { panic!() };
        assert_eq!(split.parts, [(slot(b"a"), vec![1, 3, 4]), (slot(b"b"), vec![2])]);
        assert_eq!(split.merge, Merge::Pick(vec![(0, 0), (1, 0), (0, 1), (0, 2)]));
        let Ok(Destination::Split(split)) = placed("DEL a b") else { panic!() };
        assert_eq!((split.parts.len(), split.merge), (2, Merge::Sum));
    }

    /// A new command without keys fails here until it is decided where it runs.
    #[test]
    fn every_command_has_a_place_or_deliberately_none() {
        let mut nowhere = Vec::new();
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for spec in table::leaves() {
            let words = vec!["1"; spec.arity.unsigned_abs() as usize];
            let command = Command::new(words);
            match without_any_key(spec, command.args()) {
                Some(Ok(Destination::Router)) => places.entry("router").or_default().push(spec.full_name),
                Some(Ok(Destination::Any)) => places.entry("any").or_default().push(spec.full_name),
                Some(Ok(Destination::Every(_))) => places.entry("every").or_default().push(spec.full_name),
                Some(Err(_)) => nowhere.push(spec.full_name),
                Some(Ok(_)) | None => {}
            }
        }
        nowhere.sort_unstable();
        let mut expected = NOWHERE.to_vec();
        expected.retain(|name| table::leaves().any(|spec| spec.full_name == *name));
        expected.sort_unstable();
        assert_eq!(nowhere, expected, "{places:#?}");
    }

    /// The place of a command that has no keys, or is called without.
    fn without_any_key(spec: &'static Spec, args: Args<'_>) -> Option<Result<Destination, Fail>> {
        matches!(spec.keys, Keys::None).then(|| place(spec, args, false))
    }
}
