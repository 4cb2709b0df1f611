//! The random number generator of commands: SRANDMEMBER, SPOP, RANDOMKEY. It touches nothing; the listener seeds it.

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::bounds::RANDOM_PICKS_MAX;
use crate::errors::{self, Fail};
use crate::number;

/// A small generator (SplitMix64). It is not cryptographically secure.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    #[allow(
        clippy::should_implement_trait,
        reason = "it never ends, and an iterator's comforts are not wanted"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// `count` distinct numbers below `bound`, or all of them if there are fewer.
    pub fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        if count >= bound {
            return (0..bound).collect();
        }
        // Floyd's algorithm: each round adds one number from a range that grows by one.
        let mut chosen = HashSet::with_capacity_and_hasher(count, RandomState::default());
        let mut picked = Vec::with_capacity(count);
        for last in bound - count..bound {
            let number = self.below(last + 1);
            let number = if chosen.insert(number) { number } else { last };
            chosen.insert(number);
            picked.push(number);
        }
        picked
    }

    /// The indices of the elements that are chosen out of `bound`.
    pub fn pick(&mut self, pick: Pick, bound: usize) -> Vec<usize> {
        match pick {
            Pick::Distinct(count) => self.distinct(count, bound),
            Pick::Repeated(_) if bound == 0 => Vec::new(),
            Pick::Repeated(count) => (0..count).map(|_| self.below(bound)).collect(),
        }
    }
}

/// How many elements a command chooses at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// At most so many, without repetition.
    Distinct(usize),
    /// Exactly so many, with repetition.
    Repeated(usize),
}

impl Pick {
    /// Parses a count, as Redis does before it reads the arguments that follow.
    ///
    /// # Errors
    /// Redis's errors.
    pub fn parse_count(text: &[u8]) -> Result<i64, Fail> {
        let count = number::parse_int(text).ok_or(errors::NOT_INT)?;
        if count == i64::MIN { Err(errors::COUNT_OUT_OF_RANGE) } else { Ok(count) }
    }

    /// The meaning of a count. `pairs`: each element comes with a value or a score.
    ///
    /// # Errors
    /// Redis's error when the reply would be too large.
    pub fn new(count: i64, pairs: bool) -> Result<Pick, Fail> {
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let too_large = pairs && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2;
        if too_large || (count < 0 && size > RANDOM_PICKS_MAX) {
            return Err(errors::VALUE_OUT_OF_RANGE);
        }
        Ok(if count < 0 { Pick::Repeated(size) } else { Pick::Distinct(size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_distinct_and_every_one_comes_up() {
        let mut random = Random::new(7);
        let mut times = [0; 10];
        for _ in 0..1000 {
            let mut picked = random.distinct(3, 10);
            picked.sort_unstable();
            picked.dedup();
            assert_eq!(picked.len(), 3);
            picked.into_iter().for_each(|number| times[number] += 1);
        }
        assert!(times.iter().all(|times| (200..400).contains(times)), "{times:?}");
        assert_eq!(random.distinct(usize::MAX, 3), [0, 1, 2]);
        assert!(random.distinct(2, 0).is_empty());
    }

    #[test]
    fn a_count_is_interpreted_and_bounded() {
        let mut random = Random::new(7);
        assert_eq!(Pick::new(5, false), Ok(Pick::Distinct(5)));
        assert_eq!(random.pick(Pick::new(-5, true).unwrap(), 1), [0; 5]);
        assert_eq!(Pick::new(i64::MAX, false), Ok(Pick::Distinct(i64::MAX as usize)));
        assert_eq!(Pick::new(i64::MAX, true), Err(errors::VALUE_OUT_OF_RANGE));
        assert_eq!(Pick::new(-i64::MAX, false), Err(errors::VALUE_OUT_OF_RANGE));
        assert_eq!(Pick::parse_count(b"-9223372036854775808"), Err(errors::COUNT_OUT_OF_RANGE));
        assert_eq!(Pick::parse_count(b"x"), Err(errors::NOT_INT));
    }
}
