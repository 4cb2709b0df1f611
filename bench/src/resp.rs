//! The RESP listener compared with a real redis-server, with redis-benchmark: six commands, 50 clients, pipelines of 1 and 16.
//!
//! Both servers get the same requests one right after the other, `ROUNDS` times alternately, and the best round of each is reported,
//! so that other load on the machine does not decide. `KEYSTEAD_ROWS="fsync 16 set"` selects rows.

use std::process::{Command, Stdio};

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::report::is_wanted;

const CLIENTS: u32 = 50;
const KEYS: &str = "100000";
pub(crate) const ROUNDS: usize = 3;

/// What redis-benchmark measured.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figure {
    pub(crate) per_second: f64,
    pub(crate) p99_ms: f64,
}

/// A level, Redis's matching options, and how many requests there are without and with pipelines.
pub(crate) type Level = (&'static str, &'static [&'static str], [u32; 2]);

pub(crate) const LEVELS: [Level; 3] = [
    ("fsync", &["--appendonly", "yes", "--appendfsync", "always"], [50_000, 200_000]),
    ("commit", &["--appendonly", "yes", "--appendfsync", "everysec"], [100_000, 600_000]),
    ("memory", &["--appendonly", "no"], [100_000, 600_000]),
];

const COMMANDS: [(&str, &[&str]); 6] = [
    ("set", &["SET", "key:__rand_int__", "xxx"]),
    ("get", &["GET", "key:__rand_int__"]),
    ("incr", &["INCR", "counter:__rand_int__"]),
    ("lpush", &["LPUSH", "list:__rand_int__", "xxx"]),
    ("hset", &["HSET", "hash:__rand_int__", "field:__rand_int__", "xxx"]),
    ("zadd", &["ZADD", "zset:__rand_int__", "__rand_int__", "element:__rand_int__"]),
];

pub(crate) fn run() {
    println!(
        "{:<8} {:>4} {:<6} {:>12} {:>12} {:>6} {:>9} {:>9}",
        "level", "pipe", "", "keystead/s", "redis/s", "ratio", "p99 ms", "redis p99"
    );
    for (level, options, requests) in LEVELS {
        let Some(redis) = Redis::start_with(options) else {
            println!("redis-server is not installed");
            return;
        };
        let keystead = Keystead::start(level);
        for (pipeline, requests) in [1, 16].into_iter().zip(requests) {
            for (name, command) in COMMANDS {
                if !is_wanted(&format!("{level} {pipeline} {name}")) {
                    continue;
                }
                let (mut ours, mut theirs) = (Figure::default(), Figure::default());
                for _ in 0..ROUNDS {
                    ours = ours.better(measure(keystead.port, pipeline, requests, command));
                    theirs = theirs.better(measure(redis.port, pipeline, requests, command));
                }
                println!(
                    "{level:<8} {pipeline:>4} {name:<6} {:>12.0} {:>12.0} {:>5.2}x {:>9.2} {:>9.2}",
                    ours.per_second,
                    theirs.per_second,
                    ours.per_second / theirs.per_second,
                    ours.p99_ms,
                    theirs.p99_ms
                );
            }
        }
    }
}

impl Figure {
    pub(crate) fn better(self, other: Figure) -> Figure {
        if other.per_second > self.per_second { other } else { self }
    }
}

pub(crate) fn measure(port: u16, pipeline: u32, requests: u32, command: &[&str]) -> Figure {
    measure_with(port, CLIENTS, pipeline, requests, command)
}

/// The same with so many connections.
pub(crate) fn measure_with(
    port: u16,
    connections: u32,
    pipeline: u32,
    requests: u32,
    command: &[&str],
) -> Figure {
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", &connections.to_string()])
        .args(["-r", KEYS, "--csv"])
        .args(["-P", &pipeline.to_string(), "-n", &requests.to_string()])
        .args(command)
        .stderr(Stdio::null())
        .output()
        .expect("redis-benchmark is installed with redis-server");
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().last().unwrap_or_default();
    // The name of the test is the command, whose arguments are not separated by commas.
    let cells: Vec<f64> = row.split(',').filter_map(|cell| cell.trim_matches('"').parse().ok()).collect();
    assert!(cells.len() >= 7, "redis-benchmark printed: {text}");
    let cells = &cells[cells.len() - 7..];
    Figure { per_second: cells[0], p99_ms: cells[5] }
}
