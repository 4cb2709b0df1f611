//! Bitmaps: the table of this family.

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
    Spec::data("bitcount", -2, READ, Keys::At(1), bitcount::bitcount).doc(
        "key [start end [BYTE | BIT]]",
        "Returns the number of set bits in a string value.",
        "2.6.0",
    ),
    Spec::data("bitfield", -2, WRITE_OOM, Keys::At(1), bitfield::bitfield).doc(
        "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | \
         INCRBY encoding offset increment ...]",
        "Reads, sets and increments integers of arbitrary width at arbitrary bit offsets of a string value.",
        "3.2.0",
    ),
    Spec::data("bitfield_ro", -2, READ_FAST, Keys::At(1), bitfield::bitfield_ro).doc(
        "key [GET encoding offset [GET encoding offset ...]]",
        "Reads integers of arbitrary width at arbitrary bit offsets of a string value. Read-only variant of BITFIELD.",
        "6.0.0",
    ),
    Spec::data("bitop", -4, and(WRITE_OOM, WHOLE), Keys::From(2), bitop::bitop).doc(
        "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
        "Performs a bitwise operation on several string values and stores the result in a key.",
        "2.6.0",
    ),
    Spec::data("bitpos", -3, READ, Keys::At(1), bitpos::bitpos).doc(
        "key bit [start [end [BYTE | BIT]]]",
        "Returns the position of the first bit in a string value that is set or clear.",
        "2.8.7",
    ),
    Spec::data("getbit", 3, READ_FAST, Keys::At(1), setbit::getbit).doc(
        "key offset",
        "Returns the bit at an offset of a string value.",
        "2.2.0",
    ),
    Spec::data("setbit", 4, WRITE_OOM, Keys::At(1), setbit::setbit).doc(
        "key offset value",
        "Sets or clears the bit at an offset of a string value and returns the previous bit. Creates the key if it does not exist.",
        "2.2.0",
    ),
];
