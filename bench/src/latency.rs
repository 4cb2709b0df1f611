//! Latencies of many operations: how many a second, and the percentiles.

use std::fmt;
use std::time::Duration;

pub(crate) struct Latencies {
    sorted_ns: Vec<u32>,
    /// Operations for each latency.
    each: usize,
    took: Duration,
}

impl Latencies {
    pub(crate) fn new(ns: Vec<u32>, took: Duration) -> Self {
        Latencies::of_batches(ns, 1, took)
    }

    pub(crate) fn of_batches(mut ns: Vec<u32>, each: usize, took: Duration) -> Self {
        ns.sort_unstable();
        Latencies { sorted_ns: ns, each, took }
    }

    pub(crate) fn per_second(&self) -> f64 {
        (self.sorted_ns.len() * self.each) as f64 / self.took.as_secs_f64()
    }

    fn percentile_us(&self, percent: f64) -> f64 {
        let at = (self.sorted_ns.len() as f64 * percent / 100.0) as usize;
        f64::from(self.sorted_ns.get(at).or(self.sorted_ns.last()).copied().unwrap_or(0)) / 1000.0
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| self.percentile_us(percent));
        write!(f, "{:7.0}/s {p50:6.0} /{p99:6.0} /{p999:6.0}", self.per_second())
    }
}
