//! Ranges and sets of slots. A [`SlotSet`] is sorted and its ranges neither overlap nor touch, so equal sets are equal values.

use std::fmt;

use keystead_core::ShardId;
use keystead_core::key::shard_of_slot;
use serde::{Deserialize, Serialize};

use crate::bounds::SLOTS;
use crate::table::TableError;

/// Slots from `first` to `last`, both included. In JSON `[first, last]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct SlotRange {
    first: u16,
    last: u16,
}

impl SlotRange {
    /// Every slot.
    pub const ALL: SlotRange = SlotRange { first: 0, last: SLOTS - 1 };

    /// The slots from `first` to `last`.
    ///
    /// # Errors
    /// `SlotOutOfRange`, `RangeReversed`.
    pub fn new(first: u32, last: u32) -> Result<SlotRange, TableError> {
        let check = |slot: u32| match u16::try_from(slot) {
            Ok(slot) if slot < SLOTS => Ok(slot),
            _ => Err(TableError::SlotOutOfRange(slot)),
        };
        let (first, last) = (check(first)?, check(last)?);
        match first <= last {
            true => Ok(SlotRange { first, last }),
            false => Err(TableError::RangeReversed { first, last }),
        }
    }

    /// The first slot.
    #[must_use]
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last slot.
    #[must_use]
    pub fn last(self) -> u16 {
        self.last
    }

    /// The slots, in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u16> + Clone {
        self.first..=self.last
    }
}

impl TryFrom<(u32, u32)> for SlotRange {
    type Error = TableError;

    fn try_from((first, last): (u32, u32)) -> Result<Self, TableError> {
        SlotRange::new(first, last)
    }
}

impl From<SlotRange> for (u32, u32) {
    fn from(range: SlotRange) -> Self {
        (range.first.into(), range.last.into())
    }
}

impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// Any slots, as ranges. In JSON `[[0, 5], [7, 7]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<SlotRange>", into = "Vec<SlotRange>")]
pub struct SlotSet(Vec<SlotRange>);

impl SlotSet {
    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[SlotRange] {
        &self.0
    }

    /// The slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + Clone + '_ {
        self.0.iter().flat_map(|range| range.iter())
    }

    /// How many slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|range| usize::from(range.last - range.first) + 1).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first slot.
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        self.0.first().map(|range| range.first)
    }

    /// Whether this slot is one of them.
    #[must_use]
    pub fn contains(&self, slot: u16) -> bool {
        let at = self.0.partition_point(|range| range.last < slot);
        self.0.get(at).is_some_and(|range| range.first <= slot)
    }

    /// Whether some slot is in both.
    #[must_use]
    pub fn overlaps(&self, other: &SlotSet) -> bool {
        other.iter().any(|slot| self.contains(slot))
    }

    /// Cuts it into sets of at most `slots_max` slots, none of which has slots of two of `shards` shards.
    #[must_use]
    pub fn chunks(&self, slots_max: usize, shards: u16) -> Vec<SlotSet> {
        let mut chunks: Vec<(ShardId, Vec<u16>)> = Vec::new();
        for slot in self.iter() {
            let shard = shard_of_slot(slot, usize::from(shards));
            match chunks.last_mut() {
                Some((of, chunk)) if *of == shard && chunk.len() < slots_max => chunk.push(slot),
                _ => chunks.push((shard, vec![slot])),
            }
        }
        chunks.into_iter().map(|(_, chunk)| chunk.into_iter().collect()).collect()
    }
}

impl FromIterator<u16> for SlotSet {
    /// Slots in any order. One that is given twice counts one time, one beyond the bound not at all.
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Self {
        let mut slots: Vec<u16> = slots.into_iter().filter(|slot| *slot < SLOTS).collect();
        slots.sort_unstable();
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some(range) if slot <= range.last + 1 => range.last = slot,
                _ => ranges.push(SlotRange { first: slot, last: slot }),
            }
        }
        SlotSet(ranges)
    }
}

impl From<SlotRange> for SlotSet {
    fn from(range: SlotRange) -> Self {
        SlotSet(vec![range])
    }
}

impl TryFrom<Vec<SlotRange>> for SlotSet {
    type Error = TableError;

    /// # Errors
    /// `SlotTwice`.
    fn try_from(mut ranges: Vec<SlotRange>) -> Result<Self, TableError> {
        ranges.sort_unstable();
        match ranges.windows(2).find(|pair| pair[1].first <= pair[0].last) {
            Some(pair) => Err(TableError::SlotTwice(pair[1].first)),
            None => Ok(ranges.iter().flat_map(|range| range.iter()).collect()),
        }
    }
}

impl From<SlotSet> for Vec<SlotRange> {
    fn from(set: SlotSet) -> Self {
        set.0
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if n == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        assert!(SlotRange::new(0, 16_383).is_ok());
        assert_eq!(SlotRange::new(0, 16_384), Err(TableError::SlotOutOfRange(16_384)));
        assert_eq!(SlotRange::new(70_000, 1), Err(TableError::SlotOutOfRange(70_000)));
        assert_eq!(SlotRange::new(2, 1), Err(TableError::RangeReversed { first: 2, last: 1 }));
    }

    #[test]
    fn equal_sets_are_equal_values() {
        let set: SlotSet = [5, 1, 2, 3, 9, 2].into_iter().collect();
        assert_eq!(set.to_string(), "1-3,5,9");
        assert_eq!(serde_json::to_string(&set).unwrap(), "[[1,3],[5,5],[9,9]]");
        let parsed: SlotSet = serde_json::from_str("[[9,9],[3,3],[1,2],[5,5]]").unwrap();
        assert_eq!((&parsed, parsed.len()), (&set, 5));
        assert!(serde_json::from_str::<SlotSet>("[[1,3],[3,4]]").is_err());
        for slot in 0..12 {
            assert_eq!(set.contains(slot), [1, 2, 3, 5, 9].contains(&slot), "{slot}");
        }
    }

    #[test]
    fn chunks_are_short_and_of_one_shard() {
        let set: SlotSet = SlotRange::new(4000, 4200).unwrap().into();
        let chunks = set.chunks(64, 4);
        assert!(chunks.iter().all(|chunk| chunk.len() <= 64));
        assert_eq!(chunks.iter().map(SlotSet::len).sum::<usize>(), 201);
        for chunk in &chunks {
            let shards: Vec<_> = chunk.iter().map(|slot| shard_of_slot(slot, 4)).collect();
            assert!(shards.windows(2).all(|pair| pair[0] == pair[1]), "{chunk}");
        }
        assert!(chunks.iter().any(|chunk| chunk.first() == Some(4096)));
    }
}
