//! All settings of CONFIG, with their default values and what CONFIG SET does with them. It touches nothing.

use super::kind::Kind::{
    self, Bytes, BytesOrShare, Choice, Choices, Int, OomScores, OutputLimits, Percentiles, Save, Text, YesNo,
};
use crate::hub::Facts;

/// One setting.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// An older name, or empty.
    pub(super) also: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) rule: Rule,
}

/// What CONFIG SET does with a setting. A setting that would change Redis's behaviour but has no effect here never returns OK.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// It takes effect at once, as in Redis.
    Effective(Target),
    /// It tunes internals of Redis that do not exist here, or concerns only a cluster or replicas: accepted and
    /// stored, so that tools that set it keep working.
    Tunes,
    /// It is determined by the start of the server: it accepts its current value, and rejects others with this reason.
    Start(fn(&Facts) -> String, &'static str),
    /// It would change Redis's behaviour and has no effect here: it accepts its current value, and rejects others with this reason.
    Rejected(&'static str),
    /// It is not shown, so it rejects every value with this reason.
    Hidden(&'static str),
    /// It cannot be set at run time.
    Immutable,
}

/// What a setting that takes effect applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    ClientsMax,
    ClientTimeout,
    TcpKeepalive,
    BulkBytes,
    QueryBytes,
    ScriptTime,
    Output,
}

const I32: i64 = i32::MAX as i64;
const I64: i64 = i64::MAX;
const U64: u64 = u64::MAX;
const LONG: u64 = i64::MAX as u64;
const MEGABYTE: u64 = 1 << 20;

const BY_DURABILITY: &str = "it is determined by the durability at the start of the server (--durability)";
const AT_START: &str = "it is determined at the start of the server";
const BY_LOG_LEVEL: &str = "it is determined by the log level at the start of the server (--log-level)";
const BY_MEMORY: &str =
    "the memory limit is set at the start of the server (--memory), and no key is ever evicted";
const BY_TOKEN: &str = "the password is the token that the server was started with (--token, --token-file)";
const NO_EVENTS: &str = "keyspace notifications are not supported";
const NO_EVICTION: &str = "no key is ever evicted: beyond --memory, values are read from disk";
const NO_CLIENT_EVICTION: &str =
    "clients are not evicted by memory: client-output-buffer-limit bounds each of them";
const NO_USERS: &str = "there is one user, and no log of denied commands";
const NO_AOF: &str = "there is no append-only file: the journal truncates a torn tail and has no timestamps";
const NO_REWRITE: &str = "the guarantee of --durability holds at all times";
const NO_CRASH_REPORT: &str = "there is no crash report: a panic is one line in the log";
const NO_HIDING: &str = "arguments of redis.log are logged unchanged";
const NO_LATENCY: &str = "latencies are not recorded per command: see /metrics";
const NO_SLOW_LOG: &str = "slow commands are not recorded";
const NO_LOCALE: &str = "texts are compared byte by byte, whatever the locale";
const NO_REPLICATION: &str = "there is no replication";
const NO_PROCESS: &str = "the server does not change its process title or OOM score";
const PROTECTED: &str = "without a token only loopback addresses are served, always";
const NO_RESTORE: &str = "there is no RESTORE";
const NO_SHUTDOWN: &str = "SIGTERM and SIGINT shut the server down in one way, within its grace period";
const NO_SNAPSHOT: &str = "there are no snapshots: a write that cannot be made durable returns an error";
const NO_TRACKING: &str = "CLIENT TRACKING is not supported";

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];
const SIGNALS: &[&str] = &["default", "save", "nosave", "now", "force"];
const FACILITIES: &[&str] =
    &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];

const fn row(name: &'static str, kind: Kind, default: &'static str, rule: Rule) -> Row {
    Row { name, also: "", kind, default, rule }
}

const fn effective(name: &'static str, kind: Kind, default: &'static str, effective: Target) -> Row {
    row(name, kind, default, Rule::Effective(effective))
}

