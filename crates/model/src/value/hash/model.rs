//! Model check of hashes: random changes to a hash and to a sorted map, during a scan. It touches nothing.
//! Invariant under test: both have the same content, and a field that stays is visited by the scan.

use std::collections::{BTreeMap, BTreeSet};

use keystead_core::Millis;
use proptest::prelude::*;

use super::{Form, Hash};
use crate::bytes::Bytes;
use crate::value::heap::shared_bytes;

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, u8),
    Remove(u8),
    Expire(u8, u64),
    Drain(u64),
    Scan(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (any::<u8>(), 0u8..70).prop_map(|(f, len)| Op::Insert(f, len)),
        6 => any::<u8>().prop_map(Op::Remove),
        1 => (any::<u8>(), 0u64..12).prop_map(|(f, at)| Op::Expire(f, at)),
        1 => (0u64..6).prop_map(Op::Drain),
        1 => (0usize..40).prop_map(Op::Scan),
    ]
}

pub(super) fn field(f: u8) -> Bytes {
    Bytes::from(format!("{f:>width$}", width = 3 + usize::from(f % 3) * 12).as_bytes())
}

/// A simple model of the hash, and a running scan.
#[derive(Default)]
struct Model {
    hash: Hash,
    fields: BTreeMap<Bytes, (Bytes, Millis)>,
    cursor: u64,
    seen: BTreeSet<Bytes>,
    constant: Option<BTreeSet<Bytes>>,
}

impl Model {
    fn run(&mut self, op: &Op) {
        match *op {
            Op::Insert(f, len) => {
                let value = Bytes::from(vec![f; usize::from(len)].as_slice());
                let expires_at = self.fields.get(&field(f)).map_or(Millis::NEVER, |(_, at)| *at);
                let old = self.fields.insert(field(f), (value.clone(), expires_at));
                assert_eq!(self.hash.insert(&field(f), &value), old.map(|(old, _)| old));
            }
            Op::Remove(f) => self.remove(&field(f)),
            Op::Expire(f, at) => {
                let at = if at < 10 { Millis(at) } else { Millis::NEVER };
                let old = self.fields.get_mut(&field(f)).map(|(_, old)| std::mem::replace(old, at));
                assert_eq!(self.hash.set_expires_at(&field(f), at), old.unwrap_or(Millis::NEVER));
            }
            Op::Drain(now) => {
                while let Some(name) = self.hash.next_expired(Millis(now)).cloned() {
                    self.remove(&name);
                }
                assert!(self.fields.values().all(|(_, at)| *at > Millis(now)));
            }
            Op::Scan(count) => self.scan(count),
        }
    }

    fn remove(&mut self, name: &Bytes) {
        assert_eq!(self.hash.remove(name), self.fields.remove(name).map(|(old, _)| old));
        if let Some(constant) = &mut self.constant {
            constant.remove(name);
        }
    }

    fn scan(&mut self, count: usize) {
        let constant = self.constant.get_or_insert_with(|| self.fields.keys().cloned().collect());
        self.cursor = self.hash.scan(self.cursor, count, |name, value| {
            assert_eq!(self.fields[name].0, value);
            self.seen.insert(Bytes::from(name));
        });
        if self.cursor == 0 {
            assert!(constant.is_subset(&self.seen), "a constant field was not visited");
            self.constant = None;
            self.seen.clear();
        }
    }

    fn check(&self) {
        assert_eq!(self.hash.len(), self.fields.len());
        assert_eq!(self.hash.is_empty(), self.fields.is_empty());
        let all: BTreeMap<Bytes, (Bytes, Millis)> =
            self.hash.iter().map(|(f, v)| (f.into(), (v.into(), self.hash.expires_at(f)))).collect();
        assert_eq!(all, self.fields);
        let numbered: BTreeSet<&[u8]> = (0..).map_while(|i| self.hash.nth(i)).map(|(f, _)| f).collect();
        assert_eq!(numbered.len(), self.fields.len());
        let first = self.fields.values().map(|(_, at)| *at).min();
        assert_eq!(self.hash.next_expiry(), first.unwrap_or(Millis::NEVER));
        if let Form::Large(large) = &self.hash.0 {
            let shared: usize = large.map().iter().map(|(f, v)| shared_bytes(f) + shared_bytes(v)).sum();
            assert_eq!(large.shared(), shared);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_hash_is_a_map(expiries in any::<bool>(), ops in prop::collection::vec(op(), 0..900)) {
        let mut model = Model::default();
        for op in ops.iter().filter(|op| expiries || !matches!(op, Op::Expire(..))) {
            model.run(op);
        }
        model.check();
        prop_assert_eq!(&model.hash.clone(), &model.hash);
    }
}
