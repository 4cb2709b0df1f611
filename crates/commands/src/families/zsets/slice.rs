//! The arguments of ZRANGE and similar commands, `key min max` and options, and the selected members. It touches nothing.

use std::ops::Range;

use keystead_model::value::ZSet;

use super::range::{Members, Scores};
use crate::args::Args;
use crate::errors::{self, Fail};
use crate::span::span;

const LIMIT_BY_RANK: &str =
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
const SCORES_BY_MEMBER: &str = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";

/// The kind of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// What the name of a command determines; options determine the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) by: Option<By>,
    pub(super) from_back: Option<bool>,
    /// Whether the result is stored in a key, so that WITHSCORES is not allowed.
    pub(super) stored: bool,
    /// Whether LIMIT is allowed with ranks, as in Upstash.
    pub(super) limits_ranks: bool,
}

/// A slice of a sorted set.
#[derive(Debug)]
pub(super) struct Slice<'a> {
    bounds: Bounds<'a>,
    from_back: bool,
    /// How many members are skipped; if negative, the result is empty.
    offset: i64,
    /// How many are returned; all if negative.
    limit: i64,
    pub(super) with_scores: bool,
    limits_ranks: bool,
}

#[derive(Debug)]
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(Scores),
    Members(Members<'a>),
}

impl<'a> Slice<'a> {
    /// Parses the arguments after the key, which is at index `key_at`.
    pub(super) fn parse(args: Args<'a>, key_at: usize, shape: Shape) -> Result<Self, Fail> {
        let Shape { mut by, mut from_back, stored, limits_ranks } = shape;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = args.cursor(key_at + 3);
        while !options.is_done() {
            if !stored && options.accept("WITHSCORES") {
                with_scores = true;
            } else if options.accept_with("LIMIT", 2) {
                (offset, limit) = (options.int()?, options.int()?);
            } else if from_back.is_none() && options.accept("REV") {
                from_back = Some(true);
            } else if by.is_none() && options.accept("BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && options.accept("BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(errors::SYNTAX);
            }
        }
        let (by, from_back) = (by.unwrap_or(By::Rank), from_back.unwrap_or(false));
        if limit != -1 && by == By::Rank && !limits_ranks {
            return Err(Fail::text(LIMIT_BY_RANK));
        }
        if with_scores && by == By::Member {
            return Err(Fail::text(SCORES_BY_MEMBER));
        }
        let (first, second) = (args.at(key_at + 1), args.at(key_at + 2));
        let (min, max) = if from_back { (second, first) } else { (first, second) };
        let bounds = match by {
            By::Rank => Bounds::Ranks(args.int(key_at + 1)?, args.int(key_at + 2)?),
            By::Score => Bounds::Scores(Scores::parse(min, max)?),
            By::Member => Bounds::Members(Members::parse(min, max)?),
        };
        Ok(Slice { bounds, from_back, offset, limit, with_scores, limits_ranks })
    }

    /// Visits the members in order.
    pub(super) fn each<'z>(&self, zset: &'z ZSet, visit: impl FnMut((&'z [u8], f64))) {
        let ranks = self.ranks(zset);
        match ranks.end.checked_sub(1) {
            Some(last) if self.from_back => zset.iter_rev_from(last).take(ranks.len()).for_each(visit),
            _ => zset.iter_from(ranks.start).take(ranks.len()).for_each(visit),
        }
    }

    fn ranks(&self, zset: &ZSet) -> Range<usize> {
        let ranks = match &self.bounds {
            Bounds::Ranks(start, stop) => {
                let places = span(*start, *stop, zset.len());
                let mirrored = zset.len() - places.end..zset.len() - places.start;
                if self.from_back { mirrored } else { places }
            }
            Bounds::Scores(scores) => scores.ranks(zset),
            Bounds::Members(members) => members.ranks(zset, self.from_back),
        };
        // With ranks, a LIMIT that Redis accepts (of -1) has no effect.
        if matches!(self.bounds, Bounds::Ranks(..)) && !self.limits_ranks {
            return ranks;
        }
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let offset = offset.min(ranks.len());
        let left = ranks.len() - offset;
        let count = usize::try_from(self.limit).map_or(left, |limit| limit.min(left));
        if self.from_back {
            let end = ranks.end - offset;
            end - count..end
        } else {
            let start = ranks.start + offset;
            start..start + count
        }
    }
}
