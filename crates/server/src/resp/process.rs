//! The figures of the process that INFO shows. Touches `/proc`.

use std::hash::{BuildHasher, RandomState};

use tracing::level_filters::LevelFilter;

/// The log level by its name in Redis.
pub(crate) fn log_level(level: LevelFilter) -> &'static str {
    match level {
        LevelFilter::OFF => "nothing",
        LevelFilter::ERROR | LevelFilter::WARN => "warning",
        LevelFilter::INFO => "notice",
        LevelFilter::DEBUG => "verbose",
        LevelFilter::TRACE => "debug",
    }
}

/// 40 hexadecimal digits that change with every start.
pub(crate) fn run_id() -> String {
    let digits: String = (0..3).map(|n| format!("{:016x}", RandomState::new().hash_one(n))).collect();
    digits[..40].to_owned()
}

/// User and system CPU time of the process in microseconds; 0 if the system does not report it.
pub(crate) fn cpu_us() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the process is in parentheses and may contain spaces.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |n: usize| after_name.split(' ').nth(n).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    [12, 13].map(|n| ticks(n).saturating_mul(1_000_000) / per_second)
}

/// Resident memory of the process; 0 if the system does not report it.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
