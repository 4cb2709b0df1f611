//! How fast a store is: checks a second and latencies, with a number of calls in flight.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Code, Error, Result, Stopwatch, Store};
use keystead_limit::strategy::Gcra;
use keystead_limit::{FailMode, Limiter};
use tokio::task::JoinSet;

use crate::rng::Rng;

/// A limit that is never reached, so that every check writes.
const LIMIT: u64 = 1_000_000_000;
const PERIOD_MS: u64 = 100 * 365 * 86_400_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Calls that are under way at a time.
    pub in_flight: usize,
    /// The keys, which calls choose at random.
    pub keys: usize,
    /// For how long.
    pub time: Duration,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Calls a second.
    pub per_second: f64,
    /// Half of the calls took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// 999 of 1000 took no longer.
    pub p999: Duration,
}

/// The limiter that [`checks`] measures: one that always allows.
///
/// # Errors
/// None that happens: the policy is valid.
pub fn limiter(store: Arc<dyn Store>, prefix: &str) -> Result<Limiter<Arc<dyn Store>>> {
    Ok(Limiter::new(Gcra::new(LIMIT, PERIOD_MS, Some(LIMIT))?, store, FailMode::Closed).prefix(prefix))
}

/// The name of a key.
#[must_use]
pub fn key_name(number: usize) -> String {
    format!("key-{number:05}")
}

/// Measures checks of a limiter. Each key is checked once before.
///
/// # Errors
/// The first error of the store.
pub async fn checks(limiter: Arc<Limiter<Arc<dyn Store>>>, load: Load) -> Result<Figures> {
    let names: Arc<[String]> = (0..load.keys).map(key_name).collect();
    calls(load, move |key| {
        let (limiter, names) = (Arc::clone(&limiter), Arc::clone(&names));
        async move {
            match limiter.check(&names[key], 1).await?.allowed {
                true => Ok(()),
                false => Err(Error::new(Code::Internal, "a check was denied far below its limit")),
            }
        }
    })
    .await
}

/// Measures any call that gets the number of a key. Each key is called once before.
///
/// # Errors
/// The first error of a call.
pub async fn calls<F, R>(load: Load, call: F) -> Result<Figures>
where
    F: Fn(usize) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<()>> + Send,
{
    let warm_up = |worker: usize| {
        let call = call.clone();
        async move {
            for key in (worker..load.keys).step_by(load.in_flight) {
                call(key).await?;
            }
            Ok(Histogram::default())
        }
    };
    all(load.in_flight, warm_up).await?;
    let began = Stopwatch::start();
    let measured = |worker: usize| {
        let (call, mut rng, mut histogram) = (call.clone(), Rng::new(worker as u64), Histogram::default());
        async move {
            while began.elapsed() < load.time {
                let key = rng.below(load.keys as u64) as usize;
                let each = Stopwatch::start();
                call(key).await?;
                histogram.add(each.elapsed());
                // A store that is always ready would otherwise keep its thread.
                tokio::task::consume_budget().await;
            }
            Ok(histogram)
        }
    };
    let histogram = all(load.in_flight, measured).await?;
    let per_second = histogram.count() as f64 / began.elapsed().as_secs_f64();
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| histogram.percentile(part));
    Ok(Figures { per_second, p50, p99, p999 })
}

/// Runs workers at the same time and adds up their histograms.
async fn all<R>(workers: usize, worker: impl Fn(usize) -> R) -> Result<Histogram>
where
    R: Future<Output = Result<Histogram>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for i in 0..workers {
        tasks.spawn(worker(i));
    }
    let mut sum = Histogram::default();
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.map_err(|e| Error::new(Code::Internal, "a task ended early").with_source(e))?;
        sum.merge(&ended?);
    }
    Ok(sum)
}

/// Latencies in buckets whose width is a 32nd of a power of two, so within 3 %.
struct Histogram(Vec<u64>);

const PART_BITS: u32 = 5;
const PARTS: u64 = 1 << PART_BITS;

impl Default for Histogram {
    fn default() -> Self {
        Histogram(vec![0; ((64 - PART_BITS) as usize + 1) << PART_BITS])
    }
}

impl Histogram {
    fn add(&mut self, took: Duration) {
        self.0[Histogram::bucket(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))] += 1;
    }

    fn bucket(ns: u64) -> usize {
        let shift = (64 - PART_BITS).saturating_sub(ns.leading_zeros() + 1);
        ((u64::from(shift) << PART_BITS) + (ns >> shift)) as usize
    }

    /// The largest value of a bucket.
    fn upper_ns(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let (shift, part) = match bucket >> PART_BITS {
            0 => (0, bucket),
            row => (row - 1, bucket % PARTS + PARTS),
        };
        ((part + 1) << shift) - 1
    }

    fn merge(&mut self, other: &Histogram) {
        for (sum, count) in self.0.iter_mut().zip(&other.0) {
            *sum += count;
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    fn percentile(&self, part: f64) -> Duration {
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        let reached = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        Duration::from_nanos(reached.map_or(0, Histogram::upper_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keystead_core::MemoryStore;

    #[test]
    fn a_bucket_is_within_a_32nd_of_its_values() {
        let mut last = 0;
        for ns in (0..10_000).chain((0..40).map(|bits| (1 << bits) + 12_345)).chain([1 << 50, (1 << 50) + 1])
        {
            let upper = Histogram::upper_ns(Histogram::bucket(ns));
            assert!(upper >= ns && upper - ns <= ns / 16, "{ns} {upper}");
            if ns < 10_000 {
                assert!(Histogram::bucket(ns) >= last);
                last = Histogram::bucket(ns);
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        for us in 1..=1000 {
            histogram.add(Duration::from_micros(us));
        }
        let close = |part, us: f64| (histogram.percentile(part).as_secs_f64() * 1e6 / us - 1.0).abs() < 0.04;
        assert!(close(0.5, 500.0) && close(0.99, 990.0) && close(0.999, 999.0));
    }

    #[tokio::test]
    async fn a_store_in_memory_has_figures() {
        let limiter = Arc::new(limiter(Arc::new(MemoryStore::new()), "figures").unwrap());
        let load = Load { in_flight: 4, keys: 10, time: Duration::from_millis(20) };
        let figures = checks(limiter, load).await.unwrap();
        assert!(figures.per_second > 0.0 && figures.p50 <= figures.p99 && figures.p99 <= figures.p999);
    }
}
