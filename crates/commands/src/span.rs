//! Indices counted from either end, as lists and sorted sets take them: 0 is the first, -1 the last. It touches nothing.

use std::ops::Range;

use crate::number::size;

/// The position of `index` among `len` elements, if it exists.
#[must_use]
pub fn position(index: i64, len: usize) -> Option<usize> {
    size(from_start(index, len)).filter(|position| *position < len)
}

/// The positions from `start` to `stop`, both inclusive, among `len` elements.
#[must_use]
pub fn span(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = size(from_start(start, len)).unwrap_or(0);
    let end = size(from_start(stop, len)).map_or(0, |stop| stop.saturating_add(1).min(len));
    if start < end { start..end } else { 0..0 }
}

/// A position counted from the start. An index before the start stays negative.
fn from_start(index: i64, len: usize) -> i64 {
    if index < 0 { index.saturating_add_unsigned(len as u64) } else { index }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_counted_from_either_end() {
        for (index, found) in
            [(0, Some(0)), (2, Some(2)), (3, None), (-1, Some(2)), (-3, Some(0)), (-4, None)]
        {
            assert_eq!(position(index, 3), found, "{index}");
        }
        assert_eq!((position(i64::MIN, 3), position(i64::MAX, 3), position(0, 0)), (None, None, None));
    }

    #[test]
    fn spans_are_clipped() {
        for (start, stop, found) in [
            (0, -1, 0..3),
            (1, 1, 1..2),
            (-2, -1, 1..3),
            (-100, 100, 0..3),
            (2, 1, 0..0),
            (3, 5, 0..0),
            (0, -4, 0..0),
            (i64::MIN, i64::MAX, 0..3),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(span(start, stop, 3), found, "{start} {stop}");
        }
        assert_eq!(span(0, -1, 0), 0..0);
    }
}
