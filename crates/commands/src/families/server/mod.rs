//! The server: the table of this family.

mod acl;
mod cluster;
mod command;
mod config;
mod debug;
mod info;
mod latency;
mod lolwut;
mod module;
mod monitor;
mod replication;
mod save;
mod shutdown;
mod slowlog;
mod swapdb;
mod time;

use crate::spec::flag::{ADMIN, BLOCKING, FAST, NO_MULTI, NO_REST, NO_SCRIPT, NONE, WRITE_FAST, and};
use crate::spec::{Flags, Spec};

/// For people who run the server.
const RUNS: Flags = and(ADMIN, NO_SCRIPT);
/// The same, and it cannot be queued.
const RUNS_ALONE: Flags = and(RUNS, NO_MULTI);
/// How a connection asks a cluster.
const OF_CLUSTER: Flags = and(FAST, NO_REST);

pub(crate) const TABLE: &[Spec] = &[
    Spec::within("ACL", "acl", acl::TABLE).doc("", "Looks at users.", "6.0.0"),
    Spec::conn("ASKING", "asking", 1, OF_CLUSTER, cluster::run).doc("", cluster::SUMMARY, "3.0.0"),
    Spec::conn("BGREWRITEAOF", "bgrewriteaof", 1, RUNS, save::bgrewriteaof).doc(
        "",
        "Answers as Redis does: the journal takes care of itself.",
        "1.0.0",
    ),
    Spec::conn("BGSAVE", "bgsave", -1, RUNS, save::bgsave).doc(
        "[SCHEDULE]",
        "Answers as Redis does: everything is kept already. Refused at durability `memory`.",
        "1.0.0",
    ),
    Spec::conn("CLUSTER", "cluster", -2, NO_REST, cluster::run).doc(
        "subcommand [argument [argument ...]]",
        cluster::SUMMARY,
        "3.0.0",
    ),
    Spec::within("COMMAND", "command", command::TABLE)
        .doc("", "Looks at the table of commands.", "2.8.13")
        .alone(),
    Spec::within("CONFIG", "config", config::TABLE).doc("", "Looks at settings and changes them.", "2.0.0"),
    Spec::conn("DEBUG", "debug", -2, RUNS, debug::run).doc(
        "subcommand [argument [argument ...]]",
        "For test suites. See DEBUG HELP for the few that there are.",
        "1.0.0",
    ),
    Spec::conn("INFO", "info", -1, NONE, info::run).doc(
        "[section [section ...]]",
        "Tells about the server, in sections of `name:value` lines.",
        "1.0.0",
    ),
    Spec::conn("LASTSAVE", "lastsave", 1, FAST, save::lastsave).doc(
        "",
        "Gives the Unix time up to which everything is kept: now, or the start at durability `memory`.",
        "1.0.0",
    ),
    Spec::within("LATENCY", "latency", latency::TABLE).doc("", "Looks at latency events.", "2.8.13"),
    Spec::conn("LOLWUT", "lolwut", -1, FAST, lolwut::run).doc("[VERSION version]", "Draws a house.", "5.0.0"),
    Spec::within("MODULE", "module", module::TABLE).doc("", "Looks at modules: there are none.", "4.0.0"),
    Spec::conn("MONITOR", "monitor", 1, and(RUNS_ALONE, NO_REST), monitor::run).doc(
        "",
        "Shows every command that the server runs, as it begins.",
        "1.0.0",
    ),
    Spec::conn("READONLY", "readonly", 1, OF_CLUSTER, cluster::run).doc("", cluster::SUMMARY, "3.0.0"),
    Spec::conn("READWRITE", "readwrite", 1, OF_CLUSTER, cluster::run).doc("", cluster::SUMMARY, "3.0.0"),
    Spec::conn("REPLICAOF", "replicaof", 3, RUNS, replication::replicaof).doc(
        "<host port | NO ONE>",
        "Only NO ONE: there is no replication.",
        "5.0.0",
    ),
    Spec::conn("ROLE", "role", 1, and(NO_SCRIPT, FAST), replication::role).doc(
        "",
        "Tells that the server is a master without replicas.",
        "2.8.12",
    ),
    Spec::conn("SAVE", "save", 1, RUNS_ALONE, save::save).doc(
        "",
        "Answers OK: everything is kept already. Refused at durability `memory`.",
        "1.0.0",
    ),
    Spec::conn("SHUTDOWN", "shutdown", -1, and(RUNS_ALONE, NO_REST), shutdown::run).doc(
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        "Ends the server as SIGTERM does; with NOSAVE or NOW it does not wait for scripts.",
        "1.0.0",
    ),
    Spec::conn("SLAVEOF", "slaveof", 3, RUNS, replication::replicaof).doc(
        "<host port | NO ONE>",
        "The old name of REPLICAOF.",
        "1.0.0",
    ),
    Spec::within("SLOWLOG", "slowlog", slowlog::TABLE).doc(
        "",
        "Looks at slow commands: none are kept.",
        "2.2.12",
    ),
    Spec::conn("SWAPDB", "swapdb", 3, WRITE_FAST, swapdb::run).doc(
        "index1 index2",
        "Swaps databases: there is only 0.",
        "4.0.0",
    ),
    Spec::conn("TIME", "time", 1, FAST, time::run).doc(
        "",
        "Gives the time: seconds since 1970, and microseconds.",
        "2.6.0",
    ),
    Spec::conn("WAIT", "wait", 3, and(BLOCKING, NO_SCRIPT), replication::wait).doc(
        "numreplicas timeout",
        "Gives how many replicas have the last change: 0, at once.",
        "3.0.0",
    ),
    Spec::conn("WAITAOF", "waitaof", 4, and(BLOCKING, NO_SCRIPT), replication::waitaof).doc(
        "numlocal numreplicas timeout",
        "Gives whether the last change is on disk (1 at durability `fsync`), and on how many replicas: 0.",
        "7.2.0",
    ),
];
