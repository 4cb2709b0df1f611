//! The worker of `edge/` beside the server, both over REST: scripts without what needs a connection of its own.
//!
//! Over REST both behave as Upstash, which no judge is; the server over TCP is compared with Redis and Valkey.

use keystead_testkit::server::{Launch, Server};
use keystead_testkit::{Checked, Failure};
use serde_json::Map;

use crate::coverage::row;
use crate::database::Database;
use crate::families::FAMILIES;
use crate::script::{Judges, Request, Script, Step, Use};
use crate::trial::Subject;

/// Families whose commands are mostly about connections and the server: REST has few of them.
const ELSEWHERE: [&str; 4] = ["transactions", "pubsub", "connection", "server"];

/// What is compared: the other families, and all of them on keys that are read from their rows again.
pub(crate) fn subjects() -> Vec<Subject> {
    let families = FAMILIES.iter().filter(|family| !ELSEWHERE.contains(&family.name));
    families.map(Subject::family).chain([Subject::mixed_at_commit()]).map(Subject::at_edge).collect()
}

/// A database of the worker.
pub(crate) fn open() -> Checked<Database> {
    Database::open(Map::new()).map_err(Failure::new)
}

/// The server that judges.
pub(crate) fn judge() -> Checked<Server> {
    Launch::new(env!("CARGO_BIN_EXE_keystead")).args(["--durability", "memory"]).start()
}

/// What is missing, where the worker is not built.
pub(crate) fn missing() -> Option<String> {
    Database::missing().err().map(|missing| missing.to_string())
}

/// The groups of a script that REST can run.
pub(crate) fn over_rest(script: Script) -> Script {
    let groups = script.groups.into_iter().filter(|group| group.iter().all(runs)).collect();
    Script { groups, judges: Judges::Valkey, ..script }
}

fn runs(step: &Step) -> bool {
    let names_a_connection = step.args.iter().any(|argument| argument.starts_with(b"<id:"));
    step.usage() == Use::Pipelined && !names_a_connection && is_over_rest(&step.args)
}

/// Whether REST runs a request, if only to report that there is no such command. What is about the server differs between two of them.
fn is_over_rest(request: &Request) -> bool {
    row(request).is_none_or(|spec| spec.over_rest() && !is_about_the_server(spec.full_name))
}

fn is_about_the_server(name: &str) -> bool {
    let first = name.split('|').next().unwrap_or(name);
    matches!(
        first,
        "config" | "info" | "client" | "memory" | "latency" | "slowlog" | "debug" | "lastsave" | "acl"
    )
}
