//! Keys whose rows the target rejects, with its reason. Touches a file of the data directory.
//!
//! A key is here instead of holding up the others. It is tried again some times, less and less often, and whenever it changes. Invariant:
//! a key is in the file, on disk, before the target's position passes its change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::BASE64;
use keystead_core::{Code, Error, Millis, Result};
use keystead_model::Bytes;
use keystead_sinks::log::{Event, Seq};
use serde::{Deserialize, Serialize};

use super::stored::StoredEvent;
use crate::bounds::{
    SINK_ATTEMPTS_MAX, SINK_QUARANTINE_BYTES_MAX, SINK_QUARANTINE_KEYS_MAX, SINK_RETRY_AFTER,
    SINK_RETRY_AFTER_MAX,
};
use crate::data_file;

/// A key in quarantine.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The target's reason.
    pub reason: String,
    /// How often its row was rejected.
    pub attempts: u32,
    /// When that was the first time.
    pub since: Millis,
    /// When it is tried again; never by itself if that is [`Millis::NEVER`].
    pub next: Millis,
    /// The event, in an event log.
    pub event: Option<Event>,
}

/// As in the file: a key may be any bytes.
#[derive(Serialize, Deserialize)]
struct Stored {
    key: String,
    reason: String,
    attempts: u32,
    since_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<StoredEvent>,
}

/// The keys in quarantine of a sink.
pub(super) struct Quarantine {
    dir: PathBuf,
    file: String,
    cases: BTreeMap<Bytes, Case>,
    /// About how many bytes their events take.
    bytes: usize,
}

impl Quarantine {
    /// Reads the file, if there is one. Every key is tried once more.
    pub(super) fn open(dir: &Path, sink: &str, now: Millis) -> Result<Quarantine> {
        let file = format!("sink-{sink}.quarantine.json");
        let mut cases = BTreeMap::new();
        if let Some(text) = data_file::read(dir, &file)? {
            let broken =
                || Error::new(Code::Corrupt, format!("{file} is not a list of keys: restore or remove it"));
            let stored: Vec<Stored> = serde_json::from_str(&text).map_err(|_| broken())?;
            for Stored { key, reason, attempts, since_ms, event } in stored {
                let key = BASE64.decode(key.as_bytes()).map_err(|_| broken())?;
                let event = event.map(|event| event.restored().ok_or_else(broken)).transpose()?;
                let case = Case { reason, attempts, since: Millis(since_ms), next: now, event };
                cases.insert(Bytes::from(&key[..]), case);
            }
        }
        let bytes = cases.values().map(bytes_of).sum();
        Ok(Quarantine { dir: dir.to_owned(), file, cases, bytes })
    }

    /// Adds keys whose rows were rejected, and returns when that is on disk.
    ///
    /// # Errors
    /// `queue_full` when there are too many; `store_unavailable` when the file cannot be written.
    pub(super) fn add(&mut self, rejected: Vec<(Bytes, String)>, now: Millis) -> Result<()> {
        for (key, reason) in rejected {
            self.note(key, reason, now, None)?;
        }
        self.save()
    }

    /// Adds one, which is not on disk until it is [saved](Quarantine::save).
    ///
    /// # Errors
    /// `queue_full` when there are too many, or their events are too large.
    pub(super) fn note(
        &mut self,
        key: Bytes,
        reason: String,
        now: Millis,
        event: Option<Event>,
    ) -> Result<()> {
        let is_new = !self.cases.contains_key(&key);
        if is_new && (self.cases.len() >= SINK_QUARANTINE_KEYS_MAX || self.bytes >= SINK_QUARANTINE_BYTES_MAX)
        {
            let (keys, mib) = (SINK_QUARANTINE_KEYS_MAX, SINK_QUARANTINE_BYTES_MAX >> 20);
            return Err(Error::new(
                Code::QueueFull,
                format!(
                    "{keys} keys, or events of {mib} MiB, are in quarantine: repair the target or the values, then keystead \
                     sink retry, or keystead sink skip"
                ),
            ));
        }
        let case = self.cases.entry(key).or_insert_with(|| Case {
            reason: String::new(),
            attempts: 0,
            since: now,
            next: now,
            event,
        });
        if is_new {
            self.bytes += bytes_of(case);
        }
        case.attempts = case.attempts.saturating_add(1);
        case.reason = reason;
        case.next = match case.attempts {
            attempts if attempts < SINK_ATTEMPTS_MAX => after(now, pause(attempts)),
            _ => Millis::NEVER,
        };
        Ok(())
    }

