//! A set of row ids: they are dense, so a bit for each is small, and they come out in order. It touches nothing.

/// A set of row ids.
#[derive(Default)]
pub(super) struct IdSet {
    words: Vec<u64>,
    len: usize,
}

impl IdSet {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    pub(super) fn insert(&mut self, id: u32) {
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Removes an id and returns whether the set had it.
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let (word, bit) = place(id);
        let had = self.contains(id);
        if had {
            self.words[word] &= !bit;
            self.len -= 1;
        }
        had
    }

    /// Removes all. Its memory is freed: the next set may be small.
    pub(super) fn clear(&mut self) {
        *self = IdSet::default();
    }

    /// The ids in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().zip(0u32..).flat_map(|(word, n)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(n * u64::BITS + bit)
            })
        })
    }
}

fn place(id: u32) -> (usize, u64) {
    ((id / u64::BITS) as usize, 1 << (id % u64::BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_set(ops in prop::collection::vec((any::<bool>(), 0u32..300), 0..200)) {
            let (mut ids, mut model) = (IdSet::default(), BTreeSet::new());
            for (insert, id) in ops {
                if insert {
                    ids.insert(id);
                    model.insert(id);
                } else {
                    prop_assert_eq!(ids.remove(id), model.remove(&id));
                }
                prop_assert_eq!(ids.contains(id), model.contains(&id));
            }
            prop_assert_eq!(ids.len(), model.len());
            prop_assert!(ids.iter().eq(model));
        }
    }
}
