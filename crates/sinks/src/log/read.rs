//! Reading a log: pages of events, and pages of the state at an event. Touches the target.
//!
//! Invariant: a page that is returned is complete. The window is looked at after its rows, since a compaction moves it before it removes any.

use std::collections::HashMap;

use keystead_core::{Code, Error, Result, ShardId};

use super::event::{Event, Kind, Seq};
use super::fold::{KeyState, State};
use super::{Extent, LogTarget, Query, corrupt, extent, number};
use crate::bounds::{LOG_FOLD_EVENTS_MAX, LOG_FOLD_ROWS, LOG_SCAN_EVENTS, LOG_SLICE_ROWS};

/// Some events in order.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// The event after which the next page begins.
    pub next: Seq,
    /// The last event of the log.
    pub last: Seq,
}

/// Some keys in ascending order, as they were at an event.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePage {
    /// That event.
    pub at: Seq,
    /// The keys. Without a state: a change of it is not in the log.
    pub keys: Vec<(String, Option<State>)>,
    /// The key after which the next page begins. None: it was the last one.
    pub next: Option<String>,
}

/// The events of keys with a prefix after `since`, and marks; at most so many, and about so many bytes.
///
/// # Errors
/// `gone` before the window; `bad_request` after the last event; `store_unavailable`.
pub async fn events(
    log: &dyn LogTarget,
    prefix: &str,
    since: Seq,
    limit: usize,
    bytes_max: usize,
) -> Result<EventPage> {
    let Extent { last, .. } = extent(log).await?;
    if since > last {
        return Err(not_yet(since, last));
    }
    // The work for a prefix that few events have.
    let through = Seq(last.0.min(since.0.saturating_add(LOG_SCAN_EVENTS)));
    let (mut found, mut next, mut bytes): (Vec<Event>, Seq, usize) = (Vec::new(), since, 0);
    while next < through && found.len() < limit && bytes < bytes_max {
        let most = LOG_SLICE_ROWS.min(limit - found.len());
        let query = Query::Events { prefix: prefix.to_owned(), after: next, through, most };
        let rows = log.read(&query).await?;
        let is_end = rows.len() < most;
        for row in &rows {
            let event = Event::of_cells(row)?;
            next = event.seq;
            bytes += event.size();
            found.push(event);
        }
        if is_end {
            next = through;
        }
    }
    let Extent { first, .. } = extent(log).await?;
    if since < first {
        return Err(gone(since, first));
    }
    Ok(EventPage { events: found, next, last })
}

/// The keys with a prefix as they were at an event; at the last one, if there is none.
///
/// # Errors
/// `gone` before the window or in the middle of a snapshot; `bad_request` after the last event; `too_large` when a collection has had
/// too many changes since it was stored as a whole; `store_unavailable`.
pub async fn states(
    log: &dyn LogTarget,
    prefix: &str,
    at: Option<Seq>,
    after: Option<&str>,
    limit: usize,
    bytes_max: usize,
) -> Result<StatePage> {
    let Extent { last, .. } = extent(log).await?;
    let at = at.unwrap_or(last);
    if at > last {
        return Err(not_yet(at, last));
    }
    let marks = Marks::at(log, at).await?;
    let base = match &marks {
        Some(marks) => marks.base,
        // Compacted meanwhile, perhaps.
        None => return Err(window_error(log, at).await?.unwrap_or_else(|| not_complete(at))),
    };
    let (mut keys, mut bytes, mut next) = (Vec::new(), 0, after.map(str::to_owned));
    let mut is_end = false;
    while !is_end && keys.len() < limit && bytes < bytes_max {
        let most = LOG_SLICE_ROWS.min(limit - keys.len());
        let query = Query::Keys {
            prefix: prefix.to_owned(),
            after: next.clone(),
            base,
            through: at,
            only_several: false,
            most,
        };
        let rows = log.read(&query).await?;
        is_end = rows.len() < most;
        for row in &rows {
            let key = row.first().cloned().flatten().ok_or_else(corrupt)?;
            let marks = marks.as_ref().ok_or_else(corrupt)?;
            match state_of(log, &key, marks, at).await?.0 {
                KeyState::Absent => {}
                KeyState::Unknown(_) => keys.push((key.clone(), None)),
                KeyState::Is(state) => {
                    bytes += key.len() + state.value.to_string().len();
                    keys.push((key.clone(), Some(state)));
                }
            }
            next = Some(key);
            if bytes >= bytes_max {
                is_end = false;
                break;
            }
        }
    }
    if let Some(error) = window_error(log, at).await? {
        return Err(error);
    }
    Ok(StatePage { at, keys, next: if is_end { None } else { next } })
}

