//! Which keys are denied most, in bounded memory. Touches nothing.
//!
//! The space-saving sketch: a new key replaces the key with the lowest count and continues that count. The count of a key is
//! never too low, and a key with more than 1/n of all denials is always among the n keys.

use crate::bounds::{DENIED_KEY_BYTES, DENIED_KEYS};

/// The keys that were denied most, with their approximate counts.
#[derive(Debug, Default)]
pub struct Denied {
    counts: Vec<(Box<[u8]>, u64)>,
}

impl Denied {
    /// Counts a denial of this key. Of a long key only the beginning is stored.
    pub fn add(&mut self, key: &[u8]) {
        let key = beginning(key);
        if let Some((_, count)) = self.counts.iter_mut().find(|(there, _)| **there == *key) {
            *count += 1;
            return;
        }
        if self.counts.len() < DENIED_KEYS {
            self.counts.push((key.into(), 1));
            return;
        }
        if let Some(least) = self.counts.iter_mut().min_by_key(|(_, count)| *count) {
            *least = (key.into(), least.1 + 1);
        }
    }

    /// The keys with the highest counts, the highest first.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(Box<[u8]>, u64)> {
        let mut all = self.counts.clone();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(most);
        all
    }
}

/// The part of a key that is stored: of text, whole characters.
fn beginning(key: &[u8]) -> &[u8] {
    if key.len() <= DENIED_KEY_BYTES {
        return key;
    }
    let end =
        std::str::from_utf8(key).map_or(DENIED_KEY_BYTES, |text| text.floor_char_boundary(DENIED_KEY_BYTES));
    &key[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_is_cut_between_characters() {
        let text = "k".to_owned() + &"é".repeat(100);
        assert_eq!(beginning(text.as_bytes()), &text.as_bytes()[..127]);
        let bytes = [text.as_bytes(), b"\xff"].concat();
        assert_eq!(beginning(&bytes).len(), DENIED_KEY_BYTES, "other bytes have no characters");
        assert_eq!(beginning(&text.as_bytes()[..128]).len(), 128);
    }

    #[test]
    fn a_key_that_is_denied_often_is_found_among_any_number_of_others() {
        let mut denied = Denied::default();
        for n in 0..100_000u32 {
            denied.add(format!("other-{n}").as_bytes());
            if n % 20 == 0 {
                denied.add(b"often");
            }
            if n % 50 == 0 {
                denied.add(b"sometimes");
            }
        }
        assert!(denied.counts.len() <= DENIED_KEYS);
        let top = denied.top(2);
        assert_eq!((&*top[0].0, &*top[1].0), (&b"often"[..], &b"sometimes"[..]));
        assert!(top[0].1 >= 5000, "never too low");
    }

    #[test]
    fn a_few_keys_are_counted_exactly() {
        let mut denied = Denied::default();
        for key in ["a", "b", "a", "c", "a", "b"] {
            denied.add(key.as_bytes());
        }
        let top: Vec<_> = denied.top(10).into_iter().map(|(key, count)| (key[0], count)).collect();
        assert_eq!(top, [(b'a', 3), (b'b', 2), (b'c', 1)]);
    }
}
