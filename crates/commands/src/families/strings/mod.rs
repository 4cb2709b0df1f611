//! Strings: the table of this family.

mod append;
mod condition;
mod delex;
mod digest;
mod expire;
mod get;
mod getdel;
mod getex;
mod getrange;
mod getset;
mod incr;
mod incrbyfloat;
mod lcs;
mod mget;
mod mset;
mod msetex;
pub(crate) mod range;
mod set;
mod setex;
mod setnx;
mod setrange;
mod strlen;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::*;

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("APPEND", "append", 3, WRITE_OOM_FAST, Keys::At(1), append::run).doc(
        "key value",
        "Appends to the string under a key, and creates it if it is absent.",
        "2.0.0",
    ),
    Spec::data("DECR", "decr", 2, WRITE_OOM_FAST, Keys::At(1), incr::decr).doc(
        "key",
        "Takes one off the integer under a key; an absent key is 0.",
        "1.0.0",
    ),
    Spec::data("DECRBY", "decrby", 3, WRITE_OOM_FAST, Keys::At(1), incr::decrby).doc(
        "key decrement",
        "Takes a number off the integer under a key; an absent key is 0.",
        "1.0.0",
    ),
    Spec::data("DELEX", "delex", -2, WRITE_FAST, Keys::At(1), delex::run).doc(
        "key [IFEQ match-value | IFNE match-value | IFDEQ match-digest | IFDNE match-digest]",
        "Deletes a key, if its string or the digest of that is, or is not, the one.",
        "8.4.0",
    ),
    Spec::data("DIGEST", "digest", 2, READ_FAST, Keys::At(1), digest::run).doc(
        "key",
        "Gives the digest (XXH3) of the string under a key, in hexadecimal digits.",
        "8.4.0",
    ),
    Spec::data("GET", "get", 2, READ_FAST, Keys::At(1), get::run).doc(
        "key",
        "Gives the string under a key.",
        "1.0.0",
    ),
    Spec::data("GETDEL", "getdel", 2, WRITE_FAST, Keys::At(1), getdel::run).doc(
        "key",
        "Gives the string under a key, and deletes the key.",
        "6.2.0",
    ),
    Spec::data("GETEX", "getex", -2, WRITE_FAST, Keys::At(1), getex::run).doc(
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        "Gives the string under a key, and sets or takes away its expiry.",
        "6.2.0",
    ),
    Spec::data("GETRANGE", "getrange", 4, READ, Keys::At(1), getrange::run).doc(
        "key start end",
        "Gives a part of the string under a key.",
        "2.4.0",
    ),
    Spec::data("GETSET", "getset", 3, WRITE_OOM_FAST, Keys::At(1), getset::run).doc(
        "key value",
        "Puts a string, and gives the one before.",
        "1.0.0",
    ),
    Spec::data("INCR", "incr", 2, WRITE_OOM_FAST, Keys::At(1), incr::incr).doc(
        "key",
        "Adds one to the integer under a key; an absent key is 0.",
        "1.0.0",
    ),
    Spec::data("INCRBY", "incrby", 3, WRITE_OOM_FAST, Keys::At(1), incr::incrby).doc(
        "key increment",
        "Adds to the integer under a key; an absent key is 0.",
        "1.0.0",
    ),
    Spec::data("INCRBYFLOAT", "incrbyfloat", 3, WRITE_OOM_FAST, Keys::At(1), incrbyfloat::run).doc(
        "key increment",
        "Adds to the number under a key; an absent key is 0.",
        "2.6.0",
    ),
    Spec::data("LCS", "lcs", -3, READ, Keys::Two(1, 2), lcs::run).doc(
        "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        "Finds the longest common subsequence of two strings.",
        "7.0.0",
    ),
    Spec::data("MGET", "mget", -2, READ_FAST, Keys::From(1), mget::run).doc(
        "key [key ...]",
        "Gives the strings under keys.",
        "1.0.0",
    ),
    Spec::data("MSET", "mset", -3, WRITE_OOM, Keys::Every(1, 2), mset::mset).doc(
        "key value [key value ...]",
        "Puts strings under keys.",
        "1.0.1",
    ),
    Spec::data("MSETEX", "msetex", -4, WRITE_OOM, Keys::CountedPairs, msetex::run).doc(
        "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
         PXAT unix-time-milliseconds | KEEPTTL]",
        "Puts strings under keys with one expiry, if all of these are absent or all are there.",
        "8.4.0",
    ),
    Spec::data("MSETNX", "msetnx", -3, WRITE_OOM, Keys::Every(1, 2), mset::msetnx).doc(
        "key value [key value ...]",
        "Puts strings under keys if all of these are absent.",
        "1.0.1",
    ),
    Spec::data("PSETEX", "psetex", 4, WRITE_OOM, Keys::At(1), setex::psetex).doc(
        "key milliseconds value",
        "Puts a string that expires after some milliseconds.",
        "2.6.0",
    ),
    Spec::data("SET", "set", -3, WRITE_OOM, Keys::At(1), set::run).doc(
        "key value [NX | XX | IFEQ match-value | IFNE match-value | IFDEQ match-digest | IFDNE match-digest] [GET] \
         [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
         PXAT unix-time-milliseconds | KEEPTTL]",
        "Puts a string under a key, whatever it held before.",
        "1.0.0",
    ),
    Spec::data("SETEX", "setex", 4, WRITE_OOM, Keys::At(1), setex::setex).doc(
        "key seconds value",
        "Puts a string that expires after some seconds.",
        "2.0.0",
    ),
    Spec::data("SETNX", "setnx", 3, WRITE_OOM_FAST, Keys::At(1), setnx::run).doc(
        "key value",
        "Puts a string under a key if it is absent.",
        "1.0.0",
    ),
    Spec::data("SETRANGE", "setrange", 4, WRITE_OOM, Keys::At(1), setrange::run).doc(
        "key offset value",
        "Writes over a part of the string under a key, and lengthens it with zeros if it is too short.",
        "2.2.0",
    ),
    Spec::data("STRLEN", "strlen", 2, READ_FAST, Keys::At(1), strlen::run).doc(
        "key",
        "Gives the length of the string under a key.",
        "2.2.0",
    ),
    Spec::data("SUBSTR", "substr", 4, READ, Keys::At(1), getrange::run).doc(
        "key start end",
        "Gives a part of the string under a key; an old name of GETRANGE.",
        "1.0.0",
    ),
];
