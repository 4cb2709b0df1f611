//! What XADD and XTRIM have in common: `[MAXLEN | MINID [= | ~] threshold [LIMIT count]]`. It touches the keyspace.

use keystead_model::keyspace::StreamMut;
use keystead_model::value::stream::StreamId;

use super::id;
use super::node::{ENTRIES_MAX, Nodes};
use crate::args::Cursor;
use crate::errors::{self, Fail};
use crate::number;

/// How many entries `~` removes at most when nobody says: a hundred nodes.
const LIMIT_DEFAULT: u64 = 100 * ENTRIES_MAX as u64;

const BOTH: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
const MAXLEN_NEGATIVE: &str = "ERR The MAXLEN argument must be >= 0.";
const LIMIT_NEGATIVE: &str = "ERR The LIMIT argument must be >= 0.";
const LIMIT_ALONE: &str = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
const LIMIT_EXACT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
const NO_STRATEGY: &str = "ERR syntax error, XTRIM must be called with a trimming strategy";

/// What leaves a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threshold {
    /// The first entries, until there are no more than this.
    MaxLen(usize),
    /// Entries before this one.
    MinId(StreamId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    threshold: Threshold,
    /// Whether only whole nodes leave, and how many entries at most.
    about: Option<u64>,
}

/// The options of trimming while they are read.
#[derive(Default)]
pub(super) struct Options {
    threshold: Option<Threshold>,
    about: bool,
    limit: Option<i64>,
}

impl Options {
    /// Takes the next argument if it is an option of trimming.
    ///
    /// # Errors
    /// Redis's texts.
    pub(super) fn take(&mut self, args: &mut Cursor<'_>) -> Result<bool, Fail> {
        if args.accept_with("MAXLEN", 1) {
            self.begin(args)?;
            let len = args.int()?;
            let len = u64::try_from(len).map_err(|_| Fail::Text(MAXLEN_NEGATIVE.into()))?;
            self.threshold = Some(Threshold::MaxLen(usize::try_from(len).unwrap_or(usize::MAX)));
        } else if args.accept_with("MINID", 1) {
            self.begin(args)?;
            self.threshold = Some(Threshold::MinId(id::strict(args.bytes()?, 0)?));
        } else if args.accept_with("LIMIT", 1) {
            let limit = number::parse_int(args.bytes()?).ok_or(errors::NOT_INT)?;
            if limit < 0 {
                return Err(Fail::Text(LIMIT_NEGATIVE.into()));
            }
            self.limit = Some(limit);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn begin(&mut self, args: &mut Cursor<'_>) -> Result<(), Fail> {
        if self.threshold.is_some() {
            return Err(Fail::Text(BOTH.into()));
        }
        self.about = args.accept_with("~", 1);
        if !self.about {
            args.accept_with("=", 1);
        }
        Ok(())
    }

    /// What was read, checked as a whole. XTRIM must be told what to trim.
    ///
    /// # Errors
    /// Redis's texts.
    pub(super) fn finish(self, required: bool) -> Result<Option<Trim>, Fail> {
        let about = match self.limit {
            Some(limit) if limit > 0 && self.threshold.is_none() => Err(LIMIT_ALONE),
            _ if required && self.threshold.is_none() => Err(NO_STRATEGY),
            Some(_) if !self.about => Err(LIMIT_EXACT),
            Some(0) => Ok(Some(u64::MAX)),
            Some(limit) => Ok(Some(limit.unsigned_abs())),
            None => Ok(self.about.then_some(LIMIT_DEFAULT)),
        };
        let about = about.map_err(|text| Fail::Text(text.into()))?;
        Ok(self.threshold.map(|threshold| Trim { threshold, about }))
    }
}

impl Trim {
    /// Trims, and tells how many entries left.
    pub(super) fn apply(self, stream: &mut StreamMut<'_>) -> usize {
        let excess = match self.threshold {
            Threshold::MaxLen(len) => stream.len().saturating_sub(len),
            Threshold::MinId(id) => stream.count_below(id),
        };
        let count = match self.about {
            None => excess,
            Some(limit) => whole_nodes(stream, excess, limit),
        };
        for _ in 0..count {
            if let Some((id, _)) = stream.first() {
                stream.remove(id);
            }
        }
        count
    }
}

/// How many of the first `excess` entries fill whole nodes, `limit` at most.
fn whole_nodes(stream: &StreamMut<'_>, excess: usize, limit: u64) -> usize {
    let most = excess.min(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut nodes = Nodes::new(stream.range(..));
    let mut count = 0;
    while let Some(node) = nodes.next(most - count) {
        count += node.len;
    }
    count
}
