//! Counters for INFO that no connection keeps: errors by code, and rates between two samples. It touches nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use keystead_core::Millis;

use super::Clients;
use crate::errors::Fail;

/// Further codes are counted together: a code may come from a user (`EVAL`, `DEBUG ERROR`).
const CODES_MAX: usize = 128;

/// The minimum interval of a rate.
const RATE_MS: u64 = 1000;

/// Counters for INFO.
#[derive(Default)]
pub struct Stats {
    inner: Mutex<Inner>,
    peak_bytes: AtomicU64,
}

#[derive(Default)]
struct Inner {
    errors: BTreeMap<String, u64>,
    /// When the current rate interval began, and the previous rate.
    from: Option<Sample>,
    shown: Rates,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Millis,
    counts: [u64; 3],
}

/// Events per second, on average since the last INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Commands.
    pub commands: f64,
    /// Bytes that were read.
    pub bytes_in: f64,
    /// Bytes that were written.
    pub bytes_out: f64,
}

impl Stats {
    /// Counts an error. Listeners call it for every error that they send.
    pub fn failed(&self, fail: &Fail) {
        let line = fail.line();
        let code = line.split(' ').next().unwrap_or_default();
        let mut inner = self.lock();
        let room = inner.errors.len() < CODES_MAX;
        match inner.errors.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                let code = if room { code.to_owned() } else { "OTHER".into() };
                *inner.errors.entry(code).or_default() += 1;
            }
        }
    }

    /// Errors by code.
    #[must_use]
    pub fn errors(&self) -> Vec<(String, u64)> {
        self.lock().errors.iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// The current rates.
    #[must_use]
    pub fn rates(&self, now: Millis, clients: &Clients) -> Rates {
        let counts = [&clients.commands, &clients.bytes_in, &clients.bytes_out]
            .map(|count| count.load(Ordering::Relaxed));
        let mut inner = self.lock();
        let Some(from) = inner.from else {
            inner.from = Some(Sample { at: now, counts });
            return inner.shown;
        };
        let passed_ms = now.since_ms(from.at);
        if passed_ms >= RATE_MS {
            let rate = |i: usize| counts[i].saturating_sub(from.counts[i]) as f64 * 1000.0 / passed_ms as f64;
            inner.shown = Rates { commands: rate(0), bytes_in: rate(1), bytes_out: rate(2) };
            inner.from = Some(Sample { at: now, counts });
        }
        inner.shown
    }

    /// The highest memory usage that INFO has seen, in bytes.
    pub fn peak_bytes(&self, used_bytes: u64) -> u64 {
        self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed).max(used_bytes)
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        *self.lock() = Inner::default();
        self.peak_bytes.store(0, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors;

    #[test]
    fn errors_are_counted_by_code_and_codes_are_bounded() {
        let stats = Stats::default();
        stats.failed(&errors::SYNTAX);
        stats.failed(&errors::NOT_INT);
        stats.failed(&errors::WRONG_TYPE);
        assert_eq!(stats.errors(), [("ERR".into(), 2), ("WRONGTYPE".into(), 1)]);
        for i in 0..1000 {
            stats.failed(&Fail::text(format!("C{i} x")));
        }
        assert_eq!(stats.errors().len(), CODES_MAX + 1);
        stats.reset();
        assert_eq!(stats.errors(), []);
    }

    #[test]
    fn rates_are_computed_between_samples() {
        let (stats, clients) = (Stats::default(), Clients::default());
        assert_eq!(stats.rates(Millis(5_000), &clients), Rates::default());
        clients.commands.store(300, Ordering::Relaxed);
        assert_eq!(stats.rates(Millis(5_500), &clients), Rates::default(), "too early to say");
        assert_eq!(stats.rates(Millis(8_000), &clients).commands.to_bits(), 100f64.to_bits());
        assert_eq!(
            stats.rates(Millis(1_000), &clients).commands.to_bits(),
            100f64.to_bits(),
            "the clock jumped back"
        );
    }
}
