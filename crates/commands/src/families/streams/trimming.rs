//! What XADD and XTRIM share: `[MAXLEN | MINID [= | ~] threshold [LIMIT count]] [KEEPREF | DELREF | ACKED]`. It
//! touches the keyspace.

use keystead_model::keyspace::StreamMut;
use keystead_model::value::stream::StreamId;

use super::id;
use super::node::{ENTRIES_MAX, Nodes};
use super::references::{References, Removal, note_deleted};
use crate::args::Cursor;
use crate::ctx::Dialect;
use crate::errors::{self, Fail};
use crate::number;

/// The default maximum of entries that `~` removes: a hundred nodes.
const LIMIT_DEFAULT: u64 = 100 * ENTRIES_MAX as u64;

const BOTH: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
const MAXLEN_NEGATIVE: &str = "ERR The MAXLEN argument must be >= 0.";
const LIMIT_NEGATIVE: &str = "ERR The LIMIT argument must be >= 0.";
const LIMIT_ALONE: &str = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
const LIMIT_EXACT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
const NO_STRATEGY: &str = "ERR syntax error, XTRIM must be called with a trimming strategy";

/// What is removed from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threshold {
    /// The oldest entries, down to this length.
    MaxLen(usize),
    /// Entries before this one.
    MinId(StreamId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    threshold: Threshold,
    /// Whether only whole nodes are removed.
    whole_nodes: bool,
    /// The maximum number of entries that are removed.
    limit: usize,
    references: References,
}

/// The options of trimming while they are parsed.
#[derive(Default)]
pub(super) struct Options {
    threshold: Option<Threshold>,
    about: bool,
    limit: Option<i64>,
    references: Option<References>,
}

impl Options {
    /// Consumes the next argument if it is an option of trimming.
    ///
    /// # Errors
    /// Redis's errors.
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
            return Ok(References::accept(&mut self.references, args));
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

    /// Checks the parsed options as a whole. XTRIM requires a strategy. Upstash treats `~` as exact.
    ///
    /// # Errors
    /// Redis's errors.
    pub(super) fn finish(self, required: bool, dialect: Dialect) -> Result<Option<Trim>, Fail> {
        let whole_nodes = self.about && dialect == Dialect::Redis;
        let limit = match self.limit {
            Some(limit) if limit > 0 && self.threshold.is_none() => Err(LIMIT_ALONE),
            _ if required && self.threshold.is_none() => Err(NO_STRATEGY),
            Some(_) if !self.about => Err(LIMIT_EXACT),
            Some(limit @ 1..) => Ok(limit.unsigned_abs()),
            None if whole_nodes => Ok(LIMIT_DEFAULT),
            _ => Ok(u64::MAX),
        };
        let limit = limit.map_err(|text| Fail::Text(text.into()))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let references = self.references.unwrap_or_default();
        Ok(self.threshold.map(|threshold| Trim { threshold, whole_nodes, limit, references }))
    }
}

impl Trim {
    /// Trims, and returns how many entries were removed.
    pub(super) fn apply(self, stream: &mut StreamMut<'_>) -> usize {
        let excess = match self.threshold {
            Threshold::MaxLen(len) => stream.len().saturating_sub(len),
            Threshold::MinId(id) => stream.count_below(id),
        };
        // If an entry must stay, a later one may be removed instead, except those after the threshold.
        let examined = match self.threshold {
            _ if self.whole_nodes => whole_nodes(stream, excess, self.limit),
            Threshold::MaxLen(_) => stream.len(),
            Threshold::MinId(_) => excess,
        };
        let most = excess.min(self.limit);
        let (mut removed, mut held, mut highest) = (0, false, None);
        let mut next = stream.first().map(|(id, _)| id);
        for _ in 0..examined {
            let Some(id) = next.filter(|_| removed < most) else { break };
            next = id.next().and_then(|after| stream.range(after..).next().map(|(id, _)| id));
            match self.references.remove(stream, id) {
                Removal::Deleted => {
                    removed += 1;
                    highest = highest.max(held.then_some(id));
                }
                Removal::Held => held = true,
                Removal::Absent => {}
            }
        }
        // Removing an entry after one that stays leaves a gap.
        note_deleted(stream, highest);
        removed
    }
}

/// How many of the first `excess` entries fill whole nodes, at most `limit`.
fn whole_nodes(stream: &StreamMut<'_>, excess: usize, limit: usize) -> usize {
    let most = excess.min(limit);
    let mut nodes = Nodes::new(stream.range(..));
    let mut count = 0;
    while let Some(node) = nodes.next(most - count) {
        count += node.len;
    }
    count
}
