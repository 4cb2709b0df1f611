//! Every setting, with Redis's defaults. It touches nothing.

use super::kind::Kind::{
    self, Bytes, BytesOrShare, Choice, Choices, Int, Nothing, OomScores, OutputLimits, Percentiles, Save,
    Text, YesNo,
};
use crate::hub::Facts;

/// One setting.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// An older name, or nothing.
    pub(super) also: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) rule: Rule,
}

/// Who decides a setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// CONFIG SET: it is remembered, and felt if doors ask for it.
    Kept,
    /// The start of the server, in Redis too.
    Fixed,
    /// The server; setting it to anything else is refused for this reason.
    Host(fn(&Facts) -> String, &'static str),
    /// The server, until somebody sets it.
    FirstHost(fn(&Facts) -> String),
    /// CONFIG SET, up to what the server can bear.
    Clients,
}

const I32: i64 = i32::MAX as i64;
const I64: i64 = i64::MAX;
const U64: u64 = u64::MAX;
const LONG: u64 = i64::MAX as u64;
const MEGABYTE: u64 = 1 << 20;

const BY_DURABILITY: &str = "it follows from the durability that the server was started with (--durability)";
const AT_START: &str = "it is decided when the server starts";
const NO_EVENTS: &str = "keyspace notifications are not supported";

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

const fn kept(name: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { name, also: "", kind, default, rule: Rule::Kept }
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str) -> Row {
    Row { name, also: "", kind, default, rule: Rule::Fixed }
}

const fn host(name: &'static str, kind: Kind, default: &'static str, value: fn(&Facts) -> String) -> Row {
    Row { name, also: "", kind, default, rule: Rule::Host(value, AT_START) }
}

const fn durable(name: &'static str, kind: Kind, default: &'static str, value: fn(&Facts) -> String) -> Row {
    Row { name, also: "", kind, default, rule: Rule::Host(value, BY_DURABILITY) }
}

impl Row {
    const fn also(mut self, name: &'static str) -> Row {
        self.also = name;
        self
    }

