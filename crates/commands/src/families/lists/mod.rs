//! Lists: the table of this family.

mod blpop;
mod end;
mod linsert;
mod lmove;
mod lmpop;
mod lpos;
mod lrem;
mod lset;
mod ltrim;
mod pop;
mod push;
mod read;

use crate::keys_of::Keys;
use crate::spec::flag::*;
use crate::spec::{Flags, Spec};

const BLOCKING_POP: Flags = and(and(WRITE, NO_SCRIPT), BLOCKING);
const BLOCKING_MOVE: Flags = and(BLOCKING_POP, DENY_OOM);

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("LPUSH", "lpush", -3, WRITE_OOM_FAST, Keys::At(1), push::lpush).doc(
        "key element [element ...]",
        "Puts elements before all others, one after the other, and gives the length.",
        "1.0.0",
    ),
    Spec::data("RPUSH", "rpush", -3, WRITE_OOM_FAST, Keys::At(1), push::rpush).doc(
        "key element [element ...]",
        "Puts elements behind all others and gives the length.",
        "1.0.0",
    ),
    Spec::data("LPUSHX", "lpushx", -3, WRITE_OOM_FAST, Keys::At(1), push::lpushx).doc(
        "key element [element ...]",
        "Puts elements before all others of a list that is there.",
        "2.2.0",
    ),
    Spec::data("RPUSHX", "rpushx", -3, WRITE_OOM_FAST, Keys::At(1), push::rpushx).doc(
        "key element [element ...]",
        "Puts elements behind all others of a list that is there.",
        "2.2.0",
    ),
    Spec::data("LPOP", "lpop", -2, WRITE_FAST, Keys::At(1), pop::lpop).doc(
        "key [count]",
        "Takes the first elements.",
        "1.0.0",
    ),
    Spec::data("RPOP", "rpop", -2, WRITE_FAST, Keys::At(1), pop::rpop).doc(
        "key [count]",
        "Takes the last elements, the last one first.",
        "1.0.0",
    ),
    Spec::data("LLEN", "llen", 2, READ_FAST, Keys::At(1), read::llen).doc(
        "key",
        "Gives the length of a list.",
        "1.0.0",
    ),
    Spec::data("LINDEX", "lindex", 3, READ, Keys::At(1), read::lindex).doc(
        "key index",
        "Gives the element at an index, counted from either end.",
        "1.0.0",
    ),
    Spec::data("LRANGE", "lrange", 4, READ, Keys::At(1), read::lrange).doc(
        "key start stop",
        "Gives the elements from one index to another.",
        "1.0.0",
    ),
    Spec::data("LSET", "lset", 4, WRITE_OOM, Keys::At(1), lset::run).doc(
        "key index element",
        "Replaces the element at an index.",
        "1.0.0",
    ),
    Spec::data("LTRIM", "ltrim", 4, WRITE, Keys::At(1), ltrim::run).doc(
        "key start stop",
        "Removes all elements but those from one index to another.",
        "1.0.0",
    ),
    Spec::data("LREM", "lrem", 4, WRITE, Keys::At(1), lrem::run).doc(
        "key count element",
        "Removes elements that are equal to one: the first (count > 0), the last (< 0) or all (0).",
        "1.0.0",
    ),
    Spec::data("LINSERT", "linsert", 5, WRITE_OOM, Keys::At(1), linsert::run).doc(
        "key <BEFORE | AFTER> pivot element",
        "Puts an element before or behind another one.",
        "2.2.0",
    ),
    Spec::data("LPOS", "lpos", -3, READ, Keys::At(1), lpos::run).doc(
        "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        "Gives the indices of elements that are equal to one.",
        "6.0.6",
    ),
    Spec::data("LMOVE", "lmove", 5, WRITE_OOM, Keys::Two(1, 2), lmove::lmove).doc(
        "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
        "Takes an element from an end of a list, puts it at an end of another, and gives it.",
        "6.2.0",
    ),
    Spec::data("RPOPLPUSH", "rpoplpush", 3, WRITE_OOM, Keys::Two(1, 2), lmove::rpoplpush).doc(
        "source destination",
        "Takes the last element of a list, puts it before all others of another, and gives it.",
        "1.2.0",
    ),
    Spec::data("LMPOP", "lmpop", -4, WRITE, Keys::Counted(1), lmpop::lmpop).doc(
        "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        "Takes elements from the first of several lists that is there.",
        "7.0.0",
    ),
    Spec::data("BLPOP", "blpop", -3, BLOCKING_POP, Keys::Until(1, 1), blpop::blpop).doc(
        "key [key ...] timeout",
        "Takes the first element of the first of several lists that is there, or waits for one.",
        "2.0.0",
    ),
    Spec::data("BRPOP", "brpop", -3, BLOCKING_POP, Keys::Until(1, 1), blpop::brpop).doc(
        "key [key ...] timeout",
        "Takes the last element of the first of several lists that is there, or waits for one.",
        "2.0.0",
    ),
    Spec::data("BLMOVE", "blmove", 6, BLOCKING_MOVE, Keys::Two(1, 2), lmove::blmove).doc(
        "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
        "Moves an element from an end of a list to an end of another as LMOVE does, or waits for one.",
        "6.2.0",
    ),
    Spec::data("BRPOPLPUSH", "brpoplpush", 4, BLOCKING_MOVE, Keys::Two(1, 2), lmove::brpoplpush).doc(
        "source destination timeout",
        "Moves the last element of a list to the front of another as RPOPLPUSH does, or waits for one.",
        "2.2.0",
    ),
    Spec::data("BLMPOP", "blmpop", -5, and(WRITE, BLOCKING), Keys::Counted(2), lmpop::blmpop).doc(
        "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        "Takes elements from the first of several lists that is there, or waits for one.",
        "7.0.0",
    ),
];
