//! Generic commands on keys of any type: existence, names, expiration, iteration, sorting, memory.

mod copy;
mod del;
mod encoding;
mod exists;
mod expire;
mod flush;
mod memory;
mod move_key;
mod object;
mod pattern;
mod persist;
mod random_key;
mod rename;
mod scan;
mod sort;
mod ttl;
mod type_of;

use crate::keys_of::Keys;
use crate::spec::flag::{ALL_KEYS, READ, READ_FAST, SPLIT, WRITE, WRITE_FAST, WRITE_OOM, and};
use crate::spec::{Spec, Spread};

const SORT_SYNTAX: &str = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] \
    [STORE destination]";
const SORT_RO_SYNTAX: &str =
    "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]";

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("del", -2, and(WRITE, SPLIT), Keys::From(1), del::del)
        .doc("key [key ...]", "Deletes one or more keys and returns how many were deleted.", "1.0.0")
        .bare(),
    Spec::data("unlink", -2, and(WRITE_FAST, SPLIT), Keys::From(1), del::del)
        .doc(
            "key [key ...]",
            "Deletes one or more keys and returns how many were deleted, as DEL does.",
            "4.0.0",
        )
        .bare(),
    Spec::data("exists", -2, and(READ_FAST, SPLIT), Keys::From(1), exists::exists).doc(
        "key [key ...]",
        "Returns how many of the given keys exist. A key given twice counts twice.",
        "1.0.0",
    ),
    Spec::data("touch", -2, and(READ_FAST, SPLIT), Keys::From(1), exists::exists).doc(
        "key [key ...]",
        "Returns how many of the given keys exist and marks them as used.",
        "3.2.1",
    ),
    Spec::data("type", 2, READ_FAST, Keys::At(1), type_of::type_).doc(
        "key",
        "Returns the type of the value stored at a key.",
        "1.0.0",
    ),
    Spec::data("rename", 3, WRITE, Keys::Two(1, 2), rename::rename).doc(
        "key newkey",
        "Renames a key. Overwrites the destination if it exists.",
        "1.0.0",
    ),
    Spec::data("renamenx", 3, WRITE_FAST, Keys::Two(1, 2), rename::renamenx).doc(
        "key newkey",
        "Renames a key, only if the new name does not exist.",
        "1.0.0",
    ),
    Spec::data("copy", -3, WRITE_OOM, Keys::Two(1, 2), copy::copy).doc(
        "source destination [DB destination-db] [REPLACE]",
        "Copies the value and the expiration of a key to another key.",
        "6.2.0",
    ),
    Spec::data("move", 3, WRITE_FAST, Keys::At(1), move_key::move_).doc(
        "key db",
        "Always returns an error: there is only one database.",
        "1.0.0",
    ),
    Spec::data("randomkey", 1, and(READ, ALL_KEYS), Keys::None, random_key::randomkey)
        .doc("", "Returns a random key.", "1.0.0")
        .spread(Spread::Some),
    Spec::data("keys", 2, and(READ, ALL_KEYS), Keys::None, pattern::keys)
        .doc("pattern", "Returns all keys that match a glob pattern.", "1.0.0")
        .spread(Spread::Join),
    Spec::data("scan", -2, and(READ, ALL_KEYS), Keys::None, scan::scan)
        .doc(
            "cursor [MATCH pattern] [COUNT count] [TYPE type]",
            "Iterates over the keys of the database with a cursor.",
            "2.8.0",
        )
        .spread(Spread::Cursor),
    Spec::data("expire", -3, WRITE_FAST, Keys::At(1), expire::expire).doc(
        "key seconds [NX | XX | GT | LT]",
        "Sets the expiration of a key in seconds from now.",
        "1.0.0",
    ),
    Spec::data("pexpire", -3, WRITE_FAST, Keys::At(1), expire::pexpire).doc(
        "key milliseconds [NX | XX | GT | LT]",
        "Sets the expiration of a key in milliseconds from now.",
        "2.6.0",
    ),
    Spec::data("expireat", -3, WRITE_FAST, Keys::At(1), expire::expireat).doc(
        "key unix-time-seconds [NX | XX | GT | LT]",
        "Sets the expiration of a key to a Unix time in seconds.",
        "1.2.0",
    ),
    Spec::data("pexpireat", -3, WRITE_FAST, Keys::At(1), expire::pexpireat).doc(
        "key unix-time-milliseconds [NX | XX | GT | LT]",
        "Sets the expiration of a key to a Unix time in milliseconds.",
        "2.6.0",
    ),
    Spec::data("ttl", 2, READ_FAST, Keys::At(1), ttl::ttl).doc(
        "key",
        "Returns the remaining time to live of a key in seconds.",
        "1.0.0",
    ),
    Spec::data("pttl", 2, READ_FAST, Keys::At(1), ttl::pttl).doc(
        "key",
        "Returns the remaining time to live of a key in milliseconds.",
        "2.6.0",
    ),
    Spec::data("expiretime", 2, READ_FAST, Keys::At(1), ttl::expiretime).doc(
        "key",
        "Returns the expiration of a key as a Unix time in seconds.",
        "7.0.0",
    ),
    Spec::data("pexpiretime", 2, READ_FAST, Keys::At(1), ttl::pexpiretime).doc(
        "key",
        "Returns the expiration of a key as a Unix time in milliseconds.",
        "7.0.0",
    ),
    Spec::data("persist", 2, WRITE_FAST, Keys::At(1), persist::persist).doc(
        "key",
        "Removes the expiration of a key.",
        "2.2.0",
    ),
    Spec::data("sort", -2, WRITE_OOM, Keys::AndAfter(&["STORE"]), sort::sort).doc(
        SORT_SYNTAX,
        "Sorts the elements of a list, a set or a sorted set, and optionally stores the result.",
        "1.0.0",
    ),
    Spec::data("sort_ro", -2, and(READ, ALL_KEYS), Keys::At(1), sort::sort_ro).doc(
        SORT_RO_SYNTAX,
        "Returns the sorted elements of a list, a set or a sorted set. Read-only variant of SORT.",
        "7.0.0",
    ),
    Spec::within("object", object::TABLE).doc("", "A container for object introspection commands.", "2.2.3"),
    Spec::within("memory", memory::TABLE).doc("", "A container for memory diagnostics commands.", "4.0.0"),
    Spec::data("dbsize", 1, READ_FAST, Keys::None, flush::dbsize)
        .doc("", "Returns the number of keys in the database.", "1.0.0")
        .spread(Spread::Sum),
    Spec::data("flushdb", -1, WRITE, Keys::None, flush::flushall)
        .doc("[ASYNC | SYNC]", "Deletes all keys of the database.", "1.0.0")
        .spread(Spread::Each),
    Spec::data("flushall", -1, WRITE, Keys::None, flush::flushall)
        .doc("[ASYNC | SYNC]", "Deletes all keys of all databases. There is only one.", "1.0.0")
        .spread(Spread::Each),
];
