//! Which slot a request belongs to: for routers, and for a database of several Durable Objects. Pure.
//!
//! Invariant: a request is only sent to a node if its keys were found as the node itself finds them. What cannot be read is an
//! error of the router: another node than the owner must not apply it.

use keystead_commands::args::Args;
use keystead_commands::ctx::Dialect;
use keystead_commands::dispatch;
use keystead_commands::errors::{self, Fail};
use keystead_commands::spec::{Run, Spec, Spread};
use keystead_core::key::slot;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::upstash::body;
use crate::written::{KeyText, Object};

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// On the owner of this slot.
    Slot(u16),
    /// On any node: the reply is the same on all, or an error.
    Any,
    /// On every node; the replies are combined.
    Every(Merge),
}

/// How the replies of all nodes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The sum of integers.
    Sum,
    /// All elements of arrays.
    Join,
    /// The first one.
    First,
}

/// Commands without keys that are the same on every node.
const ANYWHERE: [&str; 3] = ["ping", "echo", "time"];

/// Commands that change what every node must know.
const EVERYWHERE: [&str; 6] =
    ["script|load", "script|flush", "function|load", "function|delete", "function|flush", "function|restore"];

/// The row of a command, and where it runs behind a router.
///
/// # Errors
/// Redis's error when its keys cannot be found or are in several slots; that it cannot be routed.
pub fn target(args: Args<'_>) -> Result<(&'static Spec, Target), Fail> {
    let spec = dispatch::resolve_in(Dialect::Upstash, args)?;
    if !spec.over_rest() {
        // Every node rejects it with the right words.
        return Ok((spec, Target::Any));
    }
    let slots = slots(spec, args)?;
    let target = match slots.first() {
        Some(first) if slots.iter().all(|slot| slot == first) => Target::Slot(*first),
        Some(_) => return Err(errors::CROSS_SLOT),
        None => without_keys(spec).ok_or_else(|| nowhere(spec))?,
    };
    Ok((spec, target))
}

/// The slots of a command's keys.
///
/// # Errors
/// Redis's error when they cannot be found.
pub fn slots(spec: &Spec, args: Args<'_>) -> Result<Vec<u16>, Fail> {
    // A channel is on the node of its slot, where its subscribers are.
    if matches!(spec.full_name, "publish" | "spublish") {
        return Ok(args.get(1).map(slot).into_iter().collect());
    }
    let keys = spec.keys(args)?;
    Ok(keys.into_iter().filter_map(|key| args.get(key)).map(slot).collect())
}

/// Where a command without keys runs. Nothing: it concerns one node, and no key says which.
#[must_use]
pub fn without_keys(spec: &Spec) -> Option<Target> {
    let name = spec.full_name;
    if ANYWHERE.contains(&name) || name.starts_with("command") {
        return Some(Target::Any);
    }
    if EVERYWHERE.contains(&name) {
        return Some(Target::Every(Merge::First));
    }
    match (spec.run, spec.spread) {
        (Run::Data(_), Spread::Sum) => Some(Target::Every(Merge::Sum)),
        (Run::Data(_), Spread::Join) => Some(Target::Every(Merge::Join)),
        (Run::Data(_), Spread::Each) => Some(Target::Every(Merge::First)),
        _ => None,
    }
}

fn nowhere(spec: &Spec) -> Fail {
    let name = spec.full_name.to_uppercase().replace('|', " ");
    Fail::text(format!(
        "ERR Command is not available through a router: '{name}'. It has no key that names its node: send it to a node"
    ))
}

/// The slot of several keys, if it is one. Nothing if there are no keys.
///
/// # Errors
/// When they are in several slots.
pub fn one_slot(slots: impl IntoIterator<Item = u16>) -> Result<Option<u16>, CrossSlot> {
    let mut slots = slots.into_iter();
    let first = slots.next();
    if slots.all(|slot| Some(slot) == first) { Ok(first) } else { Err(CrossSlot) }
}

/// The keys of a request are in several slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossSlot;

/// The slots of a body's keys. Nothing: they cannot be read.
pub type Slots = Option<Vec<u16>>;

#[derive(Deserialize)]
struct Keyed<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
}

fn slots_of(keyed: &[Object<Keyed<'_>>]) -> Vec<u16> {
    keyed.iter().map(|Object(keyed)| slot(&keyed.key.0)).collect()
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice::<Object<T>>(body).ok().map(|Object(body)| body)
}

/// `{"key":"ada"}`
#[must_use]
pub fn of_key(body: &[u8]) -> Slots {
    read::<Keyed<'_>>(body).map(|keyed| vec![slot(&keyed.key.0)])
}

/// `{"keys":[{"key":"ada"},{"key":"bob"}]}`
#[must_use]
pub fn of_keys(body: &[u8]) -> Slots {
    #[derive(Deserialize)]
    struct Many<'a> {
        #[serde(borrow)]
        keys: Vec<Object<Keyed<'a>>>,
    }
    read::<Many<'_>>(body).map(|many| slots_of(&many.keys))
}

