//! Model check of lists: random changes to a list, to a vector, and, as facts, to a second list. It touches
//! nothing. Invariant under test: the facts that a list returns are enough to rebuild it, positions included.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Form, Insertion, List};
use crate::bytes::Bytes;

#[derive(Clone, Copy, Debug)]
enum Op {
    PushFront,
    PushBack,
    PopFront,
    PopBack,
    Set(usize),
    Insert(usize),
    Remove(usize),
    Trim(usize, usize),
}

fn op() -> impl Strategy<Value = (Op, u8)> {
    let op = prop_oneof![
        40 => Just(Op::PushFront),
        40 => Just(Op::PushBack),
        20 => Just(Op::PopFront),
        20 => Just(Op::PopBack),
        20 => (0usize..200).prop_map(Op::Set),
        // Many inserts at one index use up its gap.
        100 => prop_oneof![Just(3), 0usize..200].prop_map(Op::Insert),
        30 => (0usize..200).prop_map(Op::Remove),
        1 => (0usize..150, 0usize..200).prop_map(|(start, end)| Op::Trim(start, end)),
    ];
    (op, prop_oneof![200 => 0u8..30, 1 => 60u8..70])
}

/// Changes the list and the model; returns the resulting facts.
fn run(list: &mut List, model: &mut Vec<Bytes>, op: Op, value: &Bytes) -> Insertion {
    let len = model.len();
    let put = |position| Insertion::one(position, value);
    let removal = |removed: Option<(i64, Bytes)>, expected: Option<Bytes>| {
        assert_eq!(removed.as_ref().map(|(_, value)| value), expected.as_ref());
        Insertion { removed: removed.into_iter().map(|(position, _)| position).collect(), put: Vec::new() }
    };
    match op {
        Op::PushFront => {
            model.insert(0, value.clone());
            put(list.push_front(value))
        }
        Op::PushBack => {
            model.push(value.clone());
            put(list.push_back(value))
        }
        Op::PopFront => removal(list.pop_front(), (len > 0).then(|| model.remove(0))),
        Op::PopBack => removal(list.pop_back(), model.pop()),
        Op::Remove(index) => removal(list.remove(index), (index < len).then(|| model.remove(index))),
        Op::Set(index) => {
            let old = model.get_mut(index).map(|slot| std::mem::replace(slot, value.clone()));
            let set = list.set(index, value);
            assert_eq!(set.as_ref().map(|(_, old)| old), old.as_ref());
            set.map_or_else(Insertion::default, |(position, _)| put(position))
        }
        Op::Insert(index) => {
            model.insert(index.min(len), value.clone());
            list.insert(index, value)
        }
        Op::Trim(start, end) => {
            let keep: Vec<Bytes> = model.iter().take(end).skip(start).cloned().collect();
            *model = keep;
            let removed = list.trim(start..end);
            assert_eq!(removed.len(), len - model.len());
            Insertion {
                removed: removed.into_iter().map(|(position, _)| position).collect(),
                put: Vec::new(),
            }
        }
    }
}

fn check(list: &List, model: &[Bytes]) {
    assert_eq!(list.len(), model.len());
    assert!(list.iter().map(|(_, value)| value).eq(model.iter().map(Bytes::as_slice)));
    assert!(list.iter().map(|(position, _)| position).is_sorted_by(|a, b| a < b));
    for (index, (position, value)) in list.iter().enumerate() {
        assert_eq!((list.at(index), list.get_at(position)), (Some((position, value)), Some(value)));
    }
    let (start, end) = (model.len() / 3, model.len() / 2);
    assert!(list.iter_range(start..end).eq(list.iter().take(end).skip(start)));
    let backwards: Vec<_> = list.iter().skip(start).collect();
    assert!(list.iter_rev_range(start..usize::MAX).eq(backwards.into_iter().rev()));
    assert_eq!((list.get(model.len()), list.get_at(1)), (None, list.iter().find(|e| e.0 == 1).map(|e| e.1)));
    if let Form::Large(large) = &list.0 {
        large.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_list_is_a_vector_and_its_facts_are_the_truth(ops in prop::collection::vec(op(), 0..700)) {
        let (mut list, mut model) = (List::new(), Vec::new());
        let (mut replayed, mut facts) = (List::new(), BTreeMap::new());
        for (i, (op, len)) in ops.into_iter().enumerate() {
            let value = Bytes::from(vec![i as u8; usize::from(len)].as_slice());
            let Insertion { removed, put } = run(&mut list, &mut model, op, &value);
            for position in removed {
                prop_assert_eq!(replayed.remove_at(position), facts.remove(&position));
                prop_assert_eq!(replayed.remove_at(position), None);
            }
            for (position, value) in put {
                prop_assert_eq!(replayed.put_at(position, &value), facts.insert(position, value.clone()));
                prop_assert_eq!(replayed.put_at(position, &value), Some(value));
            }
        }
        check(&list, &model);
        prop_assert_eq!(&replayed, &list);
        prop_assert_eq!(&list.clone(), &list);
    }
}
