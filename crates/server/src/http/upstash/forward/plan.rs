//! Which commands are sent to the upstream, and to which node of a cluster: by the table of commands. Pure.
//!
//! Commands of a request share pooled connections, so what changes or occupies a connection is an error.

use keystead_commands::args::Args;
use keystead_commands::ctx::Rights;
use keystead_commands::errors::{self, Fail};
use keystead_commands::keys_of::Keys;
use keystead_commands::spec::{Run, Spec, Spread};
use keystead_commands::table;
use keystead_core::key::slot;
use keystead_stores::redis::{Call, Merge, To};

use super::super::idempotency::has_effect;
use super::super::run::{EMPTY, unavailable};
use crate::upstream::scripts::Scripts;

/// A command that may be sent.
pub(super) struct Planned {
    pub(super) call: Call,
    pub(super) to: To,
    /// Its row, if the table has one.
    pub(super) spec: Option<&'static Spec>,
    /// The slots of its keys, on a cluster.
    pub(super) slots: Vec<u16>,
    /// Whether it may change something.
    pub(super) has_effect: bool,
}

/// What a command is planned for.
pub(super) struct On<'a> {
    pub(super) is_cluster: bool,
    pub(super) scripts: &'a Scripts,
}

/// Commands that the table does not have and that occupy a connection.
const OCCUPYING: [&str; 3] = ["sync", "psync", "replconf"];

/// Commands that here change or occupy a connection, while this server itself accepts them.
const STATEFUL: [&str; 3] = ["script|debug", "wait", "waitaof"];

/// Scripts of a read-only token: only this server itself can check what they call.
const READ_ONLY_SCRIPTS: [&str; 3] = ["eval_ro", "evalsha_ro", "fcall_ro"];

/// What to do with a command.
pub(super) fn plan(rights: Rights, args: Args<'_>, on: &On<'_>) -> Result<Planned, Fail> {
    if args.is_empty() {
        return Err(EMPTY);
    }
    let found = find(args)?;
    let spec = match found {
        Found::Row(spec) => Some(spec),
        Found::Subcommand | Found::Unknown => None,
    };
    check(rights, spec, args)?;
    let mut slots = Vec::new();
    let mut to = To::Any;
    if on.is_cluster {
        slots = match spec {
            // If the keys cannot be determined, any node returns the error.
            Some(spec) => keys(spec, args).into_iter().map(|key| slot(args.at(key))).collect(),
            None => {
                let first = if matches!(found, Found::Subcommand) { 2 } else { 1 };
                args.get(first).map(slot).into_iter().collect()
            }
        };
        to = match (slots.first(), spec) {
            (Some(slot), _) => To::Slot(*slot),
            (None, Some(spec)) => without_keys(spec)?,
            (None, None) => To::Any,
        };
    }
    let reads_streams = spec.is_some_and(|spec| matches!(spec.keys, Keys::Streams));
    let replaced = spec.and_then(|spec| on.scripts.replacement(spec.full_name, args));
    let call = match (reads_streams, &replaced) {
        (true, _) => Call::new(without_block(args), to),
        (false, None) => Call::new(args.from(0), to),
        (false, Some((at, with))) => {
            let of = |(n, argument)| if n == *at { with.as_slice() } else { argument };
            Call::new(args.from(0).enumerate().map(of), to)
        }
    };
    let has_effect = spec.is_none_or(has_effect);
    Ok(Planned { call, to, spec, slots, has_effect })
}

