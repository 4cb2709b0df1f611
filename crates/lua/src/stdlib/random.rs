//! Redis's `lrand48`, which math.random uses: the same numbers for the same seed on every machine. It touches nothing.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The highest number of Redis's `lrand48`.
const MAX: i64 = i32::MAX as i64;

/// The state of the generator after `math.randomseed(seed)`.
pub(super) fn seeded(seed: i32) -> u64 {
    (u64::from(seed as u32) << 16 | 0x330E) & MASK
}

/// The next number between 0 and 1.
pub(super) fn share(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
    let number = (*state >> 17) as i64;
    (number % MAX) as f64 / MAX as f64
}