/// `{"operations":[{"op":"get","key":"a"}]}`
#[must_use]
pub fn of_operations(body: &[u8]) -> Slots {
    #[derive(Deserialize)]
    struct Batch<'a> {
        #[serde(borrow)]
        operations: Vec<Object<Keyed<'a>>>,
    }
    read::<Batch<'_>>(body).map(|batch| slots_of(&batch.operations))
}

/// `{"checks":[{"policy":"user","key":"ada"}],"then":{"commands":[["LPUSH","jobs","1"]]}}`
#[must_use]
pub fn of_checks(body: &[u8]) -> Slots {
    #[derive(Deserialize)]
    struct Combined<'a> {
        #[serde(borrow)]
        checks: Vec<Object<Keyed<'a>>>,
        #[serde(borrow, default)]
        then: Option<Object<Then<'a>>>,
    }
    #[derive(Deserialize)]
    struct Then<'a> {
        #[serde(borrow, default)]
        commands: Option<&'a RawValue>,
        #[serde(borrow, default)]
        operations: Option<Vec<Object<Keyed<'a>>>>,
    }
    let combined: Combined<'_> = read(body)?;
    let mut all = slots_of(&combined.checks);
    if let Some(Object(then)) = combined.then {
        all.extend(then.operations.iter().flat_map(|operations| slots_of(operations)));
        for command in
            then.commands.map_or(Ok(Vec::new()), |raw| body::commands(raw.get().as_bytes())).ok()?
        {
            let spec = dispatch::resolve_in(Dialect::Upstash, command.args()).ok()?;
            all.extend(slots(spec, command.args()).ok()?);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use keystead_commands::Command;

    use super::*;

    fn target_of(line: &str) -> Result<Target, String> {
        let command = Command::new(line.split(' '));
        target(command.args()).map(|(_, target)| target).map_err(|fail| fail.line().into_owned())
    }

    #[test]
    fn a_command_runs_on_the_owner_of_its_keys() {
        let at = |key: &str| Ok(Target::Slot(slot(key.as_bytes())));
        for (line, to) in [
            ("GET a", at("a")),
            ("MSET {t}a 1 {t}b 2", at("t")),
            ("EVAL x 2 {t}a {t}b c", at("t")),
            ("XREAD COUNT 1 STREAMS s 0", at("s")),
            ("PUBLISH channel x", at("channel")),
            ("OBJECT ENCODING a", at("a")),
            ("PING", Ok(Target::Any)),
            ("BLPOP a 0", Ok(Target::Any)),
            ("DBSIZE", Ok(Target::Every(Merge::Sum))),
            ("KEYS *", Ok(Target::Every(Merge::Join))),
            ("FLUSHALL", Ok(Target::Every(Merge::First))),
            ("SCRIPT LOAD x", Ok(Target::Every(Merge::First))),
        ] {
            assert_eq!(target_of(line), to, "{line}");
        }
        for line in ["MGET a b", "RENAME a b", "EVAL x 2 a b"] {
            assert!(target_of(line).unwrap_err().starts_with("CROSSSLOT "), "{line}");
        }
        for line in ["SCAN 0", "RANDOMKEY", "EVAL x 0", "INFO", "CONFIG GET a", "PUBSUB CHANNELS"] {
            let error = target_of(line).unwrap_err();
            assert!(error.starts_with("ERR Command is not available through a router: '"), "{line}: {error}");
        }
        assert!(target_of("NOSUCH a").unwrap_err().starts_with("ERR unknown command"));
    }

    #[test]
    fn keys_are_found_in_bodies() {
        let (a, b, jobs) = (slot(b"a"), slot(b"b"), slot(b"jobs"));
        assert_eq!(of_key(br#"{"key":"a","cost":2}"#), Some(vec![a]));
        assert_eq!(of_key(br#"{"cost":2,"key":{"base64":"YQ=="}}"#), Some(vec![a]));
        assert_eq!(of_keys(br#"{"keys":[{"key":"a"},{"key":"b","cost":2}]}"#), Some(vec![a, b]));
        let operations =
            br#"{"operations":[{"op":"put","key":"a","value":{"key":"x"}},{"op":"get","key":"b"}]}"#;
        assert_eq!(of_operations(operations), Some(vec![a, b]));
        let combined =
            br#"{"checks":[{"policy":"p","key":"a"}],"then":{"commands":[["LPUSH","jobs",1],["PING"]]}}"#;
        assert_eq!(of_checks(combined), Some(vec![a, jobs]));
        let combined =
            br#"{"checks":[{"policy":"p","key":"a"}],"then":{"operations":[{"op":"get","key":"b"}]}}"#;
        assert_eq!(of_checks(combined), Some(vec![a, b]));
        for body in [r#"{"key":"a","key":"b"}"#, r#"{"key":1}"#, "{}", "[]", "", r#""a""#] {
            assert_eq!(of_key(body.as_bytes()), None, "{body}");
        }
        assert_eq!(of_checks(br#"{"checks":[],"then":{"commands":[["NOSUCH","a"]]}}"#), None);
        assert_eq!(one_slot([a, a]), Ok(Some(a)));
        assert_eq!(one_slot([a, b]), Err(CrossSlot));
        assert_eq!(one_slot([]), Ok(None));
    }
}