    /// Removes keys whose rows the target has taken. Lost by a crash, they are tried once more.
    pub(super) fn remove<'k>(&mut self, keys: impl IntoIterator<Item = &'k Bytes>) -> Result<usize> {
        let before = self.cases.len();
        for key in keys {
            let removed = self.cases.remove(key);
            self.bytes -= removed.as_ref().map_or(0, bytes_of);
        }
        let removed = before - self.cases.len();
        match removed {
            0 => Ok(0),
            removed => self.save().map(|()| removed),
        }
    }

    /// Removes the events after this one: what became of their batch is known, and it is not in the log. They are appended again.
    pub(super) fn forget_after(&mut self, last: Seq) -> Result<usize> {
        let is_after = |case: &Case| case.event.as_ref().is_some_and(|event| event.seq > last);
        let names = self.cases.iter().filter(|(_, case)| is_after(case)).map(|(name, _)| name.clone());
        let names: Vec<Bytes> = names.collect();
        self.remove(&names)
    }

    /// Whether a key that has changed must wait. It is then tried when its time has come.
    pub(super) fn waits(&mut self, key: &Bytes, now: Millis) -> bool {
        let Some(case) = self.cases.get_mut(key) else { return false };
        case.next = case.next.min(after(now, pause(case.attempts)));
        true
    }

    /// The keys whose time has come, at most so many.
    pub(super) fn due(&self, now: Millis, most: usize) -> Vec<Bytes> {
        let due = self.cases.iter().filter(|(_, case)| case.next <= now);
        due.map(|(key, _)| key.clone()).take(most).collect()
    }

    /// The events whose time has come, at most so many.
    pub(super) fn due_events(&self, now: Millis, most: usize) -> Vec<Event> {
        let due = self.cases.values().filter(|case| case.next <= now);
        due.filter_map(|case| case.event.clone()).take(most).collect()
    }

    /// Makes one key, or all, due. Returns how many.
    pub(super) fn retry(&mut self, key: Option<&[u8]>, now: Millis) -> usize {
        let chosen = self.cases.iter_mut().filter(|(name, _)| key.is_none_or(|key| key == &name[..]));
        chosen.map(|(_, case)| case.next = now).count()
    }

    /// All of them.
    pub(super) fn cases(&self) -> &BTreeMap<Bytes, Case> {
        &self.cases
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let is_of = |case: &Case| case.event.as_ref().is_some_and(|event| event.key.as_bytes() == key);
        self.cases.contains_key(key) || self.cases.values().any(is_of)
    }

    /// Writes the file, and returns when that is on disk.
    pub(super) fn save(&self) -> Result<()> {
        let stored: Vec<Stored> = self
            .cases
            .iter()
            .map(|(key, Case { reason, attempts, since, event, .. })| Stored {
                event: event.as_ref().map(StoredEvent::of),
                key: BASE64.encode(key),
                reason: reason.clone(),
                attempts: *attempts,
                since_ms: since.0,
            })
            .collect();
        let text = serde_json::to_string(&stored)
            .map_err(|error| Error::new(Code::Internal, "the quarantine has no JSON").with_source(error))?;
        data_file::replace(&self.dir, &self.file, &text)
    }
}

fn bytes_of(case: &Case) -> usize {
    case.event.as_ref().map_or(0, Event::size)
}

fn pause(attempts: u32) -> Duration {
    (SINK_RETRY_AFTER * 2u32.saturating_pow(attempts.saturating_sub(1).min(16))).min(SINK_RETRY_AFTER_MAX)
}

