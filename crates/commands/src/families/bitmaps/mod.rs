//! Bits of strings: the table of this family.

mod bitcount;
mod bitfield;
mod bitop;
mod bitpos;
mod field;
mod offset;
mod setbit;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::*;

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("BITCOUNT", "bitcount", -2, READ, Keys::At(1), bitcount::run).doc(
        "key [start end [BYTE | BIT]]",
        "Counts the bits that are set in the string under a key.",
        "2.6.0",
    ),
    Spec::data("BITFIELD", "bitfield", -2, WRITE_OOM, Keys::At(1), bitfield::run).doc(
        "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | \
         INCRBY encoding offset increment ...]",
        "Looks at and changes integers of any width at any bit of the string under a key.",
        "3.2.0",
    ),
    Spec::data("BITFIELD_RO", "bitfield_ro", -2, READ_FAST, Keys::At(1), bitfield::run_read_only).doc(
        "key [GET encoding offset [GET encoding offset ...]]",
        "Looks at integers of any width at any bit of the string under a key.",
        "6.0.0",
    ),
    Spec::data("BITOP", "bitop", -4, and(WRITE_OOM, WHOLE), Keys::From(2), bitop::run).doc(
        "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
        "Puts what a logical operation makes of the bits of strings.",
        "2.6.0",
    ),
    Spec::data("BITPOS", "bitpos", -3, READ, Keys::At(1), bitpos::run).doc(
        "key bit [start [end [BYTE | BIT]]]",
        "Finds the first bit that is set, or the first that is not.",
        "2.8.7",
    ),
    Spec::data("GETBIT", "getbit", 3, READ_FAST, Keys::At(1), setbit::getbit).doc(
        "key offset",
        "Gives a bit of the string under a key.",
        "2.2.0",
    ),
    Spec::data("SETBIT", "setbit", 4, WRITE_OOM, Keys::At(1), setbit::setbit).doc(
        "key offset value",
        "Sets or clears a bit of the string under a key, and gives what it was before.",
        "2.2.0",
    ),
];
