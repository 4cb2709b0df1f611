//! Keys of one shard that have changed and are not in the target yet. Pure.
//!
//! A key is here once, however often it changes: its value is read when it is written. Invariant: every change up to
//! [`position`](Pending::position) is in the target, in flight, or quarantined.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use keystead_core::{Revision, Stopwatch, Version};
use keystead_model::Bytes;
use keystead_model::effect::{Effect, Fact};

use crate::bounds::SINK_FIELDS_MAX;

/// The fields of a key that have changed. None: all of them.
pub(super) type Changed = Option<BTreeSet<Bytes>>;

/// A key that has changed.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    pub(super) key: Bytes,
    /// Its first change that is not in the target.
    pub(super) first: Revision,
    /// When that was noticed.
    pub(super) since: Stopwatch,
    pub(super) changed: Changed,
    /// About how many bytes its row takes, as far as its changes say.
    size: usize,
}

/// The changed keys of a shard.
#[derive(Default)]
pub(super) struct Pending {
    by_key: HashMap<Bytes, Dirty>,
    order: BTreeMap<Revision, Bytes>,
    bytes: usize,
    value_bytes: usize,
}

impl Pending {
    /// Notes a change, which takes so many bytes.
    pub(super) fn note(&mut self, effect: &Effect, size: usize, now: Stopwatch) {
        if let Some(dirty) = self.by_key.get_mut(&effect.key) {
            merge(&mut dirty.changed, fields_of(effect));
            self.value_bytes -= dirty.size;
            dirty.size = if is_whole(effect) { size } else { dirty.size + size };
            self.value_bytes += dirty.size;
            return;
        }
        let changed = fields_of(effect);
        self.put(Dirty { key: effect.key.clone(), first: effect.revision, since: now, changed, size });
    }

    fn put(&mut self, dirty: Dirty) {
        self.bytes += bytes_of(&dirty.key);
        self.value_bytes += dirty.size;
        self.order.insert(dirty.first, dirty.key.clone());
        self.by_key.insert(dirty.key.clone(), dirty);
    }

    /// Takes the keys that have waited longest, at most so many.
    pub(super) fn take(&mut self, most: usize) -> Vec<Dirty> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((_, key)) = self.order.pop_first()
        {
            self.bytes -= bytes_of(&key);
            taken.extend(self.by_key.remove(&key));
        }
        self.value_bytes -= taken.iter().map(|dirty| dirty.size).sum::<usize>();
        taken
    }

    /// Puts back what was taken and is not in the target. It may have changed again meanwhile.
    pub(super) fn put_back(&mut self, taken: Vec<Dirty>) {
        for mut dirty in taken {
            if let Some(again) = self.by_key.remove(&dirty.key) {
                self.order.remove(&again.first);
                self.bytes -= bytes_of(&again.key);
                self.value_bytes -= again.size;
                dirty.size = dirty.size.max(again.size);
                merge(&mut dirty.changed, again.changed);
            }
            self.put(dirty);
        }
    }

    /// The revision up to which nothing is pending, when the feed was read up to `read`.
    pub(super) fn position(&self, read: Revision) -> Revision {
        match self.order.first_key_value() {
            Some((first, _)) => Revision(first.0 - 1),
            None => read,
        }
    }

    /// When the oldest change was noticed.
    pub(super) fn since(&self) -> Option<Stopwatch> {
        let (_, key) = self.order.first_key_value()?;
        self.by_key.get(key).map(|dirty| dirty.since)
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// About how many bytes their rows take.
    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// About how many bytes of memory the names take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(key: &Bytes) -> usize {
    2 * key.len() + 2 * size_of::<Dirty>()
}

/// Whether an effect replaces all of a key.
fn is_whole(effect: &Effect) -> bool {
    matches!(effect.fact, Fact::Str(_) | Fact::Json(_) | Fact::State(_) | Fact::Deleted | Fact::Fresh(_))
}

/// The fields that an effect changes. The first effect of a key, and what has no fields, changes all of it.
fn fields_of(effect: &Effect) -> Changed {
    if effect.version == Version::FIRST {
        return None;
    }
    match &effect.fact {
        Fact::Expiry(_) => Some(BTreeSet::new()),
        Fact::HashField { field, .. } | Fact::HashFieldDeleted(field) => {
            Some(BTreeSet::from([field.clone()]))
        }
        _ => None,
    }
}