enum Found {
    /// A row.
    Row(&'static Spec),
    /// A subcommand that the table does not have, of a container that it has.
    Subcommand,
    /// A command that the table does not have.
    Unknown,
}

fn find(args: Args<'_>) -> Result<Found, Fail> {
    let Some(spec) = table::find(args.name()) else { return Ok(Found::Unknown) };
    let Run::Within(rows) = spec.run else { return Ok(Found::Row(spec)) };
    match args.get(1).map(|name| table::find_within(rows, name)) {
        Some(Some(row)) => Ok(Found::Row(row)),
        // It may be about the connection.
        Some(None) if spec.name == "client" => Err(unavailable("CLIENT")),
        Some(None) => Ok(Found::Subcommand),
        None => Ok(rows.first().map_or(Found::Unknown, Found::Row)),
    }
}

fn check(rights: Rights, spec: Option<&Spec>, args: Args<'_>) -> Result<(), Fail> {
    let Some(spec) = spec else {
        let name = String::from_utf8_lossy(args.name()).to_lowercase();
        if OCCUPYING.contains(&name.as_str()) {
            return Err(unavailable(&name));
        }
        return match rights {
            Rights::All => Ok(()),
            Rights::ReadOnly => Err(errors::no_permission(&shown(&name))),
        };
    };
    if !spec.over_rest() || STATEFUL.contains(&spec.full_name) {
        return Err(unavailable(spec.full_name));
    }
    if rights == Rights::ReadOnly && READ_ONLY_SCRIPTS.contains(&spec.full_name) {
        return Err(errors::no_permission(spec.full_name));
    }
    rights.denial(spec).map_or(Ok(()), Err)
}

/// A name that no table has, as an error shows it.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(128).collect()
}

/// The keys of a command. Those that its arguments do not have are ignored.
fn keys(spec: &Spec, args: Args<'_>) -> Vec<usize> {
    if spec.full_name == "spublish" {
        // A shard channel is on the node of its slot.
        return vec![1];
    }
    let mut keys = spec.keys(args).unwrap_or_default();
    keys.retain(|key| *key < args.len());
    keys
}

/// Where a command without keys is sent on a cluster.
fn without_keys(spec: &Spec) -> Result<To, Fail> {
    Ok(match (spec.run, spec.spread) {
        (_, Spread::Sum) => To::Each(Merge::Sum),
        (_, Spread::Join) => To::Each(Merge::Join),
        (_, Spread::Each) | (Run::Shared(_), _) => To::Each(Merge::First),
        (_, Spread::Cursor) => {
            let name = spec.full_name.to_uppercase();
            return Err(Fail::text(format!(
                "ERR Command is not available: '{name}'. A cluster has a cursor for each node: use redis-cli --cluster call"
            )));
        }
        (_, Spread::Local | Spread::Some | Spread::Keys) => To::Any,
    })
}

/// XREAD and XREADGROUP without BLOCK: they return at once, as over REST always.
fn without_block(args: Args<'_>) -> Vec<&[u8]> {
    let mut kept = Vec::with_capacity(args.len());
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let words = match at {
            0 => 1,
            _ if is("STREAMS") => args.len() - at,
            _ if is("GROUP") => 3,
            _ if is("COUNT") || is("BLOCK") => 2,
            _ => 1,
        };
        if at == 0 || !is("BLOCK") {
            kept.extend(args.from(at).take(words));
        }
        at += words;
    }
    kept
}

#[cfg(test)]
mod tests {
    use keystead_commands::Command;

    use super::*;

    fn planned(rights: Rights, line: &str, is_cluster: bool) -> Result<Planned, String> {
        let command = Command::new(line.split(' '));
        let scripts = Scripts::default();
        let planned = plan(rights, command.args(), &On { is_cluster, scripts: &scripts });
        planned.map_err(|fail| fail.line().into_owned())
    }

    #[test]
    fn what_occupies_or_changes_a_connection_is_an_error() {
        for line in [
            "SUBSCRIBE a",
            "PSUBSCRIBE a",
            "SSUBSCRIBE a",
            "UNSUBSCRIBE",
            "MULTI",
            "EXEC",
            "DISCARD",
            "WATCH a",
            "BLPOP a 0",
            "BRPOP a 0",
            "BLMOVE a b LEFT LEFT 0",
            "BLMPOP 0 1 a LEFT",
            "BZPOPMIN a 0",
            "BZMPOP 0 1 a MIN",
            "MONITOR",
            "CLIENT REPLY OFF",
            "CLIENT TRACKING ON",
            "CLIENT NO-EVICT ON",
            "CLIENT SETNAME x",
            "SELECT 1",
            "AUTH x",
            "HELLO 3",
            "RESET",
            "QUIT",
            "SHUTDOWN",
            "WAIT 1 0",
            "WAITAOF 1 1 0",
            "SCRIPT DEBUG YES",
            "SYNC",
            "psync ? -1",
            "REPLCONF x",
            "ASKING",
            "READONLY",
            "READWRITE",
        ] {
            let error = planned(Rights::All, line, false).err().unwrap_or_else(|| panic!("{line} is sent"));
            assert!(error.starts_with("ERR Command is not available: '"), "{line}: {error}");
        }
    }

