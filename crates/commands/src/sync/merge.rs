//! What mutations make of a document, in any order: every member is a register that the newest mutation wins, and a mutation of the
//! whole document counts for all members. Pure.
//!
//! Invariant: for mutations with different stamps the result depends on their set, not on their order or how often each is merged. A
//! stamp that is dropped because it is too old changes nothing: every mutation that is still accepted is newer.

use std::collections::BTreeMap;

use keystead_core::Millis;
use serde_json::{Map, Value};

use super::Edit;
use super::stamp::{Stamp, is_over};

/// The stamps of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Of the newest mutation of the whole document; nothing: it is older than all mutations.
    pub whole: Option<Stamp>,
    /// Whether that mutation left no document. Members of newer mutations may still make one.
    pub is_deleted: bool,
    /// Of the members that were changed since, with those that were deleted.
    pub fields: BTreeMap<String, FieldClock>,
}

/// The stamp of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldClock {
    /// Its newest mutation.
    pub stamp: Stamp,
    /// Whether that deleted it: then this is its tombstone.
    pub is_deleted: bool,
}

/// What merging a mutation did.
#[derive(Clone, Debug, PartialEq)]
pub enum Merged {
    /// This is the document now, if there is one.
    Changed {
        /// The document.
        document: Option<Value>,
        /// Members of it that newer mutations had changed.
        lost: Vec<String>,
    },
    /// A newer one wins, or this one was merged before.
    Stale,
}

impl Clocks {
    /// The stamps of a document about which nothing is known.
    #[must_use]
    pub fn unknown(exists: bool) -> Clocks {
        Clocks { whole: None, is_deleted: !exists, fields: BTreeMap::new() }
    }

    /// The newest stamp of a member, or of the document.
    #[must_use]
    pub fn of(&self, field: Option<&str>) -> Option<&Stamp> {
        let field = field.and_then(|field| self.fields.get(field)).map(|field| &field.stamp);
        // A member's own stamp is always newer.
        field.or(self.whole.as_ref())
    }

    /// The time of the newest stamp of a client that a mutation of this member, or of the document, is about.
    #[must_use]
    pub fn own(&self, client: &str, field: Option<&str>) -> Option<u64> {
        let others = self.fields.values().filter(|_| field.is_none()).map(|field| &field.stamp);
        self.of(field)
            .into_iter()
            .chain(others)
            .filter(|stamp| stamp.client == client)
            .map(|stamp| stamp.ms)
            .max()
    }

    /// The newest stamp of all.
    #[must_use]
    pub fn newest(&self) -> Option<&Stamp> {
        self.fields.values().map(|field| &field.stamp).chain(&self.whole).max()
    }

    /// Counts the document as written at this time by something that knows no stamps.
    pub fn overwrite(&mut self, stamp: Stamp, exists: bool) {
        *self = Clocks { whole: Some(stamp), is_deleted: !exists, fields: BTreeMap::new() };
    }

    /// Merges a mutation into a document.
    pub fn merge(&mut self, document: Option<Value>, edit: Edit, stamp: Stamp) -> Merged {
        if self.of(edit.field()).is_some_and(|newest| *newest >= stamp) {
            return Merged::Stale;
        }
        match edit {
            Edit::Put(value) => self.replace(document, Some(value), stamp),
            Edit::Delete => self.replace(document, None, stamp),
            Edit::SetField(field, value) => {
                let mut members = members(document);
                members.insert(field.clone(), value);
                self.fields.insert(field, FieldClock { stamp, is_deleted: false });
                Merged::Changed { document: Some(Value::Object(members)), lost: Vec::new() }
            }
            Edit::DeleteField(field) => {
                let exists = document.is_some();
                let mut members = members(document);
                members.shift_remove(&field);
                self.fields.insert(field, FieldClock { stamp, is_deleted: true });
                let is_left =
                    exists && (!self.is_deleted || self.fields.values().any(|field| !field.is_deleted));
                Merged::Changed { document: is_left.then_some(Value::Object(members)), lost: Vec::new() }
            }
        }
    }

    /// The whole document is replaced, except for members that were changed later.
    fn replace(&mut self, before: Option<Value>, after: Option<Value>, stamp: Stamp) -> Merged {
        self.fields.retain(|_, field| field.stamp > stamp);
        self.is_deleted = after.is_none();
        self.whole = Some(stamp);
        let lives = self.fields.values().any(|field| !field.is_deleted);
        if self.fields.is_empty() || (after.is_none() && !lives) {
            return Merged::Changed { document: after, lost: Vec::new() };
        }
        let (mut before, mut members) = (members(before), members(after));
        for (name, field) in &self.fields {
            match before.swap_remove(name).filter(|_| !field.is_deleted) {
                Some(value) => drop(members.insert(name.clone(), value)),
                None => drop(members.shift_remove(name)),
            }
        }
        let lost = self.fields.keys().cloned().collect();
        Merged::Changed { document: Some(Value::Object(members)), lost }
    }

