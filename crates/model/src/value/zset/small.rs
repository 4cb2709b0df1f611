//! A packed sorted set: a record is a score and a member. It touches nothing. Invariant: records are in order.
//!
//! A whole number, as most scores are, takes as few bytes as it has digits; any other takes nine.

use std::ops::Range;

use super::order;
use crate::value::packed::{Full, Number, Packed, Reader, unzigzag, zigzag};

/// Scores whose whole number has an exact short form.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// Marks a score that is not a short whole number; even numbers are whole scores.
const RAW: u64 = 1;

/// One member in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Record<'a> {
    pub(super) score: f64,
    pub(super) member: &'a [u8],
    range: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Records<'a>(Reader<'a>);

/// Members in order.
pub(super) fn iter(packed: &Packed) -> Records<'_> {
    Records(packed.reader())
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let reader = &mut self.0;
        let start = reader.offset();
        let score = match reader.number()? {
            RAW => f64::from_bits(u64::from_le_bytes(reader.raw(8)?.try_into().ok()?)),
            whole => unzigzag(whole >> 1) as f64,
        };
        let member = reader.bytes()?;
        Some(Record { score, member, range: start..reader.offset() })
    }
}

pub(super) fn score(packed: &Packed, member: &[u8]) -> Option<f64> {
    iter(packed).find(|record| record.member == member).map(|record| record.score)
}

pub(super) fn rank(packed: &Packed, member: &[u8]) -> Option<usize> {
    iter(packed).position(|record| record.member == member)
}

/// Sets the score of a member and returns the old one.
pub(super) fn insert(packed: &mut Packed, member: &[u8], score: f64) -> Result<Option<f64>, Full> {
    if !Packed::fits(member.len()) {
        return Err(Full);
    }
    let old = self::score(packed, member);
    if old.is_none() && !packed.has_space() {
        return Err(Full);
    }
    if old.is_some() {
        remove(packed, member);
    }
    let new = (score, member);
    let next = iter(packed).find(|record| order((record.score, record.member), new).is_gt());
    let at = next.map_or(packed.end(), |record| record.range.start..record.range.start);
    let len = Number::len_of(member);
    match whole(score) {
        Some(whole) => packed.insert(at, &[Number::of(zigzag(whole) << 1).as_ref(), len.as_ref(), member]),
        None => {
            let bits = score.to_bits().to_le_bytes();
            packed.insert(at, &[Number::of(RAW).as_ref(), &bits, len.as_ref(), member]);
        }
    }
    Ok(old)
}

pub(super) fn remove(packed: &mut Packed, member: &[u8]) -> Option<f64> {
    let Record { score, range, .. } = iter(packed).find(|record| record.member == member)?;
    packed.remove(range, &[]);
    Some(score)
}

/// The score as a whole number, if nothing is lost: not a fraction, not too large, not minus zero.
fn whole(score: f64) -> Option<i64> {
    let whole = score as i64;
    let is_exact = score.abs() < WHOLE_MAX && (whole as f64).to_bits() == score.to_bits();
    is_exact.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_decodes_bit_for_bit() {
        let whole_max = WHOLE_MAX;
        let scores = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            1e300,
            -1e-300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            whole_max,
            whole_max - 1.0,
            1.0 - whole_max,
        ];
        for score in scores {
            let mut packed = Packed::default();
            assert!(insert(&mut packed, b"m", score).is_ok());
            assert_eq!(self::score(&packed, b"m").map(f64::to_bits), Some(score.to_bits()));
        }
    }
}
