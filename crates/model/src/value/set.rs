//! A set of members. It touches nothing.
//!
//! Packed, a record is a member; large, it is an index set, so that any member is found by index and a scan can
//! be resumed. Invariant: every member is stored once.

use std::fmt;

use foldhash::fast::RandomState;
use indexmap::IndexSet;

use super::form::{Form, collection};
use super::heap::{boxed_bytes, index_bytes, is_sparse, shared_bytes};
use super::packed::{Full, Number, Packed, Reader};
use super::scan::{self, Epoch};
use crate::bytes::Bytes;

/// Members, each once.
#[derive(Clone, Default)]
pub struct Set(Form<Large>);

collection!(Set, "members", large => large.members.len());

impl Set {
    /// Whether this is a member.
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Form::Packed(packed) => Members(packed.reader()).any(|other| other == member),
            Form::Large(large) => large.members.contains(member),
        }
    }

    /// Adds a member and returns whether it is new.
    pub fn insert(&mut self, member: &Bytes) -> bool {
        match &mut self.0 {
            Form::Packed(packed) => match insert_packed(packed, member) {
                Ok(is_new) => is_new,
                Err(Full) => {
                    let mut large = Large::unpack(packed);
                    let is_new = large.insert(member);
                    self.0 = Form::Large(Box::new(large));
                    is_new
                }
            },
            Form::Large(large) => large.insert(member),
        }
    }

    /// Removes a member and returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Form::Packed(packed) => remove_packed(packed, member).is_some(),
            Form::Large(large) => large.remove(member),
        }
    }

    /// The member with this index, for a random pick. Any change may reorder.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<&[u8]> {
        match &self.0 {
            Form::Packed(packed) => Members(packed.reader()).nth(index),
            Form::Large(large) => large.members.get_index(index).map(Bytes::as_slice),
        }
    }

    /// Members, in no particular order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter(match &self.0 {
            Form::Packed(packed) => IterForm::Packed(Members(packed.reader())),
            Form::Large(large) => IterForm::Large(large.members.iter()),
        })
    }

    /// Visits about `count` members from `cursor` (0 at first) and returns the next cursor (0 at the end).
    ///
    /// A member that exists from the first call to the last is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8])) -> u64 {
        match &self.0 {
            Form::Packed(packed) => {
                Members(packed.reader()).for_each(visit);
                0
            }
            Form::Large(large) => {
                let members = &large.members;
                let epoch = Epoch::of(members.hasher(), large.renumbered);
                let name = |index| members.get_index(index).map(Bytes::as_slice);
                scan::walk(cursor, count, members.len(), epoch, name, |index| {
                    members.get_index(index).into_iter().for_each(|member| visit(member));
                })
            }
        }
    }

    /// Invalidates the cursors of running scans, because the order of members may have changed.
    pub(crate) fn renumber(&mut self) {
        if let Form::Large(large) = &mut self.0 {
            large.renumbered = large.renumbered.wrapping_add(1);
        }
    }

    /// Heap bytes held.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.mem_bytes(),
            Form::Large(large) => large.mem_bytes(),
        }
    }
}

fn insert_packed(packed: &mut Packed, member: &[u8]) -> Result<bool, Full> {
    if !Packed::fits(member.len()) {
        return Err(Full);
    }
    if Members(packed.reader()).any(|other| other == member) {
        return Ok(false);
    }
    if !packed.has_space() {
        return Err(Full);
    }
    packed.insert(packed.end(), &[Number::len_of(member).as_ref(), member]);
    Ok(true)
}

fn remove_packed(packed: &mut Packed, member: &[u8]) -> Option<()> {
    let mut reader = packed.reader();
    loop {
        let start = reader.offset();
        if reader.bytes()? == member {
            let range = start..reader.offset();
            packed.remove(range, &[]);
            return Some(());
        }
    }
}

#[derive(Clone, Default)]
struct Large {
    members: IndexSet<Bytes, RandomState>,
    /// Heap bytes of the members.
    shared: usize,
    renumbered: u32,
}

