//! A sorted set: members with scores, in the order of score and then member. It touches nothing.
//!
//! Packed, it is one buffer in order; large, an index map beside a sequence with ranks. Invariant: scores
//! compare as numbers (minus zero is zero), members as bytes, and no score is NaN.

mod large;
mod small;

use std::cmp::Ordering;
use std::fmt;
use std::iter::Rev;
use std::vec;

use self::large::Large;
use super::form::{Form, collection};
use super::packed::Full;
use super::{scan, sorted};
use crate::bytes::Bytes;

/// Members and their scores, in order.
#[derive(Clone, Default)]
pub struct ZSet(Form<Large>);

collection!(ZSet, "members", large => large.scores().len());

/// Compares two members with their scores.
fn order(a: (f64, &[u8]), b: (f64, &[u8])) -> Ordering {
    a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(b.1))
}

impl ZSet {
    /// The score of a member.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Form::Packed(packed) => small::score(packed, member),
            Form::Large(large) => large.scores().get(member).copied(),
        }
    }

    /// Sets the score of a member, bit for bit, and returns the old one. The score must be a number.
    pub fn insert(&mut self, member: &Bytes, score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan(), "a score must be a number");
        match &mut self.0 {
            Form::Packed(packed) => match small::insert(packed, member, score) {
                Ok(old) => old,
                Err(Full) => {
                    let mut large = Large::unpack(packed);
                    let old = large.insert(member, score);
                    self.0 = Form::Large(Box::new(large));
                    old
                }
            },
            Form::Large(large) => large.insert(member, score),
        }
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Packed(packed) => small::remove(packed, member),
            Form::Large(large) => large.remove(member),
        }
    }

    /// Number of members before this one.
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        match &self.0 {
            Form::Packed(packed) => small::rank(packed, member),
            Form::Large(large) => large.rank(member),
        }
    }

    /// Number of members, from the first on, that are `before(score, member)`: the rank of the first that is not.
    ///
    /// No member that is `before` may come after one that is not.
    pub fn seek(&self, mut before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        match &self.0 {
            Form::Packed(packed) => small::iter(packed).take_while(|r| before(r.score, r.member)).count(),
            Form::Large(large) => large.sorted().partition(|(score, member)| before(*score, member)),
        }
    }

    /// The member with this rank, and its score.
    #[must_use]
    pub fn nth(&self, rank: usize) -> Option<(&[u8], f64)> {
        match &self.0 {
            Form::Packed(packed) => small::iter(packed).nth(rank).map(|r| (r.member, r.score)),
            Form::Large(large) => large.sorted().nth(rank).map(|(score, member)| (member.as_slice(), *score)),
        }
    }

    /// Members and scores, the lowest first.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// Members and scores from this rank upwards.
    #[must_use]
    pub fn iter_from(&self, rank: usize) -> Iter<'_> {
        Iter(match &self.0 {
            Form::Packed(packed) => {
                let mut records = small::iter(packed);
                if let Some(skipped) = rank.checked_sub(1) {
                    records.nth(skipped);
                }
                IterForm::Packed(records)
            }
            Form::Large(large) => IterForm::Large(large.sorted().range(rank..usize::MAX)),
        })
    }

    /// Members and scores from this rank downwards; from the highest when there is no such rank.
    #[must_use]
    pub fn iter_rev_from(&self, rank: usize) -> IterRev<'_> {
        let count = rank.saturating_add(1);
        IterRev(match &self.0 {
            Form::Packed(packed) => {
                let pairs: Vec<_> = small::iter(packed).take(count).map(|r| (r.member, r.score)).collect();
                IterRevForm::Packed(pairs.into_iter().rev())
            }
            Form::Large(large) => IterRevForm::Large(large.sorted().range(0..count)),
        })
    }

    /// Visits about `count` members from `cursor` (0 at first) and returns the next cursor (0 at the end).
    ///
    /// A member that exists from the first call to the last is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        match &self.0 {
            Form::Packed(packed) => {
                small::iter(packed).for_each(|r| visit(r.member, r.score));
                0
            }
            Form::Large(large) => {
                let scores = large.scores();
                let name = |index| scores.get_index(index).map(|(member, _)| member.as_slice());
                scan::walk(cursor, count, scores.len(), large.epoch(), name, |index| {
                    if let Some((member, score)) = scores.get_index(index) {
                        visit(member, *score);
                    }
                })
            }
        }
    }

    /// Invalidates the cursors of running scans, because the order of members may have changed.
    pub(crate) fn renumber(&mut self) {
        if let Form::Large(large) = &mut self.0 {
            large.renumber();
        }
    }

    /// Heap bytes held.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.mem_bytes(),
            Form::Large(large) => large.mem_bytes(),
        }
    }
}

/// Members of a [`ZSet`] and their scores, ascending.
#[derive(Clone, Debug)]
pub struct Iter<'a>(IterForm<'a>);

#[derive(Clone, Debug)]
enum IterForm<'a> {
    Packed(small::Records<'a>),
    Large(sorted::Iter<'a, (f64, Bytes)>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterForm::Packed(records) => records.next().map(|r| (r.member, r.score)),
            IterForm::Large(pairs) => pairs.next().map(|(score, member)| (member.as_slice(), *score)),
        }
    }
}

/// Members of a [`ZSet`] and their scores, descending.
#[derive(Clone, Debug)]
pub struct IterRev<'a>(IterRevForm<'a>);

