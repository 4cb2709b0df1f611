//! ZUNION, ZINTER and ZDIFF: combines several sorted sets, or sets, into one. It touches the keyspace.

use std::cmp::Ordering;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keystead_model::value::{Kind, Set, Value, ZSet};

use crate::args::{Args, Cursor};
use crate::ctx::Ctx;
use crate::errors::{self, Fail};
use crate::number;

const WEIGHT_NOT_FLOAT: &str = "ERR weight value is not a float";

/// Members with their scores.
pub(super) type Scored<'k> = Vec<(&'k [u8], f64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Inter,
    Diff,
}

/// How the scores of one member in several sets are combined.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => {
                let sum = a + b;
                // Infinity plus minus infinity is zero.
                if sum.is_nan() { 0.0 } else { sum }
            }
            // In this order a NaN in `b` is skipped.
            Aggregate::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Aggregate::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// The parsed arguments.
pub(super) struct Combine<'a> {
    operation: Operation,
    keys: Vec<&'a [u8]>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    pub(super) with_scores: bool,
}

/// A set whose members all have the same score.
#[derive(Clone, Copy)]
enum Source<'k> {
    Absent,
    Set(&'k Set),
    ZSet(&'k ZSet),
}

impl<'k> Source<'k> {
    fn len(self) -> usize {
        match self {
            Source::Absent => 0,
            Source::Set(set) => set.len(),
            Source::ZSet(zset) => zset.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Absent => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::ZSet(zset) => zset.score(member),
        }
    }

    fn iter(self) -> impl Iterator<Item = (&'k [u8], f64)> {
        let (set, zset) = match self {
            Source::Absent => (None, None),
            Source::Set(set) => (Some(set), None),
            Source::ZSet(zset) => (None, Some(zset)),
        };
        let members = set.into_iter().flatten().map(|member| (member, 1.0));
        members.chain(zset.into_iter().flatten())
    }
}

/// Parses the number of keys at the cursor, and the keys; loads their values into memory.
pub(super) fn parse_keys<'a>(
    ctx: &mut Ctx<'_>,
    args: &mut Cursor<'a>,
    name: &str,
) -> Result<Vec<&'a [u8]>, Fail> {
    let count = args.int()?;
    if count < 1 {
        return Err(Fail::text(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= args.left()).ok_or(errors::SYNTAX)?;
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let key = args.bytes()?;
        if ctx.keys.kind(key, ctx.now)?.is_some_and(|kind| !matches!(kind, Kind::Set | Kind::ZSet)) {
            return Err(errors::WRONG_TYPE);
        }
        ctx.keys.settle(key, ctx.now)?;
        keys.push(key);
    }
    Ok(keys)
}

impl<'a> Combine<'a> {
    /// Parses everything from the number of keys on, which is at index `at`. The types of keys are checked before the
    /// options.
    pub(super) fn parse(
        ctx: &mut Ctx<'_>,
        args: Args<'a>,
        at: usize,
        operation: Operation,
        name: &str,
        stored: bool,
    ) -> Result<Self, Fail> {
        let mut cursor = args.cursor(at);
        let keys = parse_keys(ctx, &mut cursor, name)?;
        let mut weights = vec![1.0; keys.len()];
        let (mut aggregate, mut with_scores) = (Aggregate::Sum, false);
        let joins = operation != Operation::Diff;
        while !cursor.is_done() {
            if joins && cursor.accept_with("WEIGHTS", keys.len()) {
                for weight in &mut weights {
                    let value = number::parse_float(cursor.bytes()?);
                    *weight = value.ok_or_else(|| Fail::text(WEIGHT_NOT_FLOAT))?;
                }
            } else if joins && cursor.accept_with("AGGREGATE", 1) {
                aggregate = if cursor.accept("SUM") {
                    Aggregate::Sum
                } else if cursor.accept("MIN") {
                    Aggregate::Min
                } else if cursor.accept("MAX") {
                    Aggregate::Max
                } else {
                    return Err(errors::SYNTAX);
                };
            } else if !stored && cursor.accept("WITHSCORES") {
                with_scores = true;
            } else {
                return Err(errors::SYNTAX);
            }
        }
        Ok(Combine { operation, keys, weights, aggregate, with_scores })
    }

    /// The members and their scores, in order.
    pub(super) fn run<'k>(&self, ctx: &'k Ctx<'_>) -> Scored<'k> {
        let mut sources = sources(ctx, &self.keys, &self.weights);
        if self.operation != Operation::Diff {
            // The smallest first, which determines the order in which scores are added.
            sources.sort_by_key(|(source, _)| source.len());
        }
        let mut members = match self.operation {
            Operation::Union => self.union(&sources),
            Operation::Inter => self.inter(&sources),
            Operation::Diff => diff(&sources),
        };
        members.sort_unstable_by(|a, b| {
            a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(b.0))
        });
        members
    }

    fn union<'k>(&self, sources: &[(Source<'k>, f64)]) -> Scored<'k> {
        let mut scores: HashMap<&[u8], f64, RandomState> = HashMap::default();
        for (source, weight) in sources {
            for (member, score) in source.iter() {
                let score = weighted(score, *weight);
                let joined = scores.entry(member).and_modify(|old| *old = self.aggregate.join(*old, score));
                joined.or_insert(score);
            }
        }
        scores.into_iter().collect()
    }

    fn inter<'k>(&self, sources: &[(Source<'k>, f64)]) -> Scored<'k> {
        let Some(((smallest, weight), others)) = sources.split_first() else { return Vec::new() };
        let in_all = smallest.iter().filter_map(|(member, score)| {
            let mut joined = weighted(score, *weight);
            for (other, weight) in others {
                joined = self.aggregate.join(joined, other.score(member)? * weight);
            }
            Some((member, joined))
        });
        in_all.collect()
    }
}

/// The number of members that all of these keys have, counted up to `limit`.
pub(super) fn count_common(ctx: &Ctx<'_>, keys: &[&[u8]], limit: usize) -> usize {
    let mut sources = sources(ctx, keys, &[]);
    sources.sort_by_key(|(source, _)| source.len());
    let Some(((smallest, _), others)) = sources.split_first() else { return 0 };
    let in_all = |member: &[u8]| others.iter().all(|(other, _)| other.score(member).is_some());
    smallest.iter().filter(|(member, _)| in_all(member)).take(limit).count()
}

/// The values of keys, which are in memory, with their weights.
fn sources<'k>(ctx: &'k Ctx<'_>, keys: &[&[u8]], weights: &[f64]) -> Vec<(Source<'k>, f64)> {
    let weights = weights.iter().copied().chain(std::iter::repeat(1.0));
    let source = |key: &&[u8]| match ctx.keys.peek(key, ctx.now) {
        Some(Value::Set(set)) => Source::Set(set),
        Some(Value::ZSet(zset)) => Source::ZSet(zset),
        _ => Source::Absent,
    };
    keys.iter().map(source).zip(weights).collect()
}

fn diff<'k>(sources: &[(Source<'k>, f64)]) -> Scored<'k> {
    let Some(((first, _), others)) = sources.split_first() else { return Vec::new() };
    let in_others = |member: &[u8]| others.iter().any(|(other, _)| other.score(member).is_some());
    first.iter().filter(|(member, _)| !in_others(member)).collect()
}

/// Zero times infinity is zero.
fn weighted(score: f64, weight: f64) -> f64 {
    let product = score * weight;
    if product.is_nan() { 0.0 } else { product }
}