/// The marks that the state at an event depends on.
pub(super) struct Marks {
    /// Where the snapshot began that it is based on.
    pub(super) base: Seq,
    /// The last deletion of all keys of a shard since then.
    pub(super) flushes: HashMap<ShardId, Seq>,
}

impl Marks {
    /// None: the event is before the first snapshot is complete, or in the middle of another one.
    pub(super) async fn at(log: &dyn LogTarget, at: Seq) -> Result<Option<Marks>> {
        let rows = log.read(&Query::Marks { through: at }).await?;
        let (mut base, mut complete, mut flushes) = (Seq(0), Seq(0), HashMap::new());
        for row in &rows {
            let kind =
                row.first().and_then(|cell| cell.as_deref()).and_then(Kind::named).ok_or_else(corrupt)?;
            let (shard, seq) = (number(row, 1).ok_or_else(corrupt)?, number(row, 2).ok_or_else(corrupt)?);
            match kind {
                Kind::Begin | Kind::Gap => base = base.max(Seq(seq)),
                Kind::Complete => complete = complete.max(Seq(seq)),
                _ => drop(flushes.insert(ShardId(shard as usize), Seq(seq))),
            }
        }
        flushes.retain(|_, seq| *seq > base);
        Ok((complete > base).then_some(Marks { base, flushes }))
    }
}

/// The state of a key at an event, and the last of the events that make it up.
pub(super) async fn state_of(
    log: &dyn LogTarget,
    key: &str,
    marks: &Marks,
    at: Seq,
) -> Result<(KeyState, Option<Event>)> {
    let (mut state, mut last, mut base, mut seen) = (KeyState::Absent, None, marks.base, 0);
    loop {
        let query = Query::OfKey { key: key.to_owned(), base, through: at, most: LOG_FOLD_ROWS };
        let rows = log.read(&query).await?;
        seen += rows.len();
        if seen > LOG_FOLD_EVENTS_MAX {
            let message = format!(
                "the key has had more than {LOG_FOLD_EVENTS_MAX} changes since it was stored as a whole: compact the log"
            );
            return Err(Error::new(Code::TooLarge, message));
        }
        let is_end = rows.len() < LOG_FOLD_ROWS;
        for row in &rows {
            let event = Event::of_cells(row)?;
            base = event.seq;
            if marks.flushes.get(&event.shard).is_some_and(|flush| *flush > event.seq) {
                continue;
            }
            state = state.after(&event);
            last = Some(event);
        }
        if is_end {
            return Ok((state, last));
        }
    }
}

async fn window_error(log: &dyn LogTarget, at: Seq) -> Result<Option<Error>> {
    let Extent { first, .. } = extent(log).await?;
    Ok((at < first).then(|| gone(at, first)))
}

fn gone(at: Seq, first: Seq) -> Error {
    Error::new(
        Code::Gone,
        format!("event {at} is before the window of the log, which begins at {first}: it was compacted"),
    )
}

fn not_yet(at: Seq, last: Seq) -> Error {
    Error::new(Code::BadRequest, format!("event {at} does not exist yet, the last is {last}"))
}

fn not_complete(at: Seq) -> Error {
    Error::new(
        Code::Gone,
        format!(
            "at event {at} a snapshot of all keys was being written: the state is complete at the next event of the kind complete"
        ),
    )
}