const fn tunes(name: &'static str, kind: Kind, default: &'static str) -> Row {
    row(name, kind, default, Rule::Tunes)
}

const fn rejected(name: &'static str, kind: Kind, value: &'static str, why: &'static str) -> Row {
    row(name, kind, value, Rule::Rejected(why))
}

const fn immutable(name: &'static str, kind: Kind, value: &'static str) -> Row {
    row(name, kind, value, Rule::Immutable)
}

impl Row {
    const fn also(mut self, name: &'static str) -> Row {
        self.also = name;
        self
    }
}

fn cluster(facts: &Facts) -> String {
    if facts.cluster { "yes" } else { "no" }.to_owned()
}

fn memory(facts: &Facts) -> String {
    facts.limit_bytes.unwrap_or(0).to_string()
}

fn append_only(facts: &Facts) -> String {
    if facts.durability == "memory" { "no" } else { "yes" }.into()
}

fn append_fsync(facts: &Facts) -> String {
    match facts.durability {
        "commit" => "everysec",
        "memory" => "no",
        _ => "always",
    }
    .into()
}

pub(super) const ROWS: &[Row] = &[
    effective("maxclients", Int(1, u32::MAX as i64), "10000", Target::ClientsMax),
    effective("timeout", Int(0, I32), "0", Target::ClientTimeout),
    effective("tcp-keepalive", Int(0, I32), "300", Target::TcpKeepalive),
    effective("proto-max-bulk-len", Bytes(MEGABYTE, LONG), "536870912", Target::BulkBytes),
    effective("client-query-buffer-limit", Bytes(MEGABYTE, LONG), "1073741824", Target::QueryBytes),
    effective(
        "client-output-buffer-limit",
        OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Target::Output,
    ),
    effective("busy-reply-threshold", Int(0, I64), "5000", Target::ScriptTime).also("lua-time-limit"),
    row("appendonly", YesNo, "yes", Rule::Start(append_only, BY_DURABILITY)),
    row(
        "appendfsync",
        Choice(&["everysec", "always", "no"]),
        "always",
        Rule::Start(append_fsync, BY_DURABILITY),
    ),
    row("save", Save, "", Rule::Start(|_| String::new(), BY_DURABILITY)),
    row("port", Int(0, 65535), "0", Rule::Start(|facts| facts.port.to_string(), AT_START)),
    row("dir", Text, "", Rule::Start(|facts| facts.data.clone(), AT_START)),
    row("maxmemory", Bytes(0, U64), "0", Rule::Start(memory, BY_MEMORY)),
    row(
        "loglevel",
        Choice(&["debug", "verbose", "notice", "warning", "nothing"]),
        "warning",
        Rule::Start(|facts| facts.log_level.to_owned(), BY_LOG_LEVEL),
    ),
    row("requirepass", Text, "", Rule::Hidden(BY_TOKEN)),
    immutable("databases", Int(1, I32), "1"),
    row("cluster-enabled", YesNo, "no", Rule::Start(cluster, AT_START)),
    rejected("notify-keyspace-events", Text, "", NO_EVENTS),
    rejected("acl-pubsub-default", Choice(&["allchannels", "resetchannels"]), "resetchannels", NO_USERS),
    immutable("aclfile", Text, ""),
    rejected("acllog-max-len", Int(0, I64), "128", NO_USERS),
    tunes("active-defrag-cycle-max", Int(1, 99), "25"),
    tunes("active-defrag-cycle-min", Int(1, 99), "1"),
    tunes("active-defrag-ignore-bytes", Bytes(1, LONG), "104857600"),
    tunes("active-defrag-max-scan-fields", Int(1, I64), "1000"),
    tunes("active-defrag-threshold-lower", Int(0, 1000), "10"),
    tunes("active-defrag-threshold-upper", Int(0, 1000), "100"),
    tunes("active-expire-effort", Int(1, 10), "1"),
    tunes("activedefrag", YesNo, "no"),
    tunes("activerehashing", YesNo, "yes"),
    immutable("always-show-logo", YesNo, "no"),
    tunes("aof-disable-auto-gc", YesNo, "no"),
    rejected("aof-load-truncated", YesNo, "yes", NO_AOF),
    tunes("aof-rewrite-incremental-fsync", YesNo, "yes"),
    rejected("aof-timestamp-enabled", YesNo, "no", NO_AOF),
    tunes("aof-use-rdb-preamble", YesNo, "yes"),
    immutable("aof_rewrite_cpulist", Text, ""),
    immutable("appenddirname", Text, "appendonlydir"),
    immutable("appendfilename", Text, "appendonly.aof"),
    tunes("auto-aof-rewrite-min-size", Bytes(0, LONG), "67108864"),
    tunes("auto-aof-rewrite-percentage", Int(0, I32), "100"),
    immutable("bgsave_cpulist", Text, ""),
    immutable("bind", Text, ""),
    immutable("bind-source-addr", Text, ""),
    immutable("bio_cpulist", Text, ""),
    tunes("cluster-allow-pubsubshard-when-down", YesNo, "yes"),
    tunes("cluster-allow-reads-when-down", YesNo, "no"),
    tunes("cluster-allow-replica-migration", YesNo, "yes"),
    tunes("cluster-announce-bus-port", Int(0, 65535), "0"),
    tunes("cluster-announce-hostname", Text, ""),
    tunes("cluster-announce-human-nodename", Text, ""),
    tunes("cluster-announce-ip", Text, ""),
    tunes("cluster-announce-port", Int(0, 65535), "0"),
    tunes("cluster-announce-tls-port", Int(0, 65535), "0"),
    immutable("cluster-config-file", Text, "nodes.conf"),
    tunes("cluster-link-sendbuf-limit", Bytes(0, LONG), "0"),
    tunes("cluster-migration-barrier", Int(0, I32), "1"),
    tunes("cluster-node-timeout", Int(0, I64), "15000"),
    immutable("cluster-port", Int(0, 65535), "0"),
    tunes("cluster-preferred-endpoint-type", Choice(&["ip", "hostname", "unknown-endpoint"]), "ip"),
    tunes("cluster-replica-no-failover", YesNo, "no").also("cluster-slave-no-failover"),
    tunes("cluster-replica-validity-factor", Int(0, I32), "10").also("cluster-slave-validity-factor"),
    tunes("cluster-require-full-coverage", YesNo, "yes"),
    rejected("crash-log-enabled", YesNo, "no", NO_CRASH_REPORT),
    rejected("crash-memcheck-enabled", YesNo, "no", NO_CRASH_REPORT),
    immutable("daemonize", YesNo, "no"),
    immutable("dbfilename", Text, "dump.rdb"),
    immutable("disable-thp", YesNo, "yes"),
    tunes("dynamic-hz", YesNo, "yes"),
    immutable("enable-debug-command", Choice(&["no", "yes", "local"]), "no"),
    immutable("enable-module-command", Choice(&["no", "yes", "local"]), "no"),
    immutable("enable-protected-configs", Choice(&["no", "yes", "local"]), "no"),
    tunes("hash-max-listpack-entries", Int(0, I64), "512").also("hash-max-ziplist-entries"),
    tunes("hash-max-listpack-value", Bytes(0, LONG), "64").also("hash-max-ziplist-value"),
    rejected("hide-user-data-from-log", YesNo, "no", NO_HIDING),
    tunes("hll-sparse-max-bytes", Bytes(0, LONG), "3000"),
    tunes("hz", Int(0, I32), "10"),
    tunes("ignore-warnings", Text, ""),
    immutable("io-threads", Int(1, 128), "1"),
    immutable("io-threads-do-reads", YesNo, "no"),
    tunes("jemalloc-bg-thread", YesNo, "yes"),
    rejected("latency-monitor-threshold", Int(0, I64), "0", NO_LATENCY),
    rejected("latency-tracking", YesNo, "no", NO_LATENCY),
    rejected("latency-tracking-info-percentiles", Percentiles, "50 99 99.9", NO_LATENCY),
    tunes("lazyfree-lazy-eviction", YesNo, "no"),
    tunes("lazyfree-lazy-expire", YesNo, "no"),
    tunes("lazyfree-lazy-server-del", YesNo, "no"),
    tunes("lazyfree-lazy-user-del", YesNo, "no"),
    tunes("lazyfree-lazy-user-flush", YesNo, "no"),
    tunes("lfu-decay-time", Int(0, I32), "1"),
    tunes("lfu-log-factor", Int(0, I32), "10"),
    tunes("list-compress-depth", Int(0, I32), "0"),
    tunes("list-max-listpack-size", Int(i32::MIN as i64, I32), "-2").also("list-max-ziplist-size"),
    rejected("locale-collate", Text, "", NO_LOCALE),
    immutable("logfile", Text, ""),
    rejected("masterauth", Text, "", NO_REPLICATION),
    rejected("masteruser", Text, "", NO_REPLICATION),
    tunes("max-new-connections-per-cycle", Int(1, 1000), "10"),
    tunes("max-new-tls-connections-per-cycle", Int(1, 1000), "1"),
    rejected("maxmemory-clients", BytesOrShare, "0", NO_CLIENT_EVICTION),
    tunes("maxmemory-eviction-tenacity", Int(0, 100), "10"),
    rejected("maxmemory-policy", Choice(POLICIES), "noeviction", NO_EVICTION),
    tunes("maxmemory-samples", Int(1, 64), "5"),
    rejected("min-replicas-max-lag", Int(0, I32), "10", NO_REPLICATION).also("min-slaves-max-lag"),
    rejected("min-replicas-to-write", Int(0, I32), "0", NO_REPLICATION).also("min-slaves-to-write"),
    rejected("no-appendfsync-on-rewrite", YesNo, "no", NO_REWRITE),
    rejected("oom-score-adj", Choice(&["no", "yes", "relative", "absolute"]), "no", NO_PROCESS),
    rejected("oom-score-adj-values", OomScores, "0 200 800", NO_PROCESS),
    immutable("pidfile", Text, ""),
    rejected("proc-title-template", Text, "{title} {listen-addr} {server-mode}", NO_PROCESS),
    rejected(
        "propagation-error-behavior",
        Choice(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
        NO_REPLICATION,
    ),
    rejected("protected-mode", YesNo, "yes", PROTECTED),
    rejected("rdb-del-sync-files", YesNo, "no", NO_REPLICATION),
    tunes("rdb-save-incremental-fsync", YesNo, "yes"),
    immutable("rdbchecksum", YesNo, "yes"),
    tunes("rdbcompression", YesNo, "yes"),
    tunes("repl-backlog-size", Bytes(1, LONG), "1048576"),
    tunes("repl-backlog-ttl", Int(0, I64), "3600"),
    tunes("repl-disable-tcp-nodelay", YesNo, "no"),
    tunes("repl-diskless-load", Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled"),
    tunes("repl-diskless-sync", YesNo, "yes"),
    tunes("repl-diskless-sync-delay", Int(0, I32), "5"),
    tunes("repl-diskless-sync-max-replicas", Int(0, I32), "0"),
    tunes("repl-ping-replica-period", Int(1, I32), "10").also("repl-ping-slave-period"),
    tunes("repl-timeout", Int(1, I32), "60"),
    rejected("replica-announce-ip", Text, "", NO_REPLICATION).also("slave-announce-ip"),
    rejected("replica-announce-port", Int(0, 65535), "0", NO_REPLICATION).also("slave-announce-port"),
    rejected("replica-announced", YesNo, "yes", NO_REPLICATION),
    rejected("replica-ignore-disk-write-errors", YesNo, "no", NO_REPLICATION),
    rejected("replica-ignore-maxmemory", YesNo, "yes", NO_REPLICATION).also("slave-ignore-maxmemory"),
    tunes("replica-lazy-flush", YesNo, "no").also("slave-lazy-flush"),
    rejected("replica-priority", Int(0, I32), "100", NO_REPLICATION).also("slave-priority"),
    rejected("replica-read-only", YesNo, "yes", NO_REPLICATION).also("slave-read-only"),
    rejected("replica-serve-stale-data", YesNo, "yes", NO_REPLICATION).also("slave-serve-stale-data"),
    immutable("replicaof", Text, "").also("slaveof"),
    rejected("sanitize-dump-payload", Choice(&["no", "yes", "clients"]), "no", NO_RESTORE),
    immutable("server_cpulist", Text, ""),
    tunes("set-max-intset-entries", Int(0, I64), "512"),
    tunes("set-max-listpack-entries", Int(0, I64), "128"),
    tunes("set-max-listpack-value", Bytes(0, LONG), "64"),
    immutable("set-proc-title", YesNo, "yes"),
    rejected("shutdown-on-sigint", Choices(SIGNALS), "default", NO_SHUTDOWN),
    rejected("shutdown-on-sigterm", Choices(SIGNALS), "default", NO_SHUTDOWN),
    rejected("shutdown-timeout", Int(0, I32), "10", NO_SHUTDOWN),
    rejected("slowlog-log-slower-than", Int(-1, I64), "-1", NO_SLOW_LOG),
    rejected("slowlog-max-len", Int(0, I64), "128", NO_SLOW_LOG),
    immutable("socket-mark-id", Int(0, u32::MAX as i64), "0"),
    rejected("stop-writes-on-bgsave-error", YesNo, "yes", NO_SNAPSHOT),
    tunes("stream-node-max-bytes", Bytes(0, LONG), "4096"),
    tunes("stream-node-max-entries", Int(0, I64), "100"),
    immutable("supervised", Choice(&["upstart", "systemd", "auto", "no"]), "no"),
    immutable("syslog-enabled", YesNo, "no"),
    immutable("syslog-facility", Choice(FACILITIES), "local0"),
    immutable("syslog-ident", Text, "redis"),
    immutable("tcp-backlog", Int(0, I32), "511"),
    immutable("tls-auth-clients", Choice(&["no", "yes", "optional"]), "yes"),
    immutable("tls-ca-cert-dir", Text, ""),
    immutable("tls-ca-cert-file", Text, ""),
    immutable("tls-cert-file", Text, ""),
    immutable("tls-ciphers", Text, ""),
    immutable("tls-ciphersuites", Text, ""),
    immutable("tls-client-cert-file", Text, ""),
    immutable("tls-client-key-file", Text, ""),
    immutable("tls-cluster", YesNo, "no"),
    immutable("tls-dh-params-file", Text, ""),
    immutable("tls-key-file", Text, ""),
    immutable("tls-port", Int(0, 65535), "0"),
    immutable("tls-prefer-server-ciphers", YesNo, "no"),
    immutable("tls-protocols", Text, ""),
    immutable("tls-replication", YesNo, "no"),
    immutable("tls-session-cache-size", Int(0, I32), "20480"),
    immutable("tls-session-cache-timeout", Int(0, I32), "300"),
    immutable("tls-session-caching", YesNo, "yes"),
    rejected("tracking-table-max-keys", Int(0, I64), "1000000", NO_TRACKING),
    immutable("unixsocket", Text, ""),
    immutable("unixsocketperm", Int(0, 0o777), "0"),
    tunes("zset-max-listpack-entries", Int(0, I64), "128").also("zset-max-ziplist-entries"),
    tunes("zset-max-listpack-value", Bytes(0, LONG), "64").also("zset-max-ziplist-value"),
];
