//! Where a command runs in a database of several objects. Pure.

use keystead_commands::args::Args;
use keystead_commands::ctx::Dialect;
use keystead_commands::dispatch;
use keystead_commands::errors::{self, Fail};
use keystead_commands::keys_of::Keys;
use keystead_commands::spec::{Run, Spec, flag};
use keystead_core::key::slot;
use keystead_http_api::keys::{self, Target};

use super::owner;

/// Where a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Object(usize),
    /// On any: the reply is the same, or an error.
    Any,
    /// On the objects of its keys, each of which gets its own: objects with the indices of their keys.
    Split(Vec<(usize, Vec<usize>)>, Merge),
    Every(Merge),
    /// On one object after the other.
    Scan,
}

/// How replies become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    Sum,
    Join,
    First,
    /// For each position the least integer.
    Least,
    /// One that is not null, if there is one.
    Some,
    /// The elements in the order of these indices among the arguments.
    Pick(Vec<usize>),
}

/// Commands whose keys may be in several objects.
const SPLIT: [&str; 5] = ["del", "unlink", "exists", "touch", "mget"];

/// The destination of a command.
///
/// # Errors
/// Redis's errors, and for a command that concerns one object when no key says which.
pub(super) fn destination(args: Args<'_>, objects: usize) -> Result<Destination, Fail> {
    let spec = dispatch::resolve_in(Dialect::Upstash, args)?;
    let name = spec.full_name;
    if !spec.over_rest() || matches!(name, "publish" | "spublish") || name.starts_with("pubsub") {
        // Messages are in the first one; it also rejects what it does not run.
        return Ok(Destination::Object(0));
    }
    let found = spec.keys(args)?;
    let owners: Vec<usize> = found.iter().map(|key| owner(slot(args.at(*key)), objects)).collect();
    if let Some(first) = owners.first() {
        return match owners.iter().all(|owner| owner == first) {
            true => Ok(Destination::Object(*first)),
            false if SPLIT.contains(&name) && is_text(args) => Ok(split(spec, &found, &owners)),
            false => Err(errors::CROSS_SLOT),
        };
    }
    match (name, keys::without_keys(spec)) {
        ("scan", _) => Ok(Destination::Scan),
        ("script|exists", _) => Ok(Destination::Every(Merge::Least)),
        ("randomkey", _) => Ok(Destination::Every(Merge::Some)),
        (_, Some(Target::Every(merge))) => Ok(Destination::Every(match merge {
            keys::Merge::Sum => Merge::Sum,
            keys::Merge::Join => Merge::Join,
            keys::Merge::First => Merge::First,
        })),
        (_, Some(_)) => Ok(Destination::Any),
        // A script that names no key, and what changes all of an object.
        _ if matches!(spec.run, Run::Data(_))
            && (!matches!(spec.keys, Keys::None) || spec.flags.has(flag::WRITE)) =>
        {
            let words = format!(
                "ERR Command is not available in a database of several objects: '{}' names no key that says which object",
                spec.full_name.to_uppercase().replace('|', " ")
            );
            Err(Fail::text(words))
        }
        _ => Ok(Destination::Any),
    }
}

/// Whether a command can be sent on as JSON.
fn is_text(args: Args<'_>) -> bool {
    args.from(0).all(|word| std::str::from_utf8(word).is_ok())
}

fn split(spec: &Spec, found: &[usize], owners: &[usize]) -> Destination {
    let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
    for (key, owner) in found.iter().zip(owners) {
        match parts.iter_mut().find(|(object, _)| object == owner) {
            Some((_, keys)) => keys.push(*key),
            None => parts.push((*owner, vec![*key])),
        }
    }
    let merge = if spec.full_name == "mget" { Merge::Pick(found.to_vec()) } else { Merge::Sum };
    Destination::Split(parts, merge)
}
