//! The estimate of the cardinality from registers. It touches nothing.
//!
//! The method is that of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284.
//! The order of the operations is that of Redis, so that the result is equal to the last bit.

use super::{RANK_MAX, REGISTERS};

/// How many registers have each value; it covers all values of 6 bits.
pub(super) type Histogram = [u32; 64];

/// `1 / (2 ln 2)`
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The cardinality estimated from a histogram.
pub(super) fn cardinality(histogram: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let share = |value: usize| f64::from(histogram[value]) / m;
    let mut z = m * tau((m - f64::from(histogram[RANK_MAX])) / m);
    for value in (1..RANK_MAX).rev() {
        z += f64::from(histogram[value]);
        z *= 0.5;
    }
    z += m * sigma(share(0));
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if same(before, z) {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if same(before, z) {
            return z / 3.0;
        }
    }
}

/// Whether a sum has converged.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_full_and_partial_matches() {
        let mut histogram = [0; 64];
        histogram[0] = REGISTERS as u32;
        assert_eq!(cardinality(&histogram), 0);
        histogram[0] -= 1;
        histogram[1] = 1;
        assert_eq!(cardinality(&histogram), 1);
        let mut full = [0; 64];
        full[RANK_MAX] = REGISTERS as u32;
        assert!(cardinality(&full) > 1 << 60);
    }
}
