//! Random numbers that a seed reproduces on every machine and in every version: SplitMix64.

use keystead_core::{Clock, SystemClock};

/// The environment variable with the seed of a random test.
pub const SEED_VARIABLE: &str = "KEYSTEAD_SEED";

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    /// A distance in milliseconds of a random order of magnitude, from 0 to some years.
    pub fn span_ms(&mut self) -> u64 {
        const ENDS: [u64; 6] = [2, 10, 100, 10_000, 10_000_000, 100_000_000_000];
        let end = ENDS[self.below(ENDS.len() as u64) as usize];
        self.below(end)
    }

    /// A double of random bits that is not an infinity or a NaN.
    pub fn finite_f64(&mut self) -> f64 {
        loop {
            let double = f64::from_bits(self.next_u64());
            if double.is_finite() {
                return double;
            }
        }
    }
}

/// The seed in the environment.
#[must_use]
pub fn seed_from_env() -> Option<u64> {
    std::env::var(SEED_VARIABLE).ok()?.trim().parse().ok()
}

/// A seed that differs from run to run.
#[must_use]
pub fn fresh_seed() -> u64 {
    Rng::new(SystemClock.now().0 ^ (u64::from(std::process::id()) << 40)).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }
}
