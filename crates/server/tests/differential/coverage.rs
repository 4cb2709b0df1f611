//! Which commands of the table have succeeded and failed at least once. It touches nothing.

use std::collections::{HashMap, HashSet};

use keystead_commands::spec::{Run, Spec};
use keystead_commands::table;

use crate::script::Request;
use crate::wire::Value;

/// Commands that cannot fail or cannot succeed in a script, and why.
const EXEMPT: &[(&str, Ending, &str)] = &[
    ("unsubscribe", Ending::Error, "any arguments are channels"),
    ("punsubscribe", Ending::Error, "any arguments are patterns"),
    ("sunsubscribe", Ending::Error, "any arguments are channels"),
    ("pubsub|numsub", Ending::Error, "any arguments are channels"),
    ("pubsub|shardnumsub", Ending::Error, "any arguments are channels"),
    ("quit", Ending::Error, "any arguments are accepted"),
    ("waitsink", Ending::Success, "the server has no sinks here: tests/sinks has its successes"),
    ("info", Ending::Error, "any arguments are sections"),
    ("command|info", Ending::Error, "any arguments are commands"),
    ("command|docs", Ending::Error, "any arguments are commands"),
    ("latency|reset", Ending::Error, "any arguments are events"),
    ("latency|histogram", Ending::Error, "any arguments are commands"),
    ("latency|graph", Ending::Success, "there are no events"),
    ("client|caching", Ending::Success, "invalidation messages are not supported"),
    ("move", Ending::Success, "there is one database"),
    ("asking", Ending::Success, "there is no cluster"),
    ("cluster|countkeysinslot", Ending::Success, "there is no cluster"),
    ("cluster|getkeysinslot", Ending::Success, "there is no cluster"),
    ("cluster|help", Ending::Success, "there is no cluster"),
    ("cluster|info", Ending::Success, "there is no cluster"),
    ("cluster|keyslot", Ending::Success, "there is no cluster"),
    ("cluster|myid", Ending::Success, "there is no cluster"),
    ("cluster|nodes", Ending::Success, "there is no cluster"),
    ("cluster|shards", Ending::Success, "there is no cluster"),
    ("cluster|slots", Ending::Success, "there is no cluster"),
    ("readonly", Ending::Success, "there is no cluster"),
    ("readwrite", Ending::Success, "there is no cluster"),
    ("acl|setuser", Ending::Success, "there is one user"),
    ("acl|load", Ending::Success, "there is one user"),
    ("acl|save", Ending::Success, "there is one user"),
    ("module|load", Ending::Success, "there are no modules"),
    ("module|loadex", Ending::Success, "there are no modules"),
    ("module|unload", Ending::Success, "there are no modules"),
    ("config|rewrite", Ending::Success, "settings that last stand in a file of the user"),
    ("monitor", Ending::Success, "it shows what others do; tests/resp has it"),
    ("script|kill", Ending::Success, "no script runs while it is asked"),
    ("function|kill", Ending::Success, "no function runs while it is asked"),
    ("shutdown", Ending::Success, "it ends the server; tests/hostile has it"),
    ("save", Ending::Success, "nothing is kept in memory; the test at commit has it"),
    ("bgsave", Ending::Success, "nothing is kept in memory; the test at commit has it"),
    ("bgrewriteaof", Ending::Success, "nothing is kept in memory; the test at commit has it"),
];

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    Success,
    Error,
}

/// What was seen so far.
#[derive(Default)]
pub(crate) struct Coverage {
    seen: HashSet<(&'static str, Ending)>,
    count: HashMap<Ending, u64>,
}

impl Coverage {
    /// Notes a reply. What is only queued has not run.
    pub(crate) fn note(&mut self, request: &Request, reply: &Value) {
        let [reply, ..] = reply.as_frames() else { return };
        if reply.is_queued() || reply.is_lost() {
            return;
        }
        let ending = if reply.is_error() { Ending::Error } else { Ending::Success };
        *self.count.entry(ending).or_default() += 1;
        if let Some(spec) = row(request) {
            self.seen.insert((spec.full_name, ending));
        }
    }

    /// Rows that did not succeed or did not fail.
    pub(crate) fn missing(&self, rows: impl Iterator<Item = &'static Spec>) -> Vec<String> {
        let mut missing = Vec::new();
        for row in rows {
            for ending in [Ending::Success, Ending::Error] {
                let exempt = EXEMPT.iter().any(|(name, o, _)| *name == row.full_name && *o == ending);
                if !exempt && !self.seen.contains(&(row.full_name, ending)) {
                    missing.push(format!("{} never ended with {ending:?}", row.full_name));
                }
            }
        }
        missing
    }

    /// How many replies ended so.
    pub(crate) fn count(&self, ending: Ending) -> u64 {
        self.count.get(&ending).copied().unwrap_or(0)
    }
}

/// The row of the table that a request means.
pub(crate) fn row(request: &Request) -> Option<&'static Spec> {
    let spec = table::find(request.first()?)?;
    match spec.run {
        Run::Within(rows) => table::find_within(rows, request.get(1)?),
        _ => Some(spec),
    }
}
