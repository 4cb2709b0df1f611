//! HyperLogLog: the table of this family.
//!
//! A sketch is a string in Redis's format, byte for byte, so that values can be exchanged with GET and SET:
//!
//! | Bytes   | What                                                                                   |
//! |---------|----------------------------------------------------------------------------------------|
//! | 0..4    | `HYLL`                                                                                 |
//! | 4       | 0: dense, 1: sparse                                                                    |
//! | 5..8    | unused                                                                                 |
//! | 8..16   | the last computed cardinality, little-endian; its highest bit: it is stale             |
//! | 16..    | 16384 registers of 6 bits, or runs of them                                             |

mod dense;
mod estimate;
mod hash;
mod pfadd;
mod pfcount;
mod pfmerge;
mod sketch;
mod sparse;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::*;

/// Registers of a sketch. The number of a register is the low bits of an element's hash.
const REGISTERS: usize = 1 << REGISTER_BITS;
const REGISTER_BITS: u32 = 14;

/// The highest value of a register: one more than the remaining bits of the hash.
const RANK_MAX: usize = (u64::BITS - REGISTER_BITS) as usize + 1;

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("pfadd", -2, WRITE_OOM_FAST, Keys::At(1), pfadd::pfadd).doc(
        "key [element [element ...]]",
        "Adds elements to a HyperLogLog. Creates the key if it does not exist.",
        "2.8.9",
    ),
    Spec::data("pfcount", -2, and(and(READ, MAY_WRITE), WHOLE), Keys::From(1), pfcount::pfcount).doc(
        "key [key ...]",
        "Returns the approximate number of distinct elements added to one or more HyperLogLogs.",
        "2.8.9",
    ),
    Spec::data("pfmerge", -2, and(WRITE_OOM, WHOLE), Keys::From(1), pfmerge::pfmerge).doc(
        "destkey [sourcekey [sourcekey ...]]",
        "Merges one or more HyperLogLogs into a destination key.",
        "2.8.9",
    ),
];
