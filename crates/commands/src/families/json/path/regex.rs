//! Regular expressions in filters: `=~`, `match` and `search`. It touches nothing.
//!
//! The engine takes time linear in the text, times the size of the expression; the size is bounded, and the text counts
//! as visits.

use std::cell::OnceCell;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::PathFlaw;
use super::filter::Term;
use super::select::Walk;
use crate::bounds::JSON_REGEX_BYTES_MAX;

/// The cost of compiling an expression, in visits.
const VISITS_PER_REGEX: usize = 2_000;

/// Bytes of a text that count as one visit.
const BYTES_PER_VISIT: usize = 8;

/// An expression and how it is applied.
#[derive(Debug)]
pub(super) struct Pattern {
    term: Term,
    /// Whether it has to match the whole text.
    whole: bool,
    /// Compiled once, if it is a literal in the path.
    made: OnceCell<Option<Regex>>,
}

impl Pattern {
    pub(super) fn new(term: Term, whole: bool) -> Pattern {
        Pattern { term, whole, made: OnceCell::new() }
    }

    /// Whether a text matches. A value that is not a text, or an invalid expression, matches nothing.
    pub(super) fn matches<'a>(
        &'a self,
        subject: &'a Term,
        value: &'a Value,
        walk: &mut Walk<'a>,
    ) -> Result<bool, PathFlaw> {
        let subject = subject.value(value, walk)?;
        let Some(Value::String(subject)) = subject.as_deref() else { return Ok(false) };
        walk.visit(subject.len() / BYTES_PER_VISIT)?;
        if let Term::Literal(literal) = &self.term {
            if self.made.get().is_none() {
                walk.visit(VISITS_PER_REGEX)?;
            }
            let regex = self.made.get_or_init(|| literal.as_str().and_then(|text| self.make(text)));
            return Ok(regex.as_ref().is_some_and(|regex| regex.is_match(subject)));
        }
        let pattern = self.term.value(value, walk)?;
        let Some(Value::String(pattern)) = pattern.as_deref() else { return Ok(false) };
        walk.visit(VISITS_PER_REGEX)?;
        Ok(self.make(pattern).is_some_and(|regex| regex.is_match(subject)))
    }

    fn make(&self, text: &str) -> Option<Regex> {
        if text.len() > JSON_REGEX_BYTES_MAX {
            return None;
        }
        let whole;
        let text = if self.whole {
            whole = format!("^(?:{text})$");
            &whole
        } else {
            text
        };
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(SIZE_MAX).dfa_size_limit(SIZE_MAX).nest_limit(32).build().ok()
    }
}

/// Bytes that a compiled expression uses.
const SIZE_MAX: usize = 256 * 1024;
