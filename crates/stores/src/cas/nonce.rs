//! The nonces of one handle. Accesses nothing but the seed that the standard library takes from the system.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

pub use keystead_core::record::Nonce;

/// The nonces of one handle. No two handles share an id, except with a probability of one to 2^64.
pub(crate) struct Nonces {
    writer: u64,
    last: AtomicU64,
}

impl Nonces {
    pub(crate) fn new() -> Self {
        Nonces { writer: random(), last: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> Nonce {
        Nonce { writer: self.writer, number: self.last.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

/// A random number. Each `RandomState` is seeded differently.
pub(crate) fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one((COUNT.fetch_add(1, Ordering::Relaxed), std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_read_back_and_never_repeats() {
        let (a, b) = (Nonces::new(), Nonces::new());
        let all = [a.next(), a.next(), b.next(), b.next()];
        for (i, nonce) in all.iter().enumerate() {
            assert_eq!(Nonce::parse(&nonce.to_string()), Some(*nonce));
            assert!(!all[..i].contains(nonce));
        }
    }
}
