//! An event in the file of a quarantine. Pure.

use keystead_core::{Millis, Revision, ShardId, Version};
use keystead_sinks::log::{Event, Kind, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The parts of an event.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredEvent {
    seq: u64,
    shard: usize,
    revision: u64,
    key: String,
    version: u64,
    kind: String,
    of: Option<String>,
    /// In an array, so that `null` is a value.
    value: Option<[Value; 1]>,
    expires_ms: Option<u64>,
    time_ms: u64,
}

impl StoredEvent {
    pub(super) fn of(event: &Event) -> StoredEvent {
        StoredEvent {
            seq: event.seq.0,
            shard: event.shard.0,
            revision: event.revision.0,
            key: event.key.clone(),
            version: event.version.0,
            kind: event.kind.as_str().to_owned(),
            of: event.of.clone(),
            value: event.value.clone().map(|value| [value]),
            expires_ms: event.expires_at.map(|at| at.0),
            time_ms: event.time.0,
        }
    }

    /// None: it is not one that was stored.
    pub(super) fn restored(self) -> Option<Event> {
        Some(Event {
            seq: Seq(self.seq),
            shard: ShardId(self.shard),
            revision: Revision(self.revision),
            key: self.key,
            version: Version(self.version),
            kind: Kind::named(&self.kind)?,
            of: self.of,
            value: self.value.map(|[value]| value),
            expires_at: self.expires_ms.map(Millis),
            time: Millis(self.time_ms),
        })
    }
}