    const fn by(mut self, rule: Rule) -> Row {
        self.rule = rule;
        self
    }
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
    // Live.
    kept("maxclients", Int(1, u32::MAX as i64), "10000").by(Rule::Clients),
    kept("timeout", Int(0, I32), "0"),
    kept("tcp-keepalive", Int(0, I32), "300"),
    kept("proto-max-bulk-len", Bytes(MEGABYTE, LONG), "536870912"),
    kept("client-query-buffer-limit", Bytes(MEGABYTE, LONG), "1073741824"),
    kept(
        "client-output-buffer-limit",
        OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    // The server's.
    durable("appendonly", YesNo, "yes", append_only),
    durable("appendfsync", Choice(&["everysec", "always", "no"]), "always", append_fsync),
    durable("save", Save, "", |_| String::new()),
    host("port", Int(0, 65535), "0", |facts| facts.port.to_string()),
    host("dir", Text, "", |facts| facts.data.clone()),
    kept("maxmemory", Bytes(0, U64), "0")
        .by(Rule::FirstHost(|facts| facts.limit_bytes.unwrap_or(0).to_string())),
    fixed("databases", Int(1, I32), "1"),
    fixed("cluster-enabled", YesNo, "no"),
    fixed("requirepass", Text, ""),
    kept("notify-keyspace-events", Nothing(NO_EVENTS), ""),
    // Remembered: Keystead does otherwise, or has nothing to tune.
    kept("acl-pubsub-default", Choice(&["allchannels", "resetchannels"]), "resetchannels"),
    fixed("aclfile", Text, ""),
    kept("acllog-max-len", Int(0, I64), "128"),
    kept("active-defrag-cycle-max", Int(1, 99), "25"),
    kept("active-defrag-cycle-min", Int(1, 99), "1"),
    kept("active-defrag-ignore-bytes", Bytes(1, LONG), "104857600"),
    kept("active-defrag-max-scan-fields", Int(1, I64), "1000"),
    kept("active-defrag-threshold-lower", Int(0, 1000), "10"),
    kept("active-defrag-threshold-upper", Int(0, 1000), "100"),
    kept("active-expire-effort", Int(1, 10), "1"),
    kept("activedefrag", YesNo, "no"),
    kept("activerehashing", YesNo, "yes"),
    fixed("always-show-logo", YesNo, "no"),
    kept("aof-disable-auto-gc", YesNo, "no"),
    kept("aof-load-truncated", YesNo, "yes"),
    kept("aof-rewrite-incremental-fsync", YesNo, "yes"),
    kept("aof-timestamp-enabled", YesNo, "no"),
    kept("aof-use-rdb-preamble", YesNo, "yes"),
    fixed("aof_rewrite_cpulist", Text, ""),
    fixed("appenddirname", Text, "appendonlydir"),
    fixed("appendfilename", Text, "appendonly.aof"),
    kept("auto-aof-rewrite-min-size", Bytes(0, LONG), "67108864"),
    kept("auto-aof-rewrite-percentage", Int(0, I32), "100"),
    fixed("bgsave_cpulist", Text, ""),
    fixed("bind", Text, ""),
    fixed("bind-source-addr", Text, ""),
    fixed("bio_cpulist", Text, ""),
    kept("busy-reply-threshold", Int(0, I64), "5000").also("lua-time-limit"),
    kept("cluster-allow-pubsubshard-when-down", YesNo, "yes"),
    kept("cluster-allow-reads-when-down", YesNo, "no"),
    kept("cluster-allow-replica-migration", YesNo, "yes"),
    kept("cluster-announce-bus-port", Int(0, 65535), "0"),
    kept("cluster-announce-hostname", Text, ""),
    kept("cluster-announce-human-nodename", Text, ""),
    kept("cluster-announce-ip", Text, ""),
    kept("cluster-announce-port", Int(0, 65535), "0"),
    kept("cluster-announce-tls-port", Int(0, 65535), "0"),
    fixed("cluster-config-file", Text, "nodes.conf"),
    kept("cluster-link-sendbuf-limit", Bytes(0, LONG), "0"),
    kept("cluster-migration-barrier", Int(0, I32), "1"),
    kept("cluster-node-timeout", Int(0, I64), "15000"),
    fixed("cluster-port", Int(0, 65535), "0"),
    kept("cluster-preferred-endpoint-type", Choice(&["ip", "hostname", "unknown-endpoint"]), "ip"),
    kept("cluster-replica-no-failover", YesNo, "no").also("cluster-slave-no-failover"),
    kept("cluster-replica-validity-factor", Int(0, I32), "10").also("cluster-slave-validity-factor"),
    kept("cluster-require-full-coverage", YesNo, "yes"),
    kept("crash-log-enabled", YesNo, "yes"),
    kept("crash-memcheck-enabled", YesNo, "yes"),
    fixed("daemonize", YesNo, "no"),
    fixed("dbfilename", Text, "dump.rdb"),
    fixed("disable-thp", YesNo, "yes"),
    kept("dynamic-hz", YesNo, "yes"),
    fixed("enable-debug-command", Choice(&["no", "yes", "local"]), "no"),
    fixed("enable-module-command", Choice(&["no", "yes", "local"]), "no"),
    fixed("enable-protected-configs", Choice(&["no", "yes", "local"]), "no"),
    kept("hash-max-listpack-entries", Int(0, I64), "512").also("hash-max-ziplist-entries"),
    kept("hash-max-listpack-value", Bytes(0, LONG), "64").also("hash-max-ziplist-value"),
    kept("hide-user-data-from-log", YesNo, "no"),
    kept("hll-sparse-max-bytes", Bytes(0, LONG), "3000"),
    kept("hz", Int(0, I32), "10"),
    kept("ignore-warnings", Text, ""),
    fixed("io-threads", Int(1, 128), "1"),
    fixed("io-threads-do-reads", YesNo, "no"),
    kept("jemalloc-bg-thread", YesNo, "yes"),
    kept("latency-monitor-threshold", Int(0, I64), "0"),
    kept("latency-tracking", YesNo, "yes"),
    kept("latency-tracking-info-percentiles", Percentiles, "50 99 99.9"),
    kept("lazyfree-lazy-eviction", YesNo, "no"),
    kept("lazyfree-lazy-expire", YesNo, "no"),
    kept("lazyfree-lazy-server-del", YesNo, "no"),
    kept("lazyfree-lazy-user-del", YesNo, "no"),
    kept("lazyfree-lazy-user-flush", YesNo, "no"),
    kept("lfu-decay-time", Int(0, I32), "1"),
    kept("lfu-log-factor", Int(0, I32), "10"),
    kept("list-compress-depth", Int(0, I32), "0"),
    kept("list-max-listpack-size", Int(i32::MIN as i64, I32), "-2").also("list-max-ziplist-size"),
    kept("locale-collate", Text, ""),
    fixed("logfile", Text, ""),
    kept("loglevel", Choice(&["debug", "verbose", "notice", "warning", "nothing"]), "notice"),
    kept("masterauth", Text, ""),
    kept("masteruser", Text, ""),
    kept("max-new-connections-per-cycle", Int(1, 1000), "10"),
    kept("max-new-tls-connections-per-cycle", Int(1, 1000), "1"),
    kept("maxmemory-clients", BytesOrShare, "0"),
    kept("maxmemory-eviction-tenacity", Int(0, 100), "10"),
    kept("maxmemory-policy", Choice(POLICIES), "noeviction"),
    kept("maxmemory-samples", Int(1, 64), "5"),
    kept("min-replicas-max-lag", Int(0, I32), "10").also("min-slaves-max-lag"),
    kept("min-replicas-to-write", Int(0, I32), "0").also("min-slaves-to-write"),
    kept("no-appendfsync-on-rewrite", YesNo, "no"),
    kept("oom-score-adj", Choice(&["no", "yes", "relative", "absolute"]), "no"),
    kept("oom-score-adj-values", OomScores, "0 200 800"),
    fixed("pidfile", Text, ""),
    kept("proc-title-template", Text, "{title} {listen-addr} {server-mode}"),
    kept("propagation-error-behavior", Choice(&["ignore", "panic", "panic-on-replicas"]), "ignore"),
    kept("protected-mode", YesNo, "yes"),
    kept("rdb-del-sync-files", YesNo, "no"),
    kept("rdb-save-incremental-fsync", YesNo, "yes"),
    fixed("rdbchecksum", YesNo, "yes"),
    kept("rdbcompression", YesNo, "yes"),
    kept("repl-backlog-size", Bytes(1, LONG), "1048576"),
    kept("repl-backlog-ttl", Int(0, I64), "3600"),
    kept("repl-disable-tcp-nodelay", YesNo, "no"),
    kept("repl-diskless-load", Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled"),
    kept("repl-diskless-sync", YesNo, "yes"),
    kept("repl-diskless-sync-delay", Int(0, I32), "5"),
    kept("repl-diskless-sync-max-replicas", Int(0, I32), "0"),
    kept("repl-ping-replica-period", Int(1, I32), "10").also("repl-ping-slave-period"),
    kept("repl-timeout", Int(1, I32), "60"),
    kept("replica-announce-ip", Text, "").also("slave-announce-ip"),
    kept("replica-announce-port", Int(0, 65535), "0").also("slave-announce-port"),
    kept("replica-announced", YesNo, "yes"),
    kept("replica-ignore-disk-write-errors", YesNo, "no"),
    kept("replica-ignore-maxmemory", YesNo, "yes").also("slave-ignore-maxmemory"),
    kept("replica-lazy-flush", YesNo, "no").also("slave-lazy-flush"),
    kept("replica-priority", Int(0, I32), "100").also("slave-priority"),
    kept("replica-read-only", YesNo, "yes").also("slave-read-only"),
    kept("replica-serve-stale-data", YesNo, "yes").also("slave-serve-stale-data"),
    fixed("replicaof", Text, "").also("slaveof"),
    kept("sanitize-dump-payload", Choice(&["no", "yes", "clients"]), "no"),
    fixed("server_cpulist", Text, ""),
    kept("set-max-intset-entries", Int(0, I64), "512"),
    kept("set-max-listpack-entries", Int(0, I64), "128"),
    kept("set-max-listpack-value", Bytes(0, LONG), "64"),
    fixed("set-proc-title", YesNo, "yes"),
    kept("shutdown-on-sigint", Choices(SIGNALS), "default"),
    kept("shutdown-on-sigterm", Choices(SIGNALS), "default"),
    kept("shutdown-timeout", Int(0, I32), "10"),
    kept("slowlog-log-slower-than", Int(-1, I64), "10000"),
    kept("slowlog-max-len", Int(0, I64), "128"),
    fixed("socket-mark-id", Int(0, u32::MAX as i64), "0"),
    kept("stop-writes-on-bgsave-error", YesNo, "yes"),
    kept("stream-node-max-bytes", Bytes(0, LONG), "4096"),
    kept("stream-node-max-entries", Int(0, I64), "100"),
    fixed("supervised", Choice(&["upstart", "systemd", "auto", "no"]), "no"),
    fixed("syslog-enabled", YesNo, "no"),
    fixed("syslog-facility", Choice(FACILITIES), "local0"),
    fixed("syslog-ident", Text, "redis"),
    fixed("tcp-backlog", Int(0, I32), "511"),
    fixed("tls-auth-clients", Choice(&["no", "yes", "optional"]), "yes"),
    fixed("tls-ca-cert-dir", Text, ""),
    fixed("tls-ca-cert-file", Text, ""),
    fixed("tls-cert-file", Text, ""),
    fixed("tls-ciphers", Text, ""),
    fixed("tls-ciphersuites", Text, ""),
    fixed("tls-client-cert-file", Text, ""),
    fixed("tls-client-key-file", Text, ""),
    fixed("tls-cluster", YesNo, "no"),
    fixed("tls-dh-params-file", Text, ""),
    fixed("tls-key-file", Text, ""),
    fixed("tls-port", Int(0, 65535), "0"),
    fixed("tls-prefer-server-ciphers", YesNo, "no"),
    fixed("tls-protocols", Text, ""),
    fixed("tls-replication", YesNo, "no"),
    fixed("tls-session-cache-size", Int(0, I32), "20480"),
    fixed("tls-session-cache-timeout", Int(0, I32), "300"),
    fixed("tls-session-caching", YesNo, "yes"),
    kept("tracking-table-max-keys", Int(0, I64), "1000000"),
    fixed("unixsocket", Text, ""),
    fixed("unixsocketperm", Int(0, 0o777), "0"),
    kept("zset-max-listpack-entries", Int(0, I64), "128").also("zset-max-ziplist-entries"),
    kept("zset-max-listpack-value", Bytes(0, LONG), "64").also("zset-max-ziplist-value"),
];