#[derive(Clone, Debug)]
enum IterRevForm<'a> {
    Packed(Rev<vec::IntoIter<(&'a [u8], f64)>>),
    Large(sorted::Iter<'a, (f64, Bytes)>),
}

impl<'a> Iterator for IterRev<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterRevForm::Packed(pairs) => pairs.next(),
            IterRevForm::Large(pairs) => pairs.next_back().map(|(score, member)| (member.as_slice(), *score)),
        }
    }
}

impl<'a> IntoIterator for &'a ZSet {
    type Item = (&'a [u8], f64);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for ZSet {
    fn eq(&self, other: &Self) -> bool {
        let bits = |(member, score): (_, f64)| (member, score.to_bits());
        self.len() == other.len() && self.iter().map(bits).eq(other.iter().map(bits))
    }
}

impl fmt::Debug for ZSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(member, score)| (Bytes::from(member), score))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::value::PACKED_LEN_MAX;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8, f64),
        Remove(u8),
        Scan(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let score = prop_oneof![
            (-3i8..3).prop_map(f64::from),
            (-3i8..3).prop_map(|n| f64::from(n) / 3.0),
            Just(-0.0),
            Just(f64::INFINITY),
            any::<f64>().prop_filter("a number", |score| !score.is_nan()),
        ];
        prop_oneof![
            8 => (any::<u8>(), score).prop_map(|(m, score)| Op::Insert(m, score)),
            3 => any::<u8>().prop_map(Op::Remove),
            1 => (0usize..40).prop_map(Op::Scan),
        ]
    }

    fn name(m: u8) -> Bytes {
        Bytes::from(format!("{m:>width$}", width = 3 + usize::from(m % 3) * 12).as_bytes())
    }

    fn check(zset: &ZSet, model: &BTreeMap<Bytes, f64>) {
        let mut sorted: Vec<(&[u8], f64)> = model.iter().map(|(m, s)| (m.as_slice(), *s)).collect();
        sorted.sort_by(|a, b| order((a.1, a.0), (b.1, b.0)));
        assert_eq!(zset.len(), sorted.len());
        assert!(zset.iter().eq(sorted.iter().copied()));
        assert!(zset.iter_rev_from(usize::MAX).eq(sorted.iter().rev().copied()));
        for (rank, &(member, score)) in sorted.iter().enumerate() {
            assert_eq!(zset.rank(member), Some(rank));
            assert_eq!(zset.nth(rank), Some((member, score)));
            assert_eq!(zset.score(member).map(f64::to_bits), Some(score.to_bits()));
            assert_eq!(zset.seek(|s, m| order((s, m), (score, member)).is_lt()), rank);
            assert_eq!(zset.iter_from(rank).next(), Some((member, score)));
            assert_eq!(zset.iter_rev_from(rank).next(), Some((member, score)));
        }
        assert_eq!((zset.rank(b"x"), zset.nth(sorted.len())), (None, None));
        assert_eq!(zset.iter_from(sorted.len()).next(), None);
        if let Form::Large(large) = &zset.0 {
            large.check();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_sorted_set_is_a_sorted_map(ops in prop::collection::vec(op(), 0..600)) {
            let (mut zset, mut model) = (ZSet::new(), BTreeMap::new());
            let (mut cursor, mut seen, mut constant) = (0, BTreeSet::new(), None);
            for op in ops {
                match op {
                    Op::Insert(m, score) => prop_assert_eq!(zset.insert(&name(m), score), model.insert(name(m), score)),
                    Op::Remove(m) => {
                        prop_assert_eq!(zset.remove(&name(m)), model.remove(&name(m)));
                        constant.iter_mut().for_each(|constant: &mut BTreeSet<Bytes>| { constant.remove(&name(m)); });
                    }
                    Op::Scan(count) => {
                        let there = constant.get_or_insert_with(|| model.keys().cloned().collect());
                        cursor = zset.scan(cursor, count, |m, score| {
                            assert_eq!(model[m].to_bits(), score.to_bits());
                            seen.insert(Bytes::from(m));
                        });
                        if cursor == 0 {
                            prop_assert!(there.is_subset(&seen));
                            constant = None;
                            seen.clear();
                        }
                    }
                }
            }
            check(&zset, &model);
            prop_assert_eq!(&zset.clone(), &zset);
        }
    }

    #[test]
    fn a_sorted_set_becomes_large_at_its_bound_and_stays_equal() {
        let mut zset = ZSet::new();
        for m in 0..PACKED_LEN_MAX {
            assert_eq!(zset.insert(&name(m as u8), (m % 5) as f64), None);
        }
        assert!(zset.is_packed());
        let packed = zset.clone();
        zset.insert(&name(200), 0.0);
        assert!(!zset.is_packed());
        zset.remove(&name(200));
        assert_eq!(zset, packed);
    }

    #[test]
    fn minus_zero_sorts_as_zero_and_is_stored_as_it_is() {
        let mut zset = ZSet::new();
        zset.insert(&Bytes::from(b"b"), -0.0);
        zset.insert(&Bytes::from(b"a"), 0.0);
        assert_eq!(zset.iter().map(|(m, _)| m).collect::<Vec<_>>(), [b"a", b"b"]);
        assert!(zset.score(b"b").is_some_and(f64::is_sign_negative));
    }
}
