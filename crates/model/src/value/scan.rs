//! Walking a large hash, set or sorted set in steps, while it changes between the steps. It touches nothing.
//!
//! Invariant: an element that is there during the whole walk is visited at least once. The walk goes *down* the
//! indices of an index map: a new element enters at the end, behind the walk; a removal moves the last element
//! down into the gap, so an element that has not been visited never jumps over the cursor to the visited side.
//! A packed value is visited whole in one step, so becoming large between two steps cannot hide anything.

use std::ops::Range;

/// The indices to visit (from the last to the first) for `cursor`. Their start is the next cursor; 0 is the end.
pub(super) fn window(cursor: u64, count: usize, len: usize) -> Range<usize> {
    let end = match usize::try_from(cursor) {
        Ok(0) => len,
        Ok(cursor) => cursor.min(len),
        Err(_) => len,
    };
    end.saturating_sub(count.max(1))..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_down_and_survives_any_cursor() {
        assert_eq!(window(0, 10, 25), 15..25);
        assert_eq!(window(15, 10, 25), 5..15);
        assert_eq!(window(5, 10, 25), 0..5);
        assert_eq!(window(15, 10, 3), 0..3);
        assert_eq!(window(15, 0, 25), 14..15);
        assert_eq!(window(u64::MAX, 10, 0), 0..0);
    }
}
