//! Ranges with indices that may count from the end, as in GETRANGE, BITCOUNT and BITPOS. It touches nothing.

use std::ops::Range;

/// The meaning of `start..=end` among `len` elements: negative indices count from the end, and the range is clipped.
/// `None` if the result is empty.
pub(crate) fn clamp(start: i64, end: i64, len: usize) -> Range<usize> {
    let total = i64::try_from(len).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { (total + at).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(total - 1));
    // Both are within 0..=total, or the range is empty.
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// Whether both indices count from the end, the first after the last. Clipping would leave the first element of a
/// short value; GETRANGE and BITCOUNT return nothing there.
pub(crate) fn is_backwards(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_from_both_sides_and_cut_off() {
        for (start, end, len, range) in [
            (0, -1, 3, 0..3),
            (1, 1, 3, 1..2),
            (-2, -1, 3, 1..3),
            (-100, 100, 3, 0..3),
            (0, -100, 3, 0..1),
            (3, 5, 3, 0..0),
            (2, 1, 3, 0..0),
            (0, -1, 0, 0..0),
            (i64::MIN, i64::MAX, 3, 0..3),
            (i64::MAX, i64::MIN, 3, 0..0),
        ] {
            assert_eq!(clamp(start, end, len), range, "{start} {end} {len}");
        }
        assert!(is_backwards(-1, -2) && !is_backwards(-2, -1) && !is_backwards(0, -1));
    }
}
