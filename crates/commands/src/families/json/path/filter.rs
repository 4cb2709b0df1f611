//! Filters of a path: their expressions and evaluation. They only read the tree that they are given.

use std::borrow::Cow;

use serde_json::Value;

use super::compare::{self, Operator};
use super::regex::Pattern;
use super::select::Walk;
use super::{PathFlaw, Segment};

/// Bytes of a text that count as one visit.
const BYTES_PER_VISIT: usize = 64;

/// A filter expression.
#[derive(Debug)]
pub(super) enum Test {
    AnyOf(Vec<Test>),
    AllOf(Vec<Test>),
    Not(Box<Test>),
    Exists(Query),
    Compare(Term, Operator, Term),
    Matches(Term, Pattern),
}

/// One side of a comparison.
#[derive(Debug)]
pub(super) enum Term {
    Literal(Value),
    Query(Query),
    Call(Function),
}

/// A path within a filter.
#[derive(Debug)]
pub(super) struct Query {
    /// From `$`, else from `@`.
    pub(super) from_root: bool,
    pub(super) segments: Vec<Segment>,
}

/// A function of RFC 9535.
#[derive(Debug)]
pub(super) enum Function {
    Length(Box<Term>),
    Count(Query),
    Value(Query),
    /// `match` and `search`: the pattern knows which one.
    Match(Box<Term>, Box<Pattern>),
}

impl Test {
    pub(super) fn passes<'a>(&'a self, value: &'a Value, walk: &mut Walk<'a>) -> Result<bool, PathFlaw> {
        walk.visit(1)?;
        match self {
            Test::AnyOf(tests) => {
                for test in tests {
                    if test.passes(value, walk)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::AllOf(tests) => {
                for test in tests {
                    if !test.passes(value, walk)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::Not(test) => Ok(!test.passes(value, walk)?),
            Test::Exists(query) => Ok(!query.select(value, walk)?.is_empty()),
            Test::Compare(left, operator, right) => {
                let (left, right) = (left.value(value, walk)?, right.value(value, walk)?);
                compare::holds(left.as_deref(), *operator, right.as_deref(), walk)
            }
            Test::Matches(subject, pattern) => pattern.matches(subject, value, walk),
        }
    }
}

impl Query {
    fn select<'a>(&'a self, value: &'a Value, walk: &mut Walk<'a>) -> Result<Vec<&'a Value>, PathFlaw> {
        let from = if self.from_root { walk.root } else { value };
        walk.within(&self.segments, from)
    }

    /// The value that it selects, if it is exactly one.
    fn one<'a>(&'a self, value: &'a Value, walk: &mut Walk<'a>) -> Result<Option<&'a Value>, PathFlaw> {
        let selected = self.select(value, walk)?;
        Ok(if let [one] = *selected { Some(one) } else { None })
    }
}

impl Term {
    /// Its value, if there is one.
    pub(super) fn value<'a>(
        &'a self,
        value: &'a Value,
        walk: &mut Walk<'a>,
    ) -> Result<Option<Cow<'a, Value>>, PathFlaw> {
        Ok(match self {
            Term::Literal(literal) => Some(Cow::Borrowed(literal)),
            Term::Query(query) | Term::Call(Function::Value(query)) => {
                query.one(value, walk)?.map(Cow::Borrowed)
            }
            Term::Call(Function::Count(query)) => {
                Some(Cow::Owned(Value::from(query.select(value, walk)?.len())))
            }
            Term::Call(Function::Length(subject)) => {
                let length = match subject.value(value, walk)?.as_deref() {
                    Some(Value::String(text)) => {
                        walk.visit(text.len() / BYTES_PER_VISIT)?;
                        Some(text.chars().count())
                    }
                    Some(Value::Array(items)) => Some(items.len()),
                    Some(Value::Object(members)) => Some(members.len()),
                    _ => None,
                };
                length.map(|length| Cow::Owned(Value::from(length)))
            }
            // A logical result is not a value: it cannot be compared.
            Term::Call(Function::Match(..)) => None,
        })
    }
}
