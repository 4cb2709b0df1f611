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
    Spec::data("lpush", -3, WRITE_OOM_FAST, Keys::At(1), push::lpush).doc(
        "key element [element ...]",
        "Prepends one or more elements to a list and returns its length. Creates the key if it does not exist.",
        "1.0.0",
    ),
    Spec::data("rpush", -3, WRITE_OOM_FAST, Keys::At(1), push::rpush).doc(
        "key element [element ...]",
        "Appends one or more elements to a list and returns its length. Creates the key if it does not exist.",
        "1.0.0",
    ),
    Spec::data("lpushx", -3, WRITE_OOM_FAST, Keys::At(1), push::lpushx).doc(
        "key element [element ...]",
        "Prepends one or more elements to a list, only if the list exists.",
        "2.2.0",
    ),
    Spec::data("rpushx", -3, WRITE_OOM_FAST, Keys::At(1), push::rpushx).doc(
        "key element [element ...]",
        "Appends one or more elements to a list, only if the list exists.",
        "2.2.0",
    ),
    Spec::data("lpop", -2, WRITE_FAST, Keys::At(1), pop::lpop).doc(
        "key [count]",
        "Removes and returns the first elements of a list.",
        "1.0.0",
    ),
    Spec::data("rpop", -2, WRITE_FAST, Keys::At(1), pop::rpop).doc(
        "key [count]",
        "Removes and returns the last elements of a list, last element first.",
        "1.0.0",
    ),
    Spec::data("llen", 2, READ_FAST, Keys::At(1), read::llen).doc(
        "key",
        "Returns the length of a list.",
        "1.0.0",
    ),
    Spec::data("lindex", 3, READ, Keys::At(1), read::lindex).doc(
        "key index",
        "Returns the element of a list at an index. Negative indices count from the end.",
        "1.0.0",
    ),
    Spec::data("lrange", 4, READ, Keys::At(1), read::lrange).doc(
        "key start stop",
        "Returns the elements of a list between two indices, both inclusive.",
        "1.0.0",
    ),
    Spec::data("lset", 4, WRITE_OOM, Keys::At(1), lset::lset).doc(
        "key index element",
        "Sets the element of a list at an index.",
        "1.0.0",
    ),
    Spec::data("ltrim", 4, WRITE, Keys::At(1), ltrim::ltrim).doc(
        "key start stop",
        "Trims a list to the elements between two indices, both inclusive.",
        "1.0.0",
    ),
    Spec::data("lrem", 4, WRITE, Keys::At(1), lrem::lrem).doc(
        "key count element",
        "Removes elements equal to a value: the first ones (count > 0), the last ones (count < 0) or all of them (count = 0).",
        "1.0.0",
    ),
    Spec::data("linsert", 5, WRITE_OOM, Keys::At(1), linsert::linsert).doc(
        "key <BEFORE | AFTER> pivot element",
        "Inserts an element before or after another element of a list.",
        "2.2.0",
    ),
    Spec::data("lpos", -3, READ, Keys::At(1), lpos::lpos).doc(
        "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
        "Returns the indices of the elements of a list that are equal to a value.",
        "6.0.6",
    ),
    Spec::data("lmove", 5, WRITE_OOM, Keys::Two(1, 2), lmove::lmove).doc(
        "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
        "Removes an element from one end of a list, adds it to one end of another list, and returns it.",
        "6.2.0",
    ),
    Spec::data("rpoplpush", 3, WRITE_OOM, Keys::Two(1, 2), lmove::rpoplpush).doc(
        "source destination",
        "Removes the last element of a list, prepends it to another list, and returns it. Deprecated in favour of LMOVE.",
        "1.2.0",
    ),
    Spec::data("lmpop", -4, WRITE, Keys::Counted(1), lmpop::lmpop).doc(
        "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        "Removes and returns elements of the first list that is not empty.",
        "7.0.0",
    ),
    Spec::data("blpop", -3, BLOCKING_POP, Keys::Until(1, 1), blpop::blpop).doc(
        "key [key ...] timeout",
        "Removes and returns the first element of the first list that is not empty. Blocks until one is available or the timeout expires.",
        "2.0.0",
    ),
    Spec::data("brpop", -3, BLOCKING_POP, Keys::Until(1, 1), blpop::brpop).doc(
        "key [key ...] timeout",
        "Removes and returns the last element of the first list that is not empty. Blocks until one is available or the timeout expires.",
        "2.0.0",
    ),
    Spec::data("blmove", 6, BLOCKING_MOVE, Keys::Two(1, 2), lmove::blmove).doc(
        "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
        "Moves an element between two lists as LMOVE does. Blocks until one is available or the timeout expires.",
        "6.2.0",
    ),
    Spec::data("brpoplpush", 4, BLOCKING_MOVE, Keys::Two(1, 2), lmove::brpoplpush).doc(
        "source destination timeout",
        "Moves an element between two lists as RPOPLPUSH does. Blocks until one is available or the timeout expires. Deprecated in favour of BLMOVE.",
        "2.2.0",
    ),
    Spec::data("blmpop", -5, and(WRITE, BLOCKING), Keys::Counted(2), lmpop::blmpop).doc(
        "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        "Removes and returns elements of the first list that is not empty. Blocks until one is available or the timeout expires.",
        "7.0.0",
    ),
];
