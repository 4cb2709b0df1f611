//! The options of SORT. It touches nothing.

use std::ops::Range;

use super::pattern::Pattern;
use crate::Args;
use crate::errors::{self, Fail};

/// The parsed options.
#[derive(Debug, Default)]
pub(super) struct Options<'a> {
    /// The BY pattern; [`Pattern::Nothing`]: the elements keep their order.
    pub(super) by: Option<Pattern<'a>>,
    pub(super) get: Vec<Pattern<'a>>,
    pub(super) alpha: bool,
    pub(super) descending: bool,
    pub(super) store: Option<&'a [u8]>,
    limit: Option<(i64, i64)>,
}

impl<'a> Options<'a> {
    pub(super) fn parse(args: Args<'a>, may_store: bool) -> Result<Self, Fail> {
        let mut options = Options::default();
        let mut cursor = args.cursor(2);
        while !cursor.is_done() {
            if cursor.accept("ASC") {
                options.descending = false;
            } else if cursor.accept("DESC") {
                options.descending = true;
            } else if cursor.accept("ALPHA") {
                options.alpha = true;
            } else if cursor.accept_with("LIMIT", 2) {
                options.limit = Some((cursor.int()?, cursor.int()?));
            } else if may_store && cursor.accept_with("STORE", 1) {
                options.store = cursor.next();
            } else if cursor.accept_with("BY", 1) {
                let pattern = Pattern::parse(cursor.bytes()?);
                options.by = Some(if pattern == Pattern::Itself { Pattern::Nothing } else { pattern });
            } else if cursor.accept_with("GET", 1) {
                options.get.push(Pattern::parse(cursor.bytes()?));
            } else {
                return Err(errors::SYNTAX);
            }
        }
        Ok(options)
    }

    /// Which of `len` elements are requested.
    pub(super) fn range(&self, len: usize) -> Range<usize> {
        let Some((offset, count)) = self.limit else {
            return 0..len;
        };
        let start = usize::try_from(offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}
