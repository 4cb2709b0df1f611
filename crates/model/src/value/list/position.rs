//! Positions: where in a list an element is, as a number that does not change when others are inserted or removed. It
//! touches nothing.
//!
//! Invariants: positions increase strictly from front to back, and a new one is chosen so that as few others as
//! possible have to change. Neighbours start [`GAP`] apart, an insert uses the middle, and when there is no
//! middle left the smallest surrounding window that is sparse enough is spread out evenly. The required sparseness depends on
//! the window's size (the tag ranges of Bender et al., "Two simplified algorithms for maintaining order in a list"), so a
//! position changes O(log n) times per insert on average even when all inserts are at one index.

use std::ops::Range;

/// The distance between neighbours that were pushed.
pub const GAP: i64 = 1 << 16;

/// Beyond this, pushed elements are only 1 apart, so that positions last for 2^62 more pushes.
const WIDE_MAX: i64 = 1 << 62;

/// The largest window: a quarter of all positions.
const WINDOW_BITS_MAX: u32 = 62;

/// A window of 2^n positions may hold 1.5^n elements.
const DENSITY: f64 = 1.5;

/// The position for an element after the last one.
pub(super) fn after(last: Option<i64>) -> i64 {
    match last {
        None => 0,
        Some(last) if last < WIDE_MAX => last + GAP,
        Some(last) => last.saturating_add(1),
    }
}

/// The position for an element before the first one.
pub(super) fn before(first: Option<i64>) -> i64 {
    match first {
        None => 0,
        Some(first) if first > -WIDE_MAX => first - GAP,
        Some(first) => first.saturating_sub(1),
    }
}

/// The middle between two positions, if there is one.
pub(super) fn between(before: i64, after: i64) -> Option<i64> {
    let middle = before.midpoint(after);
    (before < middle && middle < after).then_some(middle)
}

/// Elements that have to move together so that one more fits.
#[derive(Debug)]
pub(super) struct Window {
    /// Which ones.
    pub(super) elements: Range<usize>,
    base: i64,
    bits: u32,
}

impl Window {
    /// The smallest window that has space for an element before the one at `index`, which is not the first.
    pub(super) fn around(index: usize, len: usize, position: impl Fn(usize) -> i64) -> Window {
        let anchor = position(index - 1);
        let (mut start, mut end) = (index, index);
        let (mut bits, mut allowed) = (0, 1.0);
        loop {
            bits += 1;
            allowed *= DENSITY;
            let base = anchor >> bits << bits;
            let last = base | ((1 << bits) - 1);
            while start > 0 && position(start - 1) >= base {
                start -= 1;
            }
            while end < len && position(end) <= last {
                end += 1;
            }
            if (end - start + 1) as f64 <= allowed || bits == WINDOW_BITS_MAX {
                return Window { elements: start..end, base, bits };
            }
        }
    }

    /// The new positions, one more than there are elements.
    pub(super) fn positions(&self) -> impl Iterator<Item = i64> + use<> {
        let count = self.elements.len() as u128 + 1;
        let (base, bits) = (self.base, self.bits);
        // The middle of the i-th of `count` equal parts.
        (0..count).map(move |i| base + (((2 * i + 1) << bits) / (2 * count)) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_a_gap_apart_until_the_range_runs_out() {
        assert_eq!((after(None), before(None)), (0, 0));
        assert_eq!((after(Some(5)), before(Some(5))), (5 + GAP, 5 - GAP));
        assert_eq!((after(Some(WIDE_MAX)), before(Some(-WIDE_MAX))), (WIDE_MAX + 1, -WIDE_MAX - 1));
    }

    #[test]
    fn a_middle_is_strictly_between() {
        for (before, after, middle) in [
            (0, 2, Some(1)),
            (0, 1, None),
            (-1, 1, Some(0)),
            (-3, -1, Some(-2)),
            (i64::MIN, i64::MAX, Some(0)),
        ] {
            assert_eq!(between(before, after), middle);
        }
    }

    #[test]
    fn inserts_at_one_index_move_few_others() {
        let mut positions: Vec<i64> = (0..1000).map(|i| i * GAP).collect();
        let mut moved = 0;
        for _ in 0..5000 {
            match between(positions[499], positions[500]) {
                Some(middle) => positions.insert(500, middle),
                None => {
                    let window = Window::around(500, positions.len(), |i| positions[i]);
                    moved += window.elements.len();
                    let new: Vec<i64> = window.positions().collect();
                    positions.splice(window.elements, new);
                }
            }
            assert!(positions[480..520].is_sorted_by(|a, b| a < b));
        }
        assert!(positions.is_sorted_by(|a, b| a < b));
        assert!(moved < 5000 * 13, "{moved}");
    }
}
