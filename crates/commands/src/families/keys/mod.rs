//! Keys, whatever they hold: being there, names, expiry, walking, sorting, and what all of them take.

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
use crate::spec::flag::{ALL_KEYS, READ, READ_FAST, WRITE, WRITE_FAST, WRITE_OOM, and};
use crate::spec::{Spec, Spread};

const SORT_SYNTAX: &str = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] \
    [STORE destination]";
const SORT_RO_SYNTAX: &str =
    "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]";

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("DEL", "del", -2, WRITE, Keys::From(1), del::run)
        .doc("key [key ...]", "Deletes keys.", "1.0.0")
        .bare(),
    Spec::data("UNLINK", "unlink", -2, WRITE_FAST, Keys::From(1), del::run)
        .doc("key [key ...]", "Deletes keys.", "4.0.0")
        .bare(),
    Spec::data("EXISTS", "exists", -2, READ_FAST, Keys::From(1), exists::run).doc(
        "key [key ...]",
        "Counts the keys that are there.",
        "1.0.0",
    ),
    Spec::data("TOUCH", "touch", -2, READ_FAST, Keys::From(1), exists::run).doc(
        "key [key ...]",
        "Uses keys, and counts those that are there.",
        "3.2.1",
    ),
    Spec::data("TYPE", "type", 2, READ_FAST, Keys::At(1), type_of::run).doc(
        "key",
        "Gives the type of the value under a key.",
        "1.0.0",
    ),
    Spec::data("RENAME", "rename", 3, WRITE, Keys::Two(1, 2), rename::rename).doc(
        "key newkey",
        "Gives a key another name, and overwrites what has it.",
        "1.0.0",
    ),
    Spec::data("RENAMENX", "renamenx", 3, WRITE_FAST, Keys::Two(1, 2), rename::renamenx).doc(
        "key newkey",
        "Gives a key another name that is free.",
        "1.0.0",
    ),
    Spec::data("COPY", "copy", -3, WRITE_OOM, Keys::Two(1, 2), copy::run).doc(
        "source destination [DB destination-db] [REPLACE]",
        "Copies the value and the expiry of a key to another one.",
        "6.2.0",
    ),
    Spec::data("MOVE", "move", 3, WRITE_FAST, Keys::At(1), move_key::run).doc(
        "key db",
        "Refuses: there is one database only.",
        "1.0.0",
    ),
    Spec::data("RANDOMKEY", "randomkey", 1, and(READ, ALL_KEYS), Keys::None, random_key::run)
        .doc("", "Gives a random key.", "1.0.0")
        .spread(Spread::Some),
    Spec::data("KEYS", "keys", 2, and(READ, ALL_KEYS), Keys::None, pattern::run)
        .doc("pattern", "Gives all keys that match a pattern.", "1.0.0")
        .spread(Spread::Join),
    Spec::data("SCAN", "scan", -2, and(READ, ALL_KEYS), Keys::None, scan::run)
        .doc("cursor [MATCH pattern] [COUNT count] [TYPE type]", "Walks all keys, some at a time.", "2.8.0")
        .spread(Spread::Cursor),
    Spec::data("EXPIRE", "expire", -3, WRITE_FAST, Keys::At(1), expire::expire).doc(
        "key seconds [NX | XX | GT | LT]",
        "Lets a key expire in so many seconds.",
        "1.0.0",
    ),
    Spec::data("PEXPIRE", "pexpire", -3, WRITE_FAST, Keys::At(1), expire::pexpire).doc(
        "key milliseconds [NX | XX | GT | LT]",
        "Lets a key expire in so many milliseconds.",
        "2.6.0",
    ),
    Spec::data("EXPIREAT", "expireat", -3, WRITE_FAST, Keys::At(1), expire::expireat).doc(
        "key unix-time-seconds [NX | XX | GT | LT]",
        "Lets a key expire at a moment in seconds.",
        "1.2.0",
    ),
    Spec::data("PEXPIREAT", "pexpireat", -3, WRITE_FAST, Keys::At(1), expire::pexpireat).doc(
        "key unix-time-milliseconds [NX | XX | GT | LT]",
        "Lets a key expire at a moment in milliseconds.",
        "2.6.0",
    ),
    Spec::data("TTL", "ttl", 2, READ_FAST, Keys::At(1), ttl::ttl).doc(
        "key",
        "Gives the seconds until a key expires.",
        "1.0.0",
    ),
    Spec::data("PTTL", "pttl", 2, READ_FAST, Keys::At(1), ttl::pttl).doc(
        "key",
        "Gives the milliseconds until a key expires.",
        "2.6.0",
    ),
    Spec::data("EXPIRETIME", "expiretime", 2, READ_FAST, Keys::At(1), ttl::expiretime).doc(
        "key",
        "Gives the moment at which a key expires, in seconds.",
        "7.0.0",
    ),
    Spec::data("PEXPIRETIME", "pexpiretime", 2, READ_FAST, Keys::At(1), ttl::pexpiretime).doc(
        "key",
        "Gives the moment at which a key expires, in milliseconds.",
        "7.0.0",
    ),
    Spec::data("PERSIST", "persist", 2, WRITE_FAST, Keys::At(1), persist::run).doc(
        "key",
        "Lets a key expire no more.",
        "2.2.0",
    ),
    Spec::data("SORT", "sort", -2, WRITE_OOM, Keys::AndAfter(&["STORE"]), sort::sort).doc(
        SORT_SYNTAX,
        "Sorts a list, a set or a sorted set, and may store the result.",
        "1.0.0",
    ),
    Spec::data("SORT_RO", "sort_ro", -2, and(READ, ALL_KEYS), Keys::At(1), sort::sort_ro).doc(
        SORT_RO_SYNTAX,
        "Sorts a list, a set or a sorted set.",
        "7.0.0",
    ),
    Spec::within("OBJECT", "object", object::TABLE),
    Spec::within("MEMORY", "memory", memory::TABLE),
    Spec::data("DBSIZE", "dbsize", 1, READ_FAST, Keys::None, flush::dbsize)
        .doc("", "Counts all keys.", "1.0.0")
        .spread(Spread::Sum),
    Spec::data("FLUSHDB", "flushdb", -1, WRITE, Keys::None, flush::flush)
        .doc("[ASYNC | SYNC]", "Deletes all keys.", "1.0.0")
        .spread(Spread::Each),
    Spec::data("FLUSHALL", "flushall", -1, WRITE, Keys::None, flush::flush)
        .doc("[ASYNC | SYNC]", "Deletes all keys.", "1.0.0")
        .spread(Spread::Each),
];
