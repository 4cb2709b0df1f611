//! The register and rank of an element. It touches nothing.

use super::{REGISTER_BITS, REGISTERS};

/// The seed of all sketches.
const SEED: u64 = 0xadc8_3b19;

/// The register of an element and its rank: the number of leading zeros of the rest of the hash, plus one.
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let rest = hash >> REGISTER_BITS | 1 << (u64::BITS - REGISTER_BITS);
    ((hash as usize) & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash64A.
fn murmur(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mix = |value: u64| (value ^ value >> 47).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(M);
        hash = (hash ^ mix(word)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    let hash = mix(hash);
    hash ^ hash >> 47
}