    #[test]
    fn a_read_only_token_reads_and_nothing_else() {
        for line in ["GET a", "MGET a b", "HGETALL h", "XREAD STREAMS s 0", "OBJECT ENCODING a"] {
            assert!(planned(Rights::ReadOnly, line, false).is_ok(), "{line}");
        }
        for line in [
            "SET a 1",
            "KEYS *",
            "SCAN 0",
            "INFO",
            "EVAL x 0",
            "EVAL_RO x 0",
            "EVALSHA_RO x 0",
            "FCALL_RO x 0",
            "JSON.NOSUCH a",
            "FT.SEARCH a b",
            "PUBLISH a b",
            "OBJECT NOSUCH a",
            "FLUSHALL",
            "CONFIG GET a",
            "GETDEL a",
        ] {
            let error =
                planned(Rights::ReadOnly, line, false).err().unwrap_or_else(|| panic!("{line} is sent"));
            assert!(error.starts_with("NOPERM "), "{line}: {error}");
        }
    }

    #[test]
    fn on_a_cluster_a_command_goes_to_the_node_of_its_keys() {
        let at = |key: &str| To::Slot(slot(key.as_bytes()));
        for (line, to) in [
            ("GET a", at("a")),
            ("EVAL x 1 a b", at("a")),
            ("XREAD COUNT 1 BLOCK 0 STREAMS s 0", at("s")),
            ("OBJECT ENCODING a", at("a")),
            ("OBJECT NOSUCH a", at("a")),
            ("FT.SEARCH index query", at("index")),
            ("SPUBLISH channel x", at("channel")),
            ("PUBLISH channel x", To::Any),
            ("PING", To::Any),
            ("EVAL x 0", To::Any),
            ("EVAL x many", To::Any),
            ("GET", To::Any),
            ("DBSIZE", To::Each(Merge::Sum)),
            ("KEYS *", To::Each(Merge::Join)),
            ("FLUSHALL", To::Each(Merge::First)),
            ("SCRIPT LOAD x", To::Each(Merge::First)),
        ] {
            assert_eq!(planned(Rights::All, line, true).unwrap().to, to, "{line}");
            assert_eq!(planned(Rights::All, line, false).unwrap().to, To::Any, "{line}");
        }
        assert!(planned(Rights::All, "SCAN 0", true).is_err());
        assert!(planned(Rights::All, "SCAN 0", false).is_ok());
    }

    #[test]
    fn reading_streams_does_not_block() {
        for (line, kept) in [
            ("XREAD BLOCK 0 STREAMS s $", "XREAD STREAMS s $"),
            ("xread COUNT 2 block 5 streams block 0", "xread COUNT 2 streams block 0"),
            (
                "XREADGROUP GROUP block c BLOCK 0 NOACK STREAMS s >",
                "XREADGROUP GROUP block c NOACK STREAMS s >",
            ),
            ("XREAD BLOCK", "XREAD"),
        ] {
            let command = Command::new(line.split(' '));
            let found: Vec<_> =
                without_block(command.args()).iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(found.join(" "), kept);
        }
    }

    #[test]
    fn what_may_change_something_is_known() {
        for (line, has_effect) in [
            ("GET a", false),
            ("PING", false),
            ("SET a 1", true),
            ("PUBLISH a b", true),
            ("NOSUCH", true),
            ("EVAL x 0", true),
        ] {
            assert_eq!(planned(Rights::All, line, false).unwrap().has_effect, has_effect, "{line}");
        }
    }
}