    /// Drops stamps that are older than any mutation that is still accepted.
    pub fn drop_old(&mut self, now: Millis) {
        let mut lives = false;
        self.fields.retain(|_, field| {
            let is_over = is_over(field.stamp.ms, now);
            lives |= is_over && !field.is_deleted;
            !is_over
        });
        // Members without a stamp are those of the whole document.
        self.is_deleted &= !lives;
        self.whole.take_if(|whole| is_over(whole.ms, now));
    }
}

/// The members of a document. A member of anything else makes an object of it.
fn members(document: Option<Value>) -> Map<String, Value> {
    match document {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::bounds::SYNC_RETENTION_MS;

    fn stamp(ms: u64) -> Stamp {
        Stamp { ms, client: "a".into(), id: 1 }
    }

    /// A document and its stamps.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Merging {
        document: Option<Value>,
        clocks: Clocks,
    }

    impl Merging {
        fn new() -> Merging {
            Merging { document: None, clocks: Clocks::unknown(false) }
        }

        fn merge(&mut self, (edit, stamp): (Edit, Stamp)) -> Merged {
            let merged = self.clocks.merge(self.document.clone(), edit, stamp);
            if let Merged::Changed { document, .. } = &merged {
                self.document.clone_from(document);
            }
            merged
        }
    }

    #[test]
    fn a_newer_member_survives_a_put_and_a_delete() {
        let mut one = Merging::new();
        one.merge((Edit::Put(json!({"a":1,"b":1})), stamp(10)));
        one.merge((Edit::SetField("a".into(), json!(2)), stamp(30)));
        assert_eq!(
            one.merge((Edit::Put(json!({"a":3,"c":3})), stamp(20))),
            Merged::Changed { document: Some(json!({"a":2,"c":3})), lost: vec!["a".into()] }
        );
        assert_eq!(one.merge((Edit::SetField("c".into(), json!(4)), stamp(15))), Merged::Stale);
        one.merge((Edit::Delete, stamp(25)));
        assert_eq!(one.document, Some(json!({"a":2})));
        one.merge((Edit::DeleteField("a".into()), stamp(40)));
        assert_eq!(one.document, None, "the last member of a deleted document");
        assert_eq!(one.merge((Edit::Put(json!(1)), stamp(24))), Merged::Stale, "its tombstone");
    }

    fn edits() -> impl Strategy<Value = Edit> {
        let field = || prop::sample::select(vec!["a", "b"]).prop_map(str::to_owned);
        prop_oneof![
            2 => (0..9u8).prop_map(|n| Edit::Put(json!({"a": n, "c": n}))),
            1 => (0..9u8).prop_map(|n| Edit::Put(json!(n))),
            1 => Just(Edit::Delete),
            4 => (field(), 0..9u8).prop_map(|(field, n)| Edit::SetField(field, json!(n))),
            2 => field().prop_map(Edit::DeleteField),
        ]
    }

    /// Mutations of three clients, some of which have the same time, and an order of them with duplicates.
    fn histories() -> impl Strategy<Value = (Vec<(Edit, Stamp)>, Vec<usize>)> {
        let one = (edits(), 0..6u64, prop::sample::select(vec!["a", "b", "c"]));
        prop::collection::vec(one, 1..9).prop_flat_map(|all| {
            let all: Vec<(Edit, Stamp)> = all
                .into_iter()
                .enumerate()
                .map(|(n, (edit, ms, client))| (edit, Stamp { ms, client: client.into(), id: n as u64 }))
                .collect();
            let count = all.len();
            let order =
                (Just((0..count).collect::<Vec<_>>()).prop_shuffle(), prop::collection::vec(0..count, 0..6));
            (Just(all), order.prop_map(|(first, again)| [first, again].concat()))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_result_depends_on_the_set_of_mutations_only((all, order) in histories()) {
            let (mut straight, mut other) = (Merging::new(), Merging::new());
            for one in &all {
                straight.merge(one.clone());
            }
            for n in order {
                other.merge(all[n].clone());
            }
            prop_assert_eq!(straight, other);
        }

        #[test]
        fn a_dropped_stamp_changes_nothing((all, _) in histories(), later in prop::collection::vec(edits(), 1..5)) {
            let mut whole = Merging::new();
            for one in all {
                whole.merge(one);
            }
            let mut short = whole.clone();
            let now = Millis(SYNC_RETENTION_MS + 6);
            short.clocks.drop_old(now);
            prop_assert!(short.clocks.fields.is_empty() && short.clocks.whole.is_none());
            for (n, edit) in later.into_iter().enumerate() {
                let new = Stamp { ms: 6 + n as u64, client: "d".into(), id: 99 };
                prop_assert!(!is_over(new.ms, now));
                let results = (whole.merge((edit.clone(), new.clone())), short.merge((edit.clone(), new)));
                // A deleted document whose last member is deleted is empty, once nothing is known of it.
                if let (Merged::Changed { document: None, .. }, Edit::DeleteField(_)) = (&results.0, &edit) {
                    break;
                }
                prop_assert_eq!(&whole.document, &short.document, "{:?}", edit);
            }
        }
    }
}
