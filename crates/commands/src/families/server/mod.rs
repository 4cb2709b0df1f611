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

/// For administrators.
const ADMIN_FLAGS: Flags = and(ADMIN, NO_SCRIPT);
/// The same, and it cannot be queued.
const ADMIN_NO_MULTI: Flags = and(ADMIN_FLAGS, NO_MULTI);
/// Commands of clients in cluster mode.
const CLUSTER_FLAGS: Flags = and(FAST, NO_REST);

/// It waits in a connection of the server.
const WAITSINK_FLAGS: Flags = and(and(BLOCKING, NO_SCRIPT), and(NO_REST, NO_MULTI));

pub(crate) const TABLE: &[Spec] = &[
    Spec::within("acl", acl::TABLE).doc("", "A container for access control commands.", "6.0.0"),
    Spec::conn("asking", 1, CLUSTER_FLAGS, cluster::readonly).doc(
        "",
        "Returns OK in a cluster: no node serves keys of a slot that is not its own.",
        "3.0.0",
    ),
    Spec::conn("bgrewriteaof", 1, ADMIN_FLAGS, save::bgrewriteaof).doc(
        "",
        "Writes recent changes to the database's files and returns their free space to the system, in the background. Returns an error at durability `memory`.",
        "1.0.0",
    ),
    Spec::conn("bgsave", -1, ADMIN_FLAGS, save::bgsave).doc(
        "[SCHEDULE]",
        "Does nothing and replies as Redis does: writes are durable already. Returns an error at durability `memory`.",
        "1.0.0",
    ),
    Spec::within("cluster", cluster::TABLE).doc("", "A container for Redis Cluster commands.", "3.0.0"),
    Spec::within("command", command::TABLE)
        .doc("", "A container for commands about the command table.", "2.8.13")
        .alone(),
    Spec::within("config", config::TABLE).doc("", "A container for configuration commands.", "2.0.0"),
    Spec::conn("debug", -2, ADMIN_FLAGS, debug::debug).doc(
        "subcommand [argument [argument ...]]",
        "Debugging commands for test suites. DEBUG HELP lists the supported ones.",
        "1.0.0",
    ),
    Spec::conn("info", -1, NONE, info::info).doc(
        "[section [section ...]]",
        "Returns information and statistics about the server, in sections of `name:value` lines.",
        "1.0.0",
    ),
    Spec::conn("lastsave", 1, FAST, save::lastsave).doc(
        "",
        "Returns the Unix time up to which data is persisted: now, or the start of the server at durability `memory`.",
        "1.0.0",
    ),
    Spec::within("latency", latency::TABLE).doc("", "A container for latency diagnostics commands.", "2.8.13"),
    Spec::conn("lolwut", -1, FAST, lolwut::lolwut).doc("[VERSION version]", "Displays computer art and the version.", "5.0.0"),
    Spec::within("module", module::TABLE).doc("", "A container for module commands.", "4.0.0"),
    Spec::conn("monitor", 1, and(ADMIN_NO_MULTI, NO_REST), monitor::monitor).doc(
        "",
        "Streams every command that the server processes to the connection.",
        "1.0.0",
    ),
    Spec::conn("readonly", 1, CLUSTER_FLAGS, cluster::readonly).doc("", "Returns OK in a cluster: there are no replicas.", "3.0.0"),
    Spec::conn("readwrite", 1, CLUSTER_FLAGS, cluster::readonly).doc("", "Returns OK in a cluster: there are no replicas.", "3.0.0"),
    Spec::conn("replicaof", 3, ADMIN_FLAGS, replication::replicaof).doc(
        "<host port | NO ONE>",
        "Accepts only NO ONE: replication is not supported.",
        "5.0.0",
    ),
    Spec::conn("role", 1, and(NO_SCRIPT, FAST), replication::role).doc(
        "",
        "Returns the replication role: a master without replicas.",
        "2.8.12",
    ),
    Spec::conn("save", 1, ADMIN_NO_MULTI, save::save).doc(
        "",
        "Does nothing and returns OK: writes are durable already. Returns an error at durability `memory`.",
        "1.0.0",
    ),
    Spec::conn("shutdown", -1, and(ADMIN_NO_MULTI, NO_REST), shutdown::shutdown).doc(
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        "Shuts down the server as SIGTERM does. With NOSAVE or NOW it does not wait for scripts.",
        "1.0.0",
    ),
    Spec::conn("slaveof", 3, ADMIN_FLAGS, replication::replicaof).doc(
        "<host port | NO ONE>",
        "Accepts only NO ONE: replication is not supported. Deprecated alias of REPLICAOF.",
        "1.0.0",
    ),
    Spec::within("slowlog", slowlog::TABLE).doc(
        "",
        "A container for slow log commands.",
        "2.2.12",
    ),
    Spec::conn("swapdb", 3, WRITE_FAST, swapdb::swapdb).doc(
        "index1 index2",
        "Swaps two databases. Only 0 exists.",
        "4.0.0",
    ),
    Spec::conn("time", 1, FAST, time::time).doc(
        "",
        "Returns the server time: seconds since 1970 and microseconds.",
        "2.6.0",
    ),
    Spec::conn("wait", 3, and(BLOCKING, NO_SCRIPT), replication::wait).doc(
        "numreplicas timeout",
        "Returns how many replicas have acknowledged the last write: always 0, without waiting.",
        "3.0.0",
    ),
    Spec::conn("waitaof", 4, and(BLOCKING, NO_SCRIPT), replication::waitaof).doc(
        "numlocal numreplicas timeout",
        "Returns whether the last write is on the local disk (1 at durability `fsync`) and on how many replicas it is: always 0.",
        "7.2.0",
    ),
    Spec::conn("waitsink", 3, WAITSINK_FLAGS, replication::waitsink).doc(
        "sink timeout",
        "Waits until the target of a sink has all writes before it: 1, or 0 after the timeout in milliseconds (0: the longest, a minute). Of Keystead.",
        "0.1.0",
    ),
];
