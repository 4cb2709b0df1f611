//! The digest of each key of moving slots, kept up to date with what is exported or staged, so that a hand over does not read all keys.
//! Touches nothing.
//!
//! Keys are named by a hash with random keys of this process: their names are not kept, and nobody can choose two that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use keystead_cluster::Digest;
use keystead_core::Millis;
use keystead_model::effect::{Effect, Fact, encode};

/// What is compared of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyDigest {
    digest: Digest,
    /// When it, or the first of its fields, expires.
    expires_at: Millis,
}

/// That of the key of these effects; `None` if it does not exist. Its effects may be in any order, so each is a record.
fn of_key(effects: &[Effect]) -> Option<KeyDigest> {
    let (mut digest, mut expires_at, mut bytes) = (Digest::default(), Millis::NEVER, Vec::new());
    for effect in effects {
        match effect.fact {
            Fact::Deleted => return None,
            Fact::Expiry(at) | Fact::HashField { expires_at: at, .. } => expires_at = expires_at.min(at),
            _ => {}
        }
        bytes.clear();
        encode(std::slice::from_ref(effect), &mut bytes);
        digest = digest.with(effect.version.0, &bytes);
    }
    Some(KeyDigest { digest, expires_at })
}

/// The hashes and digests of some keys, from the thread of their shard.
pub(super) type Digested = Vec<(u64, Option<KeyDigest>)>;

/// Names keys by a hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(RandomState);

impl Names {
    /// The entry of the key of these effects.
    pub(super) fn digest(&self, effects: &[Effect]) -> Option<(u64, Option<KeyDigest>)> {
        let first = effects.first()?;
        Some((self.0.hash_one(&first.key), of_key(effects)))
    }
}

/// The digests of all keys of moving slots.
#[derive(Debug, Default)]
pub(super) struct KeyDigests(HashMap<u64, KeyDigest>);

impl KeyDigests {
    /// Takes what was exported or staged now.
    pub(super) fn put(&mut self, digested: Digested) {
        for (name, digest) in digested {
            match digest {
                Some(digest) => drop(self.0.insert(name, digest)),
                None => drop(self.0.remove(&name)),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The digest of all keys. One is left out as a whole if it, or a field of it, expires by `after`.
    pub(super) fn sum(&self, after: Millis) -> Digest {
        let mut sum = Digest::default();
        for key in self.0.values().filter(|key| key.expires_at > after) {
            sum.count = sum.count.wrapping_add(key.digest.count);
            sum.versions = sum.versions.wrapping_add(key.digest.versions);
            sum.checksum = sum.checksum.wrapping_add(key.digest.checksum);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use keystead_core::{Revision, Version};
    use keystead_model::Bytes;

    use super::*;

    fn effect(key: &'static [u8], fact: Fact) -> Effect {
        Effect { id: 0, key: Bytes::from(key), version: Version(3), revision: Revision::ZERO, fact }
    }

    #[test]
    fn the_sum_is_of_what_was_put_last_and_does_not_expire_soon() {
        let (names, mut all, mut one) = (Names::default(), KeyDigests::default(), KeyDigests::default());
        let a = effect(b"a", Fact::Str(Bytes::from(b"1")));
        let b = effect(b"b", Fact::Str(Bytes::from(b"1")));
        let soon = effect(b"b", Fact::Expiry(Millis(50)));
        let put = |digests: &mut KeyDigests, effects: &[Effect]| {
            digests.put(names.digest(effects).into_iter().collect());
        };
        put(&mut one, std::slice::from_ref(&a));
        put(&mut all, std::slice::from_ref(&a));
        put(&mut all, &[soon.clone(), b.clone()]);
        assert_eq!((all.len(), all.sum(Millis(50))), (2, one.sum(Millis(0))));
        let both = all.sum(Millis(49));
        assert_ne!(both, one.sum(Millis(0)));
        put(&mut all, &[b, soon]);
        assert_eq!(all.sum(Millis(49)), both, "in any order");
        put(&mut all, &[effect(b"b", Fact::Deleted)]);
        assert_eq!((all.len(), all.sum(Millis(0))), (1, one.sum(Millis(0))));
    }
}