fn after(now: Millis, pause: Duration) -> Millis {
    Millis(now.0.saturating_add(pause.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Bytes {
        Bytes::from(text.as_bytes())
    }

    #[test]
    fn it_survives_a_start_and_is_tried_less_and_less_often() {
        let dir = tempfile::tempdir().unwrap();
        let mut quarantine = Quarantine::open(dir.path(), "s", Millis(0)).unwrap();
        let binary = Bytes::from(&[0xff, 0][..]);
        let mut now = Millis(1000);
        quarantine.add(vec![(binary.clone(), "why".to_owned())], now).unwrap();
        let mut pauses = Vec::new();
        for _ in 1..SINK_ATTEMPTS_MAX {
            let next = quarantine.cases()[&binary].next;
            pauses.push(next.0 - now.0);
            assert!(quarantine.due(Millis(next.0 - 1), 9).is_empty());
            now = next;
            assert_eq!(quarantine.due(now, 9), std::slice::from_ref(&binary));
            quarantine.add(vec![(binary.clone(), "still".to_owned())], now).unwrap();
        }
        assert!(pauses.is_sorted() && pauses[0] == SINK_RETRY_AFTER.as_millis() as u64, "{pauses:?}");
        assert!(quarantine.due(Millis(u64::MAX - 1), 9).is_empty(), "no longer by itself");
        assert!(quarantine.waits(&binary, now), "but when it has changed");
        assert!(!quarantine.waits(&key("another"), now));
        assert_eq!(quarantine.due(after(now, SINK_RETRY_AFTER_MAX), 9), std::slice::from_ref(&binary));

        let again = Quarantine::open(dir.path(), "s", now).unwrap();
        assert_eq!(again.cases()[&binary].reason, "still");
        assert_eq!(again.due(now, 9), std::slice::from_ref(&binary));
        assert_eq!(quarantine.remove([&binary, &key("another")]).unwrap(), 1);
        assert!(Quarantine::open(dir.path(), "s", now).unwrap().cases().is_empty());
    }

    #[test]
    fn one_or_all_are_made_due_and_there_is_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let mut quarantine = Quarantine::open(dir.path(), "s", Millis(0)).unwrap();
        let many = (0..SINK_QUARANTINE_KEYS_MAX).map(|n| (key(&n.to_string()), "why".to_owned())).collect();
        quarantine.add(many, Millis(0)).unwrap();
        assert_eq!(quarantine.retry(Some(b"7"), Millis(0)), 1);
        assert_eq!(quarantine.due(Millis(0), 9), [key("7")]);
        assert_eq!(quarantine.retry(None, Millis(0)), SINK_QUARANTINE_KEYS_MAX);
        let error = quarantine.add(vec![(key("x"), "why".to_owned())], Millis(0)).unwrap_err();
        assert_eq!(error.code(), Code::QueueFull);
        quarantine.add(vec![(key("7"), "why".to_owned())], Millis(0)).unwrap();
    }

    #[test]
    fn events_are_kept_with_their_values_up_to_a_bound_of_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let mut quarantine = Quarantine::open(dir.path(), "s", Millis(0)).unwrap();
        let event = |seq: u64, bytes: usize| Event {
            seq: Seq(seq),
            shard: keystead_core::ShardId(1),
            revision: keystead_core::Revision(7),
            key: "k".to_owned(),
            version: keystead_core::Version(3),
            kind: keystead_sinks::log::Kind::Put,
            of: Some("json".to_owned()),
            value: Some(if bytes == 0 { serde_json::Value::Null } else { "x".repeat(bytes).into() }),
            expires_at: Some(Millis::NEVER),
            time: Millis(9),
        };
        let name = |seq: u64| key(&format!("k@{seq}"));
        for seq in 1..=3 {
            quarantine.note(name(seq), "why".to_owned(), Millis(0), Some(event(seq, 0))).unwrap();
        }
        quarantine.save().unwrap();
        assert!(quarantine.contains(b"k") && !quarantine.contains(b"other"));
        let mut again = Quarantine::open(dir.path(), "s", Millis(5)).unwrap();
        assert_eq!(again.due_events(Millis(5), 2), [event(1, 0), event(2, 0)]);
        assert_eq!(again.forget_after(Seq(1)).unwrap(), 2);
        assert_eq!(Quarantine::open(dir.path(), "s", Millis(5)).unwrap().cases().len(), 1);
        again.note(name(4), "why".to_owned(), Millis(0), Some(event(4, SINK_QUARANTINE_BYTES_MAX))).unwrap();
        let full = again.note(name(5), "why".to_owned(), Millis(0), Some(event(5, 0))).unwrap_err();
        assert_eq!(full.code(), Code::QueueFull);
        assert!(full.message().contains("events of 64 MiB"), "{full}");
        assert_eq!(again.remove([&name(4)]).unwrap(), 1);
        again.note(name(5), "why".to_owned(), Millis(0), Some(event(5, 0))).unwrap();
    }
}
