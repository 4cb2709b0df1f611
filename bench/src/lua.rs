//! A rate limiter as a script (GCRA by EVALSHA) compared with a real redis-server, with redis-benchmark: 50 clients, random keys,
//! durability memory, pipelines of 1 and 16.

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::resp::{Figure, ROUNDS, measure};

/// Allows `burst` requests at once and `rate` in `period` seconds; keeps the theoretical arrival time in microseconds.
const SCRIPT: &str = r"
local burst, rate, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local interval = period * 1000000 / rate
local increment = interval * cost
local offset = interval * burst
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then
  tat = now
end
local new_tat = tat + increment
local allow_at = new_tat - offset
local remaining = (now - allow_at) / interval
if remaining < 0 then
  return { 0, 0, math.ceil(allow_at - now), math.ceil(tat - now) }
end
local reset = new_tat - now
redis.call('SET', KEYS[1], string.format('%.0f', new_tat), 'PX', math.ceil(reset / 1000))
return { 1, math.floor(remaining), 0, math.ceil(reset) }
";

pub(crate) fn run() {
    let Some(redis) = Redis::start() else {
        println!("redis-server is not installed");
        return;
    };
    let keystead = Keystead::start("memory");
    println!(
        "{:>4} {:>12} {:>12} {:>6} {:>9} {:>9}",
        "pipe", "keystead/s", "redis/s", "ratio", "p99 ms", "redis p99"
    );
    let digits = load(redis.port);
    load(keystead.port);
    let command = ["EVALSHA", &digits, "1", "limit:__rand_int__", "10", "100", "60", "1"];
    for (pipeline, requests) in [(1, 100_000), (16, 300_000)] {
        let (mut ours, mut theirs) = (Figure::default(), Figure::default());
        for _ in 0..ROUNDS {
            ours = ours.better(measure(keystead.port, pipeline, requests, &command));
            theirs = theirs.better(measure(redis.port, pipeline, requests, &command));
        }
        println!(
            "{pipeline:>4} {:>12.0} {:>12.0} {:>5.2}x {:>9.2} {:>9.2}",
            ours.per_second,
            theirs.per_second,
            ours.per_second / theirs.per_second,
            ours.p99_ms,
            theirs.p99_ms
        );
    }
}

/// Loads the script and returns its SHA1.
pub(crate) fn load(port: u16) -> String {
    let output = std::process::Command::new("redis-cli")
        .args(["-p", &port.to_string(), "SCRIPT", "LOAD", SCRIPT])
        .output()
        .expect("redis-cli is there when redis-server is");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
