//! The sections of INFO: fields that tools read, with Redis's names. It touches nothing.
//!
//! A field is included if it is true of Keystead, including zeros; unknown values are left out.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use keystead_core::Millis;

use crate::conn::Conn;
use crate::families::connection::REDIS_VERSION;
use crate::hub::{Facts, Hub, Kind, Rates, Subscribed};

/// A section.
pub(super) struct Section {
    /// Its name as an argument.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Whether INFO without arguments includes it.
    pub(super) default: bool,
    pub(super) write: fn(&Snapshot<'_>, &mut String),
}

/// The data of the sections.
pub(super) struct Snapshot<'a> {
    hub: &'a Hub,
    facts: Facts,
    rates: Rates,
    now: Millis,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(conn: &Conn<'a>) -> Self {
        let rates = conn.hub.stats.rates(conn.now, &conn.hub.clients);
        Snapshot { hub: conn.hub, facts: conn.hub.host.facts(), rates, now: conn.now }
    }

    fn setting(&self, name: &str) -> String {
        self.hub.config.value(name, &self.facts).unwrap_or_default()
    }

    fn is_persisted(&self) -> bool {
        self.facts.durability != "memory"
    }
}

const fn section(
    name: &'static str,
    title: &'static str,
    default: bool,
    write: fn(&Snapshot<'_>, &mut String),
) -> Section {
    Section { name, title, default, write }
}

pub(super) const SECTIONS: &[Section] = &[
    section("server", "Server", true, server),
    section("clients", "Clients", true, clients),
    section("memory", "Memory", true, memory),
    section("persistence", "Persistence", true, persistence),
    section("stats", "Stats", true, stats),
    section("replication", "Replication", true, replication),
    section("cpu", "CPU", true, cpu),
    section("modules", "Modules", true, |_, _| {}),
    section("commandstats", "Commandstats", false, |_, _| {}),
    section("errorstats", "Errorstats", true, errorstats),
    section("latencystats", "Latencystats", false, |_, _| {}),
    section("cluster", "Cluster", true, cluster),
    section("keyspace", "Keyspace", true, keyspace),
];

fn cluster(snapshot: &Snapshot<'_>, out: &mut String) {
    fields(out, &[("cluster_enabled", &u8::from(snapshot.hub.cluster.get().is_some()))]);
}

/// One line per field.
fn fields(out: &mut String, fields: &[(&str, &dyn std::fmt::Display)]) {
    for (name, value) in fields {
        let _ = write!(out, "{name}:{value}\r\n");
    }
}

fn server(snapshot: &Snapshot<'_>, out: &mut String) {
    let facts = &snapshot.facts;
    let run_id = if facts.run_id.is_empty() { "0".repeat(40) } else { facts.run_id.clone() };
    fields(
        out,
        &[
            ("redis_version", &REDIS_VERSION),
            ("keystead_version", &facts.version),
            ("redis_git_sha1", &"00000000"),
            ("redis_git_dirty", &0),
            ("redis_mode", &snapshot.hub.mode()),
            ("os", &format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
            ("arch_bits", &usize::BITS),
            ("process_id", &facts.process_id),
            ("run_id", &run_id),
            ("tcp_port", &facts.port),
            ("server_time_usec", &(snapshot.now.0.saturating_mul(1000))),
            ("uptime_in_seconds", &(facts.uptime_ms / 1000)),
            ("uptime_in_days", &(facts.uptime_ms / 86_400_000)),
            ("hz", &snapshot.setting("hz")),
            ("configured_hz", &snapshot.setting("hz")),
            ("lru_clock", &((snapshot.now.0 / 1000) & 0x00ff_ffff)),
            ("executable", &"keystead"),
            ("config_file", &""),
            ("keystead_shards", &facts.shards),
            ("keystead_durability", &facts.durability),
            ("keystead_data", &facts.data),
        ],
    );
}

fn clients(snapshot: &Snapshot<'_>, out: &mut String) {
    let clients = snapshot.hub.clients.all();
    let (mut blocked, mut pubsub, mut watching, mut watched) = (0, 0, 0, 0);
    for client in &clients {
        let shown = client.shown();
        blocked += usize::from(shown.blocked);
        pubsub += usize::from(shown.kind == Kind::Pubsub);
        watching += usize::from(shown.counts[3] > 0);
        watched += shown.counts[3];
    }
    fields(
        out,
        &[
            ("connected_clients", &clients.len()),
            ("cluster_connections", &0),
            ("maxclients", &snapshot.hub.config.clients_max()),
            ("blocked_clients", &blocked),
            ("tracking_clients", &0),
            ("pubsub_clients", &pubsub),
            ("watching_clients", &watching),
            ("clients_in_timeout_table", &0),
            ("total_watched_keys", &watched),
        ],
    );
}

fn memory(snapshot: &Snapshot<'_>, out: &mut String) {
    let facts = &snapshot.facts;
    let (used, resident) = (facts.used_bytes, facts.resident_bytes);
    let peak = snapshot.hub.stats.peak_bytes(used);
    let limit: u64 = snapshot.setting("maxmemory").parse().unwrap_or(0);
    let ratio = if used == 0 { 0.0 } else { resident as f64 / used as f64 };
    let [scripts, script_bytes, libraries, functions] = snapshot.hub.script_counts();
    let of_peak = if peak == 0 { 100.0 } else { used as f64 * 100.0 / peak as f64 };
    fields(
        out,
        &[
            ("used_memory", &used),
            ("used_memory_human", &human(used)),
            ("used_memory_rss", &resident),
            ("used_memory_rss_human", &human(resident)),
            ("used_memory_peak", &peak),
            ("used_memory_peak_human", &human(peak)),
            ("used_memory_peak_perc", &format!("{of_peak:.2}%")),
            ("used_memory_overhead", &0),
            ("used_memory_startup", &0),
            ("used_memory_dataset", &used),
            ("used_memory_dataset_perc", &"100.00%"),
            ("used_memory_lua", &0),
            ("used_memory_lua_human", &human(0)),
            ("used_memory_scripts", &script_bytes),
            ("used_memory_scripts_human", &human(script_bytes as u64)),
            ("number_of_cached_scripts", &scripts),
            ("number_of_functions", &functions),
            ("number_of_libraries", &libraries),
            ("maxmemory", &limit),
            ("maxmemory_human", &human(limit)),
            ("maxmemory_policy", &snapshot.setting("maxmemory-policy")),
            ("mem_fragmentation_ratio", &format!("{ratio:.2}")),
            ("mem_fragmentation_bytes", &(i128::from(resident) - i128::from(used))),
            ("mem_not_counted_for_evict", &0),
            ("mem_replication_backlog", &0),
            ("mem_clients_slaves", &0),
            ("mem_clients_normal", &0),
            ("mem_aof_buffer", &0),
            ("mem_allocator", &"system"),
            ("active_defrag_running", &0),
            ("lazyfree_pending_objects", &0),
            ("lazyfreed_objects", &0),
        ],
    );
}

fn persistence(snapshot: &Snapshot<'_>, out: &mut String) {
    let facts = &snapshot.facts;
    let status = if facts.unwell.is_some() { "err" } else { "ok" };
    let saved_ms =
        if snapshot.is_persisted() { snapshot.now.0 } else { snapshot.now.0.saturating_sub(facts.uptime_ms) };
    fields(
        out,
        &[
            ("loading", &u8::from(facts.loading.is_some())),
            ("async_loading", &0),
            ("rdb_changes_since_last_save", &0),
            ("rdb_bgsave_in_progress", &0),
            ("rdb_last_save_time", &(saved_ms / 1000)),
            ("rdb_last_bgsave_status", &status),
            ("rdb_last_bgsave_time_sec", &-1),
            ("rdb_current_bgsave_time_sec", &-1),
            ("rdb_saves", &0),
            ("rdb_last_cow_size", &0),
            ("aof_enabled", &u8::from(snapshot.is_persisted())),
            ("aof_rewrite_in_progress", &0),
            ("aof_rewrite_scheduled", &0),
            ("aof_last_rewrite_time_sec", &-1),
            ("aof_current_rewrite_time_sec", &-1),
            ("aof_last_bgrewrite_status", &status),
            ("aof_last_write_status", &status),
            ("aof_last_cow_size", &0),
        ],
    );
    if snapshot.is_persisted() {
        fields(
            out,
            &[("aof_current_size", &facts.journal_bytes), ("aof_base_size", &0), ("aof_delayed_fsync", &0)],
        );
    }
    if let Some(loading) = &facts.loading {
        let started_ms = snapshot.now.0.saturating_sub(loading.elapsed_ms);
        fields(
            out,
            &[
                ("loading_start_time", &(started_ms / 1000)),
                ("loading_stage", &loading.stage),
                ("loading_loaded_perc", &format!("{:.2}", loading.percent)),
                ("loading_loaded_keys", &loading.keys[0]),
                ("loading_total_keys", &loading.keys[1]),
                ("loading_loaded_bytes", &loading.journal_bytes[0]),
                ("loading_total_bytes", &loading.journal_bytes[1]),
            ],
        );
    }
    fields(out, &[("module_fork_in_progress", &0), ("module_fork_last_cow_size", &0)]);
}

fn stats(snapshot: &Snapshot<'_>, out: &mut String) {
    let (clients, bus, rates) = (&snapshot.hub.clients, &snapshot.hub.bus, &snapshot.rates);
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let errors: u64 = snapshot.hub.stats.errors().iter().map(|(_, count)| count).sum();
    fields(
        out,
        &[
            ("total_connections_received", &count(&clients.accepted)),
            ("total_commands_processed", &count(&clients.commands)),
            ("instantaneous_ops_per_sec", &(rates.commands.round() as u64)),
            ("total_net_input_bytes", &count(&clients.bytes_in)),
            ("total_net_output_bytes", &count(&clients.bytes_out)),
            ("instantaneous_input_kbps", &format!("{:.2}", rates.bytes_in / 1024.0)),
            ("instantaneous_output_kbps", &format!("{:.2}", rates.bytes_out / 1024.0)),
            ("rejected_connections", &count(&clients.rejected)),
            ("sync_full", &0),
            ("sync_partial_ok", &0),
            ("sync_partial_err", &0),
            ("expired_keys", &snapshot.facts.expired_keys),
            ("expired_stale_perc", &"0.00"),
            ("expired_time_cap_reached_count", &0),
            ("evicted_keys", &0),
            ("evicted_clients", &0),
            ("pubsub_channels", &bus.count(Subscribed::Channel)),
            ("pubsub_patterns", &bus.count(Subscribed::Pattern)),
            ("pubsubshard_channels", &bus.count(Subscribed::Shard)),
            ("latest_fork_usec", &0),
            ("total_forks", &0),
            ("migrate_cached_sockets", &0),
            ("slave_expires_tracked_keys", &0),
            ("tracking_total_keys", &0),
            ("tracking_total_items", &0),
            ("tracking_total_prefixes", &0),
            ("total_error_replies", &errors),
            ("acl_access_denied_auth", &count(&clients.auth_failures)),
        ],
    );
}

fn replication(_: &Snapshot<'_>, out: &mut String) {
    let none = "0".repeat(40);
    fields(
        out,
        &[
            ("role", &"master"),
            ("connected_slaves", &0),
            ("master_failover_state", &"no-failover"),
            ("master_replid", &none),
            ("master_replid2", &none),
            ("master_repl_offset", &0),
            ("second_repl_offset", &-1),
            ("repl_backlog_active", &0),
            ("repl_backlog_size", &0),
            ("repl_backlog_first_byte_offset", &0),
            ("repl_backlog_histlen", &0),
        ],
    );
}

fn cpu(snapshot: &Snapshot<'_>, out: &mut String) {
    let [user_us, system_us] = snapshot.facts.cpu_us;
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    fields(
        out,
        &[
            ("used_cpu_sys", &seconds(system_us)),
            ("used_cpu_user", &seconds(user_us)),
            ("used_cpu_sys_children", &seconds(0)),
            ("used_cpu_user_children", &seconds(0)),
        ],
    );
}

fn errorstats(snapshot: &Snapshot<'_>, out: &mut String) {
    for (code, count) in snapshot.hub.stats.errors() {
        let _ = write!(out, "errorstat_{}:count={count}\r\n", code.replace([':', '\r', '\n'], "_"));
    }
}

fn keyspace(snapshot: &Snapshot<'_>, out: &mut String) {
    let (keys, expire) = (snapshot.facts.keys, snapshot.facts.keys_that_expire);
    if keys > 0 {
        let _ = write!(out, "db0:keys={keys},expires={expire},avg_ttl=0\r\n");
    }
}

/// A human-readable number of bytes, as Redis formats it.
fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64;
    let mut unit = ' ';
    for next in ['K', 'M', 'G', 'T', 'P'] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.2}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_human_readable() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (965_816, "943.18K"), (25_274_793_984, "23.54G")]
        {
            assert_eq!(human(bytes), text);
        }
    }
}
