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
    Spec::data("append", 3, WRITE_OOM_FAST, Keys::At(1), append::append).doc(
        "key value",
        "Appends a string to the value of a key. Creates the key if it does not exist.",
        "2.0.0",
    ),
    Spec::data("decr", 2, WRITE_OOM_FAST, Keys::At(1), incr::decr).doc(
        "key",
        "Decrements the integer value of a key by one. Uses 0 as the initial value if the key does not exist.",
        "1.0.0",
    ),
    Spec::data("decrby", 3, WRITE_OOM_FAST, Keys::At(1), incr::decrby).doc(
        "key decrement",
        "Decrements the integer value of a key by a number. Uses 0 as the initial value if the key does not exist.",
        "1.0.0",
    ),
    Spec::data("delex", -2, WRITE_FAST, Keys::At(1), delex::delex).doc(
        "key [IFEQ match-value | IFNE match-value | IFDEQ match-digest | IFDNE match-digest]",
        "Deletes a key, optionally only if its string value or the digest of the value matches, or does not match, the given one.",
        "8.4.0",
    ),
    Spec::data("digest", 2, READ_FAST, Keys::At(1), digest::digest).doc(
        "key",
        "Returns the XXH3 digest of a string value as hexadecimal digits.",
        "8.4.0",
    ),
    Spec::data("get", 2, READ_FAST, Keys::At(1), get::get).doc(
        "key",
        "Returns the string value of a key.",
        "1.0.0",
    ),
    Spec::data("getdel", 2, WRITE_FAST, Keys::At(1), getdel::getdel).doc(
        "key",
        "Returns the string value of a key and deletes the key.",
        "6.2.0",
    ),
    Spec::data("getex", -2, WRITE_FAST, Keys::At(1), getex::getex).doc(
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        "Returns the string value of a key and sets or removes its expiration.",
        "6.2.0",
    ),
    Spec::data("getrange", 4, READ, Keys::At(1), getrange::getrange).doc(
        "key start end",
        "Returns the substring of a string value between two byte offsets, both inclusive.",
        "2.4.0",
    ),
    Spec::data("getset", 3, WRITE_OOM_FAST, Keys::At(1), getset::getset).doc(
        "key value",
        "Sets the string value of a key and returns the previous value.",
        "1.0.0",
    ),
    Spec::data("incr", 2, WRITE_OOM_FAST, Keys::At(1), incr::incr).doc(
        "key",
        "Increments the integer value of a key by one. Uses 0 as the initial value if the key does not exist.",
        "1.0.0",
    ),
    Spec::data("incrby", 3, WRITE_OOM_FAST, Keys::At(1), incr::incrby).doc(
        "key increment",
        "Increments the integer value of a key by a number. Uses 0 as the initial value if the key does not exist.",
        "1.0.0",
    ),
    Spec::data("incrbyfloat", 3, WRITE_OOM_FAST, Keys::At(1), incrbyfloat::incrbyfloat).doc(
        "key increment",
        "Increments the floating-point value of a key by a number. Uses 0 as the initial value if the key does not exist.",
        "2.6.0",
    ),
    Spec::data("lcs", -3, READ, Keys::Two(1, 2), lcs::lcs).doc(
        "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        "Returns the longest common subsequence of two string values.",
        "7.0.0",
    ),
    Spec::data("mget", -2, and(READ_FAST, SPLIT), Keys::From(1), mget::mget).doc(
        "key [key ...]",
        "Returns the string values of one or more keys.",
        "1.0.0",
    ),
    Spec::data("mset", -3, WRITE_OOM, Keys::Every(1, 2), mset::mset).doc(
        "key value [key value ...]",
        "Sets the string values of one or more keys.",
        "1.0.1",
    ),
    Spec::data("msetex", -4, WRITE_OOM, Keys::CountedPairs, msetex::msetex).doc(
        "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
         PXAT unix-time-milliseconds | KEEPTTL]",
        "Sets the string values of one or more keys with a shared expiration, optionally only if all of them exist or none does.",
        "8.4.0",
    ),
    Spec::data("msetnx", -3, WRITE_OOM, Keys::Every(1, 2), mset::msetnx).doc(
        "key value [key value ...]",
        "Sets the string values of one or more keys, only if none of them exists.",
        "1.0.1",
    ),
    Spec::data("psetex", 4, WRITE_OOM, Keys::At(1), setex::psetex).doc(
        "key milliseconds value",
        "Sets the string value of a key and its expiration in milliseconds.",
        "2.6.0",
    ),
    Spec::data("set", -3, WRITE_OOM, Keys::At(1), set::set).doc(
        "key value [NX | XX | IFEQ match-value | IFNE match-value | IFDEQ match-digest | IFDNE match-digest] [GET] \
         [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
         PXAT unix-time-milliseconds | KEEPTTL]",
        "Sets the string value of a key, whatever its previous type. Options add a condition, an expiration, or return the previous value.",
        "1.0.0",
    ),
    Spec::data("setex", 4, WRITE_OOM, Keys::At(1), setex::setex).doc(
        "key seconds value",
        "Sets the string value of a key and its expiration in seconds.",
        "2.0.0",
    ),
    Spec::data("setnx", 3, WRITE_OOM_FAST, Keys::At(1), setnx::setnx).doc(
        "key value",
        "Sets the string value of a key, only if the key does not exist.",
        "1.0.0",
    ),
    Spec::data("setrange", 4, WRITE_OOM, Keys::At(1), setrange::setrange).doc(
        "key offset value",
        "Overwrites part of a string value, starting at a byte offset. Pads the value with zero bytes if it is shorter.",
        "2.2.0",
    ),
    Spec::data("strlen", 2, READ_FAST, Keys::At(1), strlen::strlen).doc(
        "key",
        "Returns the length of a string value in bytes.",
        "2.2.0",
    ),
    Spec::data("substr", 4, READ, Keys::At(1), getrange::getrange).doc(
        "key start end",
        "Returns a substring of a string value. Deprecated alias of GETRANGE.",
        "1.0.0",
    ),
];