impl Large {
    fn unpack(packed: &Packed) -> Self {
        let mut large = Large::default();
        large.members.reserve(packed.len() + 1);
        for member in Members(packed.reader()) {
            large.insert(&Bytes::from(member));
        }
        large
    }

    fn insert(&mut self, member: &Bytes) -> bool {
        let is_new = self.members.insert(member.clone());
        if is_new {
            self.shared += shared_bytes(member);
        }
        is_new
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let Some((index, _)) = self.members.get_full(member) else {
            return false;
        };
        if let Some(member) = self.members.swap_remove_index(index) {
            self.shared -= shared_bytes(&member);
        }
        if is_sparse(self.members.len(), self.members.capacity()) {
            self.members.shrink_to(self.members.len() * 2);
        }
        true
    }

    fn mem_bytes(&self) -> usize {
        let index = index_bytes(self.members.capacity(), size_of::<(u64, Bytes)>());
        boxed_bytes::<Large>() + index + self.shared
    }
}

#[derive(Clone, Debug)]
struct Members<'a>(Reader<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.bytes()
    }
}

/// Members of a [`Set`].
#[derive(Clone, Debug)]
pub struct Iter<'a>(IterForm<'a>);

#[derive(Clone, Debug)]
enum IterForm<'a> {
    Packed(Members<'a>),
    Large(indexmap::set::Iter<'a, Bytes>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match &mut self.0 {
            IterForm::Packed(members) => members.next(),
            IterForm::Large(members) => members.next().map(Bytes::as_slice),
        }
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = &'a [u8];
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains(member))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Bytes::from)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::value::PACKED_LEN_MAX;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8),
        Remove(u8),
        Scan(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => any::<u8>().prop_map(Op::Insert),
            3 => any::<u8>().prop_map(Op::Remove),
            1 => (0usize..40).prop_map(Op::Scan),
        ]
    }

    fn name(m: u8) -> Bytes {
        let width = if m > 250 { 70 } else { 3 + usize::from(m % 3) * 12 };
        Bytes::from(format!("{m:>width$}").as_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_set_is_a_set(long in any::<bool>(), ops in prop::collection::vec(op(), 0..900)) {
            let (mut set, mut model) = (Set::new(), BTreeSet::new());
            let (mut cursor, mut seen, mut constant) = (0, BTreeSet::new(), None);
            for op in ops {
                match op {
                    Op::Insert(m) if m > 250 && !long => {}
                    Op::Insert(m) => prop_assert_eq!(set.insert(&name(m)), model.insert(name(m))),
                    Op::Remove(m) => {
                        prop_assert_eq!(set.remove(&name(m)), model.remove(&name(m)));
                        constant.iter_mut().for_each(|constant: &mut BTreeSet<Bytes>| { constant.remove(&name(m)); });
                    }
                    Op::Scan(count) => {
                        let there = constant.get_or_insert_with(|| model.clone());
                        cursor = set.scan(cursor, count, |m| { seen.insert(Bytes::from(m)); });
                        if cursor == 0 {
                            prop_assert!(there.is_subset(&seen));
                            constant = None;
                            seen.clear();
                        }
                    }
                }
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(&set.iter().map(Bytes::from).collect::<BTreeSet<_>>(), &model);
            prop_assert_eq!(&(0..set.len()).filter_map(|i| set.nth(i)).map(Bytes::from).collect::<BTreeSet<_>>(), &model);
            prop_assert!(model.iter().all(|m| set.contains(m)) && !set.contains(b"x"));
            prop_assert_eq!(&set.clone(), &set);
            if let Form::Large(large) = &set.0 {
                prop_assert_eq!(large.shared, model.iter().map(shared_bytes).sum::<usize>());
            }
        }
    }

    #[test]
    fn a_set_becomes_large_at_its_bounds_and_stays_equal() {
        let mut set: Set = Set::new();
        for m in 0..PACKED_LEN_MAX {
            assert!(set.insert(&name(m as u8)));
        }
        assert!(!set.insert(&name(0)) && set.is_packed());
        let packed = set.clone();
        assert!(set.insert(&name(255)) && !set.is_packed());
        assert!(set.remove(&name(255)));
        assert_eq!(set, packed);
    }
}
