//! The same check by hand, one file for each client library: a GCRA with one number a key, in one round trip.

pub(super) mod denokv;
pub(super) mod http;
pub(super) mod nats;
pub(super) mod postgres;
pub(super) mod redis;
pub(super) mod sqlite;

use keystead_core::{Clock, Code, Error, SystemClock};

/// Milliseconds between two units, and how far the burst reaches: a limit that is never reached.
const INTERVAL_MS: f64 = 3.0;
const BURST_MS: f64 = 3e12;

/// GCRA in Lua: the key's arrival time, now, interval and burst in; allowed, remaining, reset and retry out.
const SCRIPT: &str = "\
local now, interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]) \
local tat = tonumber(redis.call('GET', KEYS[1]) or now) \
if tat < now then tat = now end \
local new = tat + interval \
if new - burst > now then return {0, 0, math.ceil(tat), math.ceil(new - burst - now)} end \
redis.call('SET', KEYS[1], string.format('%.17g', new), 'PX', math.ceil(new - now)) \
return {1, math.floor((burst - (new - now)) / interval), math.ceil(new), 0}";

fn now_ms() -> u64 {
    SystemClock.now().0
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::StoreUnavailable, "by hand").with_source(error)
}

fn denied() -> Error {
    Error::new(Code::Internal, "by hand: a check was denied")
}

/// The arrival time after an allowed check.
fn decide(tat: f64, now: f64) -> f64 {
    let new = tat.max(now) + INTERVAL_MS;
    assert!(new - BURST_MS <= now, "the limit is never reached");
    new
}
