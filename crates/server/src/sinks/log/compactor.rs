//! Compaction of an event log from time to time, and on request. Touches the target, on a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Clock, Code, Error, Millis, Result, SystemClock};
use keystead_sinks::Sink;
use keystead_sinks::log::{self, Keep};

use super::super::file::Definition;
use super::super::shared::Shared;
use crate::bounds::SINK_COMPACT_EVERY;

/// Compacts a log as its settings say; on request without settings, of all events. Returns how many rows were removed or became whole.
pub(in super::super) async fn compact(
    reader: &dyn Sink,
    definition: &Definition,
    shared: &Shared,
    age: Option<Duration>,
) -> Result<u64> {
    let log = reader.log().ok_or_else(|| Error::new(Code::Unsupported, "this sink has no event log"))?;
    let before =
        |age: Duration| Keep::Since(Millis(SystemClock.now().0.saturating_sub(age.as_millis() as u64)));
    let mut keep: Vec<Keep> = age.or(definition.compact_after).map(before).into_iter().collect();
    if age.is_none() {
        keep.extend(definition.compact_rows.map(Keep::Last));
    }
    if keep.is_empty() {
        keep.push(Keep::Last(0));
    }
    let compacted = log::compact(log, &keep).await?;
    shared.status().compacted += compacted;
    Ok(compacted)
}

/// Does so now and from time to time, until it is aborted.
pub(in super::super) async fn run(reader: Arc<dyn Sink>, definition: Arc<Definition>, shared: Arc<Shared>) {
    loop {
        if let Err(error) = compact(&*reader, &definition, &shared, None).await {
            tracing::warn!(sink = definition.name, %error, "the event log cannot be compacted: it is tried again");
        }
        tokio::time::sleep(SINK_COMPACT_EVERY).await;
    }
}
