//! Every limit of this crate, named once. A limit that is reached has an answer; the constant's comment says which.

use keystead_core::bounds::DURATION_MS_MAX;

/// Largest whole number that a double, JSON and every language's reader keep exactly. A larger limit, burst, capacity or
/// cost is refused; a time in a decision that would be larger is told as this.
pub const WHOLE_MAX: u64 = (1 << 53) - 1;

/// Longest period, window, queue or lease in milliseconds. A longer one is refused with `config_invalid`.
pub const SPAN_MS_MAX: u64 = DURATION_MS_MAX;

/// Longest time in milliseconds that a policy may take to replenish, where that follows from its other fields. A policy
/// that would take longer is refused with `config_invalid`.
pub const REPLENISH_MS_MAX: f64 = 1e15;

/// Shortest time between two units, or width of a bucket, in milliseconds: about a million units a second. Below it
/// adding to the present time would lose the units in rounding, so such a policy is refused with `config_invalid`.
pub const STEP_MS_MIN: f64 = 1.0 / 1024.0;

/// Fastest rate in units a second. A faster one is refused with `config_invalid`.
pub const RATE_PER_SEC_MAX: f64 = 1000.0 / STEP_MS_MIN;

/// Most buckets of a sliding window. More are refused with `config_invalid`.
pub const BUCKETS_MAX: u64 = 100_000;

/// Most entries that a log can come to hold: the smaller of its limit and its window's milliseconds. A log that could
/// hold more is refused with `config_invalid`; its text would not fit into a store.
pub const LOG_ENTRIES_MAX: u64 = 30_000;

/// Most leases of a concurrency limit. A larger limit is refused with `config_invalid`.
pub const LEASES_MAX: u64 = 20_000;

/// Widest offset of a calendar from UTC, either way, in minutes. A wider one is refused with `config_invalid`.
pub const OFFSET_MINUTES_MAX: i64 = 840;

/// Most keys of one `check_many`. More are refused with `too_large`.
pub const CHECK_MANY_MAX: usize = 10_000;

/// Most limits in one combination. More are refused with `config_invalid`.
pub const COMBINED_MAX: usize = 64;

/// Longest policy name in bytes. A longer one is refused with `config_invalid`.
pub const NAME_BYTES_MAX: usize = 64;

/// Longest policy text in bytes. A longer one is refused with `config_invalid`.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;

/// Shortest secret for hidden keys, in bytes. A shorter one is refused with `config_invalid`.
pub const SECRET_BYTES_MIN: usize = 16;

/// Addresses of `X-Forwarded-For` that are looked at, from the right. What stands before them is ignored.
pub const FORWARDED_MAX: usize = 32;

/// Most keys that a local tier remembers by default. Beyond it one that was not used lately is forgotten, which costs a
/// question to the shared store and never admits more.
pub const LOCAL_KEYS: usize = 100_000;

/// Longest that a local tier believes a denial by default, in milliseconds. After it the shared store is asked again: the key may
/// have been reset elsewhere.
pub const DENIAL_MS: u64 = 60_000;