fn merge(into: &mut Changed, other: Changed) {
    match (into.as_mut(), other) {
        (Some(fields), Some(more)) if fields.len() + more.len() <= SINK_FIELDS_MAX => fields.extend(more),
        (Some(_), Some(_) | None) => *into = None,
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(key: &str, version: u64, revision: u64, fact: Fact) -> Effect {
        let key = Bytes::from(key.as_bytes());
        Effect { id: 0, key, version: Version(version), revision: Revision(revision), fact }
    }

    fn field(name: &str) -> Fact {
        let field = Bytes::from(name.as_bytes());
        Fact::HashField { field, value: Bytes::new(), expires_at: keystead_core::Millis::NEVER }
    }

    fn note(pending: &mut Pending, key: &str, version: u64, revision: u64, fact: Fact) {
        pending.note(&effect(key, version, revision, fact), 10, Stopwatch::start());
    }

    fn names(taken: &[Dirty]) -> Vec<&[u8]> {
        taken.iter().map(|dirty| &dirty.key[..]).collect()
    }

    #[test]
    fn a_key_is_pending_once_and_the_position_is_before_the_oldest() {
        let mut pending = Pending::default();
        assert_eq!(pending.position(Revision(7)), Revision(7));
        for revision in 8..108 {
            note(&mut pending, if revision % 2 == 0 { "a" } else { "b" }, 5, revision, Fact::Deleted);
        }
        assert_eq!((pending.len(), pending.position(Revision(107))), (2, Revision(7)));
        let taken = pending.take(1);
        assert_eq!(names(&taken), [b"a"]);
        assert_eq!(pending.position(Revision(107)), Revision(8));
        // It changes while it is in flight, and the write fails.
        note(&mut pending, "a", 6, 108, Fact::Deleted);
        assert_eq!(pending.position(Revision(108)), Revision(8));
        pending.put_back(taken);
        assert_eq!((pending.len(), pending.position(Revision(108))), (2, Revision(7)));
        assert_eq!(names(&pending.take(9)), [b"a", b"b"]);
        assert_eq!((pending.bytes(), pending.position(Revision(108))), (0, Revision(108)));
        assert_eq!(pending.value_bytes(), 0);
    }

    #[test]
    fn the_bytes_of_rows_are_those_of_the_last_values() {
        let mut pending = Pending::default();
        let json = || Fact::Json(Bytes::new());
        let sized = |pending: &mut Pending, key: &str, revision, fact, size| {
            pending.note(&effect(key, 2, revision, fact), size, Stopwatch::start());
        };
        for revision in 1..=100 {
            sized(&mut pending, "hot", revision, json(), 1_000);
        }
        assert_eq!(pending.value_bytes(), 1_000, "a hundred updates are one row");
        sized(&mut pending, "hot", 101, json(), 50);
        sized(&mut pending, "h", 102, field("a"), 20);
        sized(&mut pending, "h", 103, field("b"), 20);
        assert_eq!(pending.value_bytes(), 90, "fields add up");
        let taken = pending.take(1);
        assert_eq!(pending.value_bytes(), 40);
        sized(&mut pending, "hot", 104, json(), 70);
        pending.put_back(taken);
        assert_eq!(pending.value_bytes(), 110);
        pending.take(9);
        assert_eq!(pending.value_bytes(), 0);
    }

    #[test]
    fn changed_fields_are_collected() {
        let mut pending = Pending::default();
        let changed = |pending: &mut Pending| pending.take(1).remove(0).changed.map(|fields| fields.len());
        note(&mut pending, "h", 2, 1, field("a"));
        note(&mut pending, "h", 3, 2, Fact::HashFieldDeleted(Bytes::from(&b"b"[..])));
        note(&mut pending, "h", 4, 3, Fact::Expiry(keystead_core::Millis(1)));
        assert_eq!(changed(&mut pending), Some(2));
        note(&mut pending, "h", 5, 4, field("a"));
        note(&mut pending, "h", 6, 5, Fact::Deleted);
        note(&mut pending, "h", 1, 6, field("a"));
        assert_eq!(changed(&mut pending), None, "a key that was deleted is another one");
        for n in 0..=SINK_FIELDS_MAX as u64 {
            note(&mut pending, "h", 2, 7 + n, field(&n.to_string()));
        }
        assert_eq!(changed(&mut pending), None, "too many to list");
    }
}
