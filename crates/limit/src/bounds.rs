//! Every bound of this crate. The comment of each constant says what happens beyond it.

use keystead_core::bounds::DURATION_MS_MAX;

/// Largest whole number that a double, JSON and the JSON readers of all languages represent exactly. A larger limit, burst,
/// capacity or cost is rejected; a larger time in a decision is reported as this.
pub const WHOLE_MAX: u64 = (1 << 53) - 1;

/// Longest period, window, queue or lease in milliseconds. A longer one is rejected with `config_invalid`.
pub const SPAN_MS_MAX: u64 = DURATION_MS_MAX;

/// Longest time in milliseconds that a policy may take to replenish, where that follows from its other fields. A policy
/// that would take longer is rejected with `config_invalid`.
pub const REPLENISH_MS_MAX: f64 = 1e15;

/// Shortest time between two units, or width of a bucket, in milliseconds: about a million units a second. A smaller one
/// would be lost in rounding when it is added to the current time, and is rejected with `config_invalid`.
pub const STEP_MS_MIN: f64 = 1.0 / 1024.0;

/// Fastest rate in units a second. A faster one is rejected with `config_invalid`.
pub const RATE_PER_SEC_MAX: f64 = 1000.0 / STEP_MS_MIN;

/// Most buckets of a sliding window. More are rejected with `config_invalid`.
pub const BUCKETS_MAX: u64 = 100_000;

/// Most entries that a log may hold: the smaller of its limit and its window in milliseconds. A log that could hold more is
/// rejected with `config_invalid`, because its text would not fit into a store.
pub const LOG_ENTRIES_MAX: u64 = 30_000;

/// Most buckets, entries or leases of a limit that is checked by a script. A larger state is read, changed here and written back,
/// because a server runs nothing else during a script.
pub const SCRIPT_ENTRIES_MAX: u64 = 1000;

/// Most leases of a concurrency limit. A larger limit is rejected with `config_invalid`.
pub const LEASES_MAX: u64 = 20_000;

/// Largest offset of a calendar from UTC, in either direction, in minutes. A larger one is rejected with `config_invalid`.
pub const OFFSET_MINUTES_MAX: i64 = 840;

/// Most keys of one `check_many`. More are rejected with `too_large`.
pub const CHECK_MANY_MAX: usize = 10_000;

/// Most limits in one combination. More are rejected with `config_invalid`.
pub const COMBINED_MAX: usize = 64;

/// Longest policy name in bytes. A longer one is rejected with `config_invalid`.
pub const NAME_BYTES_MAX: usize = 64;

/// Longest policy text in bytes. A longer one is rejected with `config_invalid`.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;

/// Shortest secret for hidden keys, in bytes. A shorter one is rejected with `config_invalid`.
pub const SECRET_BYTES_MIN: usize = 16;

/// Addresses of `X-Forwarded-For` that are read, from the right. The ones before them are ignored.
pub const FORWARDED_MAX: usize = 32;

/// Most keys that a local tier keeps by default. Beyond it a key that was not used recently is evicted, which costs a request to
/// the shared store and never admits more.
pub const LOCAL_KEYS: usize = 100_000;

/// Longest time that a local tier caches a denial by default, in milliseconds. Then it checks the shared store again, because
/// another node may have reset the key.
pub const DENIAL_MS: u64 = 60_000;
