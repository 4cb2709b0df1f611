//! Ranges of a sorted set: by score (`5`, `(5`, `-inf`) and by member (`[a`, `(a`, `-`, `+`). It touches nothing.

use std::ops::Range;

use keystead_model::value::ZSet;

use crate::errors::{self, Fail};
use crate::number;

/// From one score to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    min: Score,
    max: Score,
}

#[derive(Clone, Copy, Debug)]
struct Score {
    value: f64,
    /// Whether the bound is exclusive.
    open: bool,
}

impl Scores {
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, Fail> {
        match (Score::parse(min), Score::parse(max)) {
            (Some(min), Some(max)) => Ok(Scores { min, max }),
            _ => Err(errors::NOT_SCORE_RANGE),
        }
    }

    /// The ranks of the members in the range.
    pub(super) fn ranks(&self, zset: &ZSet) -> Range<usize> {
        let Scores { min, max } = *self;
        let start = zset.seek(|score, _| score < min.value || (min.open && score == min.value));
        let end = zset.seek(|score, _| score < max.value || (!max.open && score == max.value));
        if start < end { start..end } else { 0..0 }
    }
}

impl Score {
    fn parse(text: &[u8]) -> Option<Score> {
        let (open, text) = match text {
            [b'(', rest @ ..] => (true, rest),
            text => (false, text),
        };
        loose_float(text).map(|value| Score { value, open })
    }
}

/// Redis is less strict with the bounds of a range than with scores: an empty text is zero, leading spaces are allowed, and
/// a number that overflows is infinite.
fn loose_float(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.trim_ascii_start();
    number::parse_float(text).or_else(|| {
        let value = std::str::from_utf8(text).ok()?.parse::<f64>().ok()?;
        (!value.is_nan()).then_some(value)
    })
}

/// From one member to another, where all have the same score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'a> {
    min: Member<'a>,
    max: Member<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Member<'a> {
    /// `-`: before all members.
    First,
    /// `+`: after all members.
    Last,
    /// `[`: inclusive.
    Closed(&'a [u8]),
    /// `(`: exclusive.
    Open(&'a [u8]),
}

impl<'a> Members<'a> {
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<Self, Fail> {
        match (Member::parse(min), Member::parse(max)) {
            (Some(min), Some(max)) => Ok(Members { min, max }),
            _ => Err(errors::NOT_LEX_RANGE),
        }
    }

    /// The ranks of the members in the range.
    ///
    /// If scores differ the result is unspecified, but what Redis does is simple: it finds the first member in
    /// the range and continues to the first outside, or the same from the end.
    pub(super) fn ranks(&self, zset: &ZSet, from_back: bool) -> Range<usize> {
        let len = zset.len();
        let Some(((first, lowest), (last, highest))) = zset.nth(0).zip(zset.nth(len.saturating_sub(1)))
        else {
            return 0..0;
        };
        if !self.is_possible() || !self.is_from_min(last) || !self.is_to_max(first) {
            return 0..0;
        }
        if lowest == highest {
            let start = zset.seek(|_, member| !self.is_from_min(member));
            let end = zset.seek(|_, member| self.is_to_max(member));
            return if start < end { start..end } else { 0..0 };
        }
        if from_back {
            let behind = zset.iter_rev_from(len).take_while(|(member, _)| !self.is_to_max(member)).count();
            let end = len - behind;
            let Some(last) = end.checked_sub(1) else { return 0..0 };
            end - zset.iter_rev_from(last).take_while(|(member, _)| self.is_from_min(member)).count()..end
        } else {
            let start = zset.iter().take_while(|(member, _)| !self.is_from_min(member)).count();
            start..start + zset.iter_from(start).take_while(|(member, _)| self.is_to_max(member)).count()
        }
    }

    /// Whether any member could be inside.
    fn is_possible(&self) -> bool {
        match (self.min, self.max) {
            (Member::Last, _) | (_, Member::First) => false,
            (Member::First, _) | (_, Member::Last) => true,
            (Member::Closed(min), Member::Closed(max)) => min <= max,
            (Member::Closed(min) | Member::Open(min), Member::Closed(max) | Member::Open(max)) => min < max,
        }
    }

    fn is_from_min(&self, member: &[u8]) -> bool {
        match self.min {
            Member::First => true,
            Member::Last => false,
            Member::Closed(min) => member >= min,
            Member::Open(min) => member > min,
        }
    }

    fn is_to_max(&self, member: &[u8]) -> bool {
        match self.max {
            Member::First => false,
            Member::Last => true,
            Member::Closed(max) => member <= max,
            Member::Open(max) => member < max,
        }
    }
}

impl<'a> Member<'a> {
    fn parse(text: &'a [u8]) -> Option<Member<'a>> {
        match text {
            b"-" => Some(Member::First),
            b"+" => Some(Member::Last),
            [b'[', member @ ..] => Some(Member::Closed(member)),
            [b'(', member @ ..] => Some(Member::Open(member)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use keystead_model::Bytes;

    use super::*;

    fn zset(count: usize, score: impl Fn(usize) -> f64) -> ZSet {
        let mut zset = ZSet::new();
        for i in 0..count {
            zset.insert(&Bytes::from(format!("{i:03}").as_bytes()), score(i));
        }
        zset
    }

    #[test]
    fn scores_are_inside_or_outside() {
        for count in [10, 200] {
            let zset = zset(count, |i| i as f64);
            for (min, max, ranks) in [
                ("2", "4", 2..5),
                ("(2", "(4", 3..4),
                ("(2", "(3", 0..0),
                ("4", "2", 0..0),
                ("-inf", "(1", 0..1),
                ("-1e400", "1", 0..2),
                ("", "(", 0..0),
                ("", "", 0..1),
                (" 1", "0x2", 1..3),
            ] {
                assert_eq!(
                    Scores::parse(min.as_bytes(), max.as_bytes()).unwrap().ranks(&zset),
                    ranks,
                    "{min} {max}"
                );
            }
        }
        for wrong in ["x", "nan", "1 ", " ", "((1", "[1"] {
            assert_eq!(
                Scores::parse(wrong.as_bytes(), b"1").unwrap_err(),
                errors::NOT_SCORE_RANGE,
                "{wrong}"
            );
        }
    }

    #[test]
    fn members_are_inside_or_outside_from_either_end() {
        for (count, step) in [(10, 0.0), (200, 0.0), (10, 1.0), (200, 1.0)] {
            let zset = zset(count, |i| i as f64 * step);
            for (min, max, ranks) in [
                ("[002", "[004", 2..5),
                ("(002", "(004", 3..4),
                ("(002", "(003", 0..0),
                ("[004", "[002", 0..0),
                ("-", "(001", 0..1),
                ("-", "+", 0..count),
                ("+", "-", 0..0),
                ("+", "+", 0..0),
                ("-", "-", 0..0),
                ("[", "[0", 0..0),
                ("(009", "+", 10..count),
            ] {
                let range = Members::parse(min.as_bytes(), max.as_bytes()).unwrap();
                for from_back in [false, true] {
                    let found = range.ranks(&zset, from_back);
                    assert!(
                        found == ranks || (found.is_empty() && ranks.is_empty()),
                        "{min} {max} {found:?}"
                    );
                }
            }
        }
        for wrong in ["", "a", "+a", "-a"] {
            assert_eq!(Members::parse(wrong.as_bytes(), b"+").unwrap_err(), errors::NOT_LEX_RANGE, "{wrong}");
        }
    }
}
