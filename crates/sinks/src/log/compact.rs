//! Compaction of a log: of the events up to the window, only the last of each key is kept. Touches the target.
//!
//! Invariant: the window moves before the first row is removed, and what is removed changes no state of the window. So it may end at any moment,
//! and the next one goes on.

use keystead_core::{Millis, Result};

use super::event::{Event, Kind, Seq};
use super::fold::KeyState;
use super::read::{Marks, state_of};
use super::{Compaction, Extent, LogTarget, Query, corrupt, extent, number};
use crate::bounds::{LOG_COMPACT_ROWS, LOG_FOLD_BYTES, LOG_FOLD_KEYS};

/// What is kept as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Events that were read at this time or later.
    Since(Millis),
    /// So many of the last events.
    Last(u64),
}

/// Compacts a log. Returns how many rows were removed or became whole.
///
/// # Errors
/// `store_unavailable`; `too_large` when a key has too many events. What was done until then stays.
pub async fn compact(log: &dyn LogTarget, keep: &[Keep]) -> Result<u64> {
    let Extent { last, first } = extent(log).await?;
    let mut window = Seq(0);
    for keep in keep {
        window = window.max(match keep {
            Keep::Last(count) => Seq(last.0.saturating_sub(*count)),
            Keep::Since(time) => before(log, first, *time).await?,
        });
    }
    if window <= first {
        return Ok(0);
    }
    // In the middle of a snapshot there is no state to begin with.
    let Some(marks) = Marks::at(log, window).await? else { return Ok(0) };
    log.change(&Compaction::Begin(window)).await?;
    let mut changed = 0;
    let void = |after, through| Compaction::Void { after, through, shard: None };
    changed += in_chunks(log, Seq(0), Seq(marks.base.0 - 1), void).await?;
    for (shard, flush) in &marks.flushes {
        let void = |after, through| Compaction::Void { after, through, shard: Some(shard.0) };
        changed += in_chunks(log, marks.base, Seq(flush.0 - 1), void).await?;
    }
    let superseded = |after, through| Compaction::Superseded { after, through, window };
    changed += in_chunks(log, marks.base, window, superseded).await?;
    Ok(changed + fold(log, &marks, window).await?)
}

/// The last event that was read before a time, after this one.
async fn before(log: &dyn LogTarget, first: Seq, time: Millis) -> Result<Seq> {
    let mut found = first;
    loop {
        let query = Query::Next { after: found, before_ms: time.0, most: LOG_COMPACT_ROWS };
        let rows = log.read(&query).await?;
        let row = rows.first().ok_or_else(corrupt)?;
        let (count, last) = (number(row, 0).ok_or_else(corrupt)?, number(row, 1));
        let Some(before) = number(row, 2) else { return Ok(found) };
        found = Seq(before);
        if last != Some(before) || count < LOG_COMPACT_ROWS as u64 {
            return Ok(found);
        }
    }
}

/// Makes a change of so many rows at a time that it takes no longer than a call may.
async fn in_chunks(
    log: &dyn LogTarget,
    after: Seq,
    through: Seq,
    change: impl Fn(Seq, Seq) -> Compaction,
) -> Result<u64> {
    let (mut at, mut changed) = (after, 0);
    while at < through {
        let rows = log.read(&Query::Next { after: at, before_ms: 0, most: LOG_COMPACT_ROWS }).await?;
        let Some(last) = rows.first().and_then(|row| number(row, 1)) else { break };
        let end = Seq(last.min(through.0));
        changed += log.change(&change(at, end)).await?;
        at = end;
    }
    Ok(changed)
}

/// Keys with several events left are collections: the last event gets the whole value.
async fn fold(log: &dyn LogTarget, marks: &Marks, window: Seq) -> Result<u64> {
    let (mut after, mut changed) = (None, 0);
    loop {
        let query = Query::Keys {
            prefix: String::new(),
            after,
            base: marks.base,
            through: window,
            only_several: true,
            most: LOG_FOLD_KEYS,
        };
        let rows = log.read(&query).await?;
        let (mut events, mut bytes): (Vec<Event>, usize) = (Vec::new(), 0);
        for row in &rows {
            let key = row.first().cloned().flatten().ok_or_else(corrupt)?;
            // What is not known yet may be repaired.
            if let (KeyState::Is(state), Some(last)) = state_of(log, &key, marks, window).await? {
                let whole = Event { kind: Kind::Put, of: Some(state.of), value: Some(state.value), ..last };
                bytes += whole.size();
                events.push(whole);
            }
            if bytes >= LOG_FOLD_BYTES {
                changed += log.change(&Compaction::Fold(std::mem::take(&mut events))).await?;
                bytes = 0;
            }
        }
        if !events.is_empty() {
            changed += log.change(&Compaction::Fold(events)).await?;
        }
        match rows.last() {
            Some(row) if rows.len() == LOG_FOLD_KEYS => after = row.first().cloned().flatten(),
            _ => return Ok(changed),
        }
    }
}
