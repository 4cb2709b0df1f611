//! How figures are measured and printed: several rounds, ours and the peer's alternate, the median of each.

use std::time::Instant;

/// Rounds of each side. They alternate, so that other load on the machine affects both.
const ROUNDS: usize = 5;

/// Whether a row is selected: all are, unless `KEYSTEAD_ROWS` has words that its label must contain, as in `KEYSTEAD_ROWS="set fsync"`.
pub(crate) fn is_wanted(label: &str) -> bool {
    let rows = std::env::var("KEYSTEAD_ROWS").unwrap_or_default();
    rows.split_whitespace().all(|word| label.split_whitespace().any(|part| part == word))
}

/// Runs `ours` and `peer` alternately and prints the median ns per operation of each and the ratio.
pub(crate) fn beside(label: &str, peer_name: &str, ours: impl Fn() -> f64, peer: impl Fn() -> f64) {
    let (mut our_ns, mut peer_ns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_ns.push(ours());
        peer_ns.push(peer());
    }
    let (our_ns, peer_ns) = (median(our_ns), median(peer_ns));
    println!(
        "{label:44} keystead {our_ns:7.1} ns   {peer_name} {peer_ns:7.1} ns   {:.2}x as fast",
        peer_ns / our_ns
    );
}

/// The median of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// ns per operation of `operations` calls on `threads` threads, as each thread measures it.
pub(crate) fn ns_per_operation(threads: usize, operations: usize, run: impl Fn(usize, usize) + Sync) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let run = &run;
            scope.spawn(move || run(thread, operations));
        }
    });
    started.elapsed().as_nanos() as f64 / operations as f64
}

/// A cheap random sequence, the same for both sides.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize * limit) >> 31
    }
}
