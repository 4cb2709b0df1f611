//! What Keystead answers in its own way, written by hand: refusals that say what to do, and Redis 8 where no judge has it.
//!
//! They are asked of Keystead alone, because the judges would end, save or listen.

/// Requests and their answers, as the shrinker would print them.
pub(crate) struct Own {
    /// The test that it belongs to.
    pub(crate) family: &'static str,
    pub(crate) request: &'static str,
    pub(crate) answer: &'static str,
}

const fn own(family: &'static str, request: &'static str, answer: &'static str) -> Own {
    Own { family, request, answer }
}

const NOT_KEPT: &str = "-ERR nothing can be saved: the server keeps its data in memory only (--durability fsync or commit keeps it)";

const NO_USERS: &str =
    "-ERR users cannot be changed: there is only \\'default\\', and its password is the server\\'s token";

pub(crate) const OWN: &[Own] = &[
    own("server", "MONITOR", "-ERR MONITOR is not supported: set log-level to debug, or look at /metrics"),
    own(
        "server",
        "SHUTDOWN NOSAVE",
        "-ERR SHUTDOWN is not supported: end the keystead process with SIGTERM, and it closes its database properly",
    ),
    own("server", "SHUTDOWN ABORT", "-ERR No shutdown in progress."),
    own("server", "SHUTDOWN abc", "-ERR syntax error"),
    own("server", "REPLICAOF h 1", "-ERR replication is not supported: this server is always a master"),
    own("server", "SAVE", NOT_KEPT),
    own("server", "BGSAVE", NOT_KEPT),
    own("server", "BGREWRITEAOF", NOT_KEPT),
    own("server", "ACL SETUSER a on", NO_USERS),
    own("server", "ACL LOAD", NO_USERS),
    own("server", "ACL SAVE", NO_USERS),
    own("server", "MODULE LOAD x", "-ERR modules are not supported"),
    own("server", "MODULE LOADEX x", "-ERR modules are not supported"),
    own("server", "MODULE UNLOAD x", "-ERR modules are not supported"),
    own(
        "server",
        "DEBUG PROTOCOL nothing",
        "-ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|push|verbatim|true|false",
    ),
    // The judges refuse it in a pipeline.
    own("scripts", "SCRIPT DEBUG NO", "+OK"),
    own("scripts", "SCRIPT DEBUG abc", "-ERR Use SCRIPT DEBUG YES/SYNC/NO"),
    own("mixed_at_commit", "SAVE", "+OK"),
    own("mixed_at_commit", "BGSAVE", "+Background saving started"),
    own("mixed_at_commit", "BGSAVE SCHEDULE", "+Background saving started"),
    own("mixed_at_commit", "BGREWRITEAOF", "+Background append only file rewriting started"),
];
