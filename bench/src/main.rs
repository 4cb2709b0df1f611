//! Benchmarks against peers, each in one run: `cargo run --release -p keystead-bench -- NAME`.
//!
//! Every figure is printed with the peer's from the same run and the ratio. A new bench is one file and one row.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod cluster;
mod cluster_load;
mod cluster_move;
mod codec;
mod cpu;
mod engine;
mod flat;
mod keystead;
mod kv;
mod latency;
mod limit;
mod limit_net;
mod lua;
mod marathon;
mod memory;
mod plot;
mod raw_sqlite;
mod redis;
mod report;
mod resp;
mod rest;
mod router;
mod sinks;
mod start;
mod step;
mod stores;
mod throttlecrab;

/// A name, what it measures, the programs that it requires, and its function. A missing peer is only a gap in the table.
type Bench = (&'static str, &'static str, &'static [&'static str], fn());

const BENCHES: &[Bench] = &[
    ("step", "ns per apply of a GCRA-like step on MemoryStore, compared with governor", &[], step::run),
    (
        "limit",
        "ns per check of a rate limit on one key and on a million, compared with governor",
        &[],
        limit::run,
    ),
    ("flat", "ns per apply, expiry and eviction from 1 thousand to 10 million keys", &[], flat::run),
    (
        "engine",
        "get, set, hash field set, list push at each durability level, compared with raw SQLite",
        &[],
        engine::run,
    ),
    (
        "engine-keys",
        "set of 100 thousand, 1 and 10 million random keys, compared with raw SQLite",
        &[],
        engine::run_many_keys,
    ),
    ("engine-start", "how long an engine with a million keys takes to start", &[], engine::run_start),
    (
        "engine-archive",
        "how fast the archive writes a backlog of random changes of 1 and 10 million keys, and how many bytes",
        &[],
        engine::run_archive,
    ),
    ("codec", "ns per request to read one, compared with the crate redis-protocol", &[], codec::run),
    (
        "cluster",
        "virtual nodes against uniformity, keys moved and ns per lookup, compared with slot % nodes",
        &[],
        cluster::run,
    ),
    (
        "cluster-move",
        "a quarter of the slots moves while clients write, compared with Valkey's atomic slot migration and Redis's resharding",
        &["redis-server", "redis-cli"],
        cluster_move::run,
    ),
    (
        "cluster-load",
        "nodes join and leave under a fixed rate of writes, through the nodes and through a router",
        &[],
        cluster_load::run,
    ),
    (
        "resp",
        "redis-benchmark at each durability level, compared with Redis at its matching setting",
        &["redis-benchmark"],
        resp::run,
    ),
    (
        "cpu",
        "processor time of a SET and a GET by shards, connections and pipeline, compared with Redis and Valkey",
        &["redis-benchmark"],
        cpu::run,
    ),
    (
        "router",
        "keystead router over RESP and HTTP, compared with twemproxy, a node alone and a Redis Cluster",
        &["redis-benchmark", "wrk"],
        router::run,
    ),
    (
        "rest",
        "GET, SET and pipelines over HTTP with wrk, compared with webdis in front of Redis",
        &["wrk"],
        rest::run,
    ),
    (
        "kv",
        "read, write and compare-and-set of documents over HTTP with wrk, compared with etcd",
        &["wrk"],
        kv::run,
    ),
    (
        "lua",
        "a rate limiter as a script by EVALSHA, compared with Redis",
        &["redis-benchmark", "redis-cli"],
        lua::run,
    ),
    (
        "limit-net",
        "rate limits over RESP and HTTP, compared with throttlecrab and a script on Redis",
        &["redis-benchmark", "wrk"],
        limit_net::run,
    ),
    (
        "stores",
        "rate limits on every store, compared with the same check by hand and with rate-limiter-flexible",
        &[],
        stores::run,
    ),
    (
        "sinks",
        "writes with a PostgreSQL of 250 ms a batch behind, compared with writing to it directly and with no sink",
        &["wrk"],
        sinks::run,
    ),
    (
        "start",
        "how long a server takes to stop, and to start clean and after a kill, compared with Redis's RDB and AOF",
        &["redis-server"],
        start::run,
    ),
    (
        "marathon",
        "ten minutes of writes at full speed over 10 million keys, compared with Redis and its append-only file",
        &["redis-server"],
        marathon::run,
    ),
    (
        "memory",
        "bytes of memory a key for a million small strings and hashes, compared with Redis",
        &[],
        memory::run,
    ),
];

/// That of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_known = |wanted: &String| BENCHES.iter().any(|(name, ..)| name == wanted);
    if wanted.is_empty() || !wanted.iter().all(is_known) {
        println!("usage: cargo run --release -p keystead-bench -- NAME...\n");
        for (name, what, ..) in BENCHES {
            println!("  {name:14} {what}");
        }
        std::process::exit(2);
    }
    let chosen = || BENCHES.iter().filter(|(name, ..)| wanted.iter().any(|wanted| wanted == name));
    // Before the first of them: a run of minutes must not fail in the middle.
    for (name, _, programs, _) in chosen() {
        if let Some(missing) = programs.iter().find(|program| !is_installed(program)) {
            println!("{name} needs {missing}: apt-get install {}", package_of(missing));
            std::process::exit(2);
        }
    }
    for (name, what, _, run) in chosen() {
        println!("## {name}: {what}");
        run();
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn package_of(program: &str) -> &str {
    if program.starts_with("redis-") { "redis-tools" } else { program }
}
