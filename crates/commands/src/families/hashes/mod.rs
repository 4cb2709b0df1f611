//! Hashes: fields and values, and fields that expire.

mod all;
mod del;
mod expire;
mod fields;
mod get;
mod get_del;
mod get_ex;
mod incr;
mod moment;
mod persist;
mod random_field;
mod scan;
mod set;
mod set_ex;
mod ttl;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{READ, READ_FAST, WRITE_FAST, WRITE_OOM_FAST};

const FIELDS: &str = "key FIELDS numfields field [field ...]";
const HGETEX_SYNTAX: &str = "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | \
    PERSIST] FIELDS numfields field [field ...]";
const HSETEX_SYNTAX: &str = "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
    unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]";

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("HSET", "hset", -4, WRITE_OOM_FAST, Keys::At(1), set::hset).doc(
        "key field value [field value ...]",
        "Sets fields and counts the new ones.",
        "2.0.0",
    ),
    Spec::data("HMSET", "hmset", -4, WRITE_OOM_FAST, Keys::At(1), set::hmset).doc(
        "key field value [field value ...]",
        "Sets fields.",
        "2.0.0",
    ),
    Spec::data("HSETNX", "hsetnx", 4, WRITE_OOM_FAST, Keys::At(1), set::hsetnx).doc(
        "key field value",
        "Sets a field that is not there.",
        "2.0.0",
    ),
    Spec::data("HGET", "hget", 3, READ_FAST, Keys::At(1), get::hget).doc(
        "key field",
        "Gives the value of a field.",
        "2.0.0",
    ),
    Spec::data("HMGET", "hmget", -3, READ_FAST, Keys::At(1), get::hmget).doc(
        "key field [field ...]",
        "Gives the values of fields.",
        "2.0.0",
    ),
    Spec::data("HGETALL", "hgetall", 2, READ, Keys::At(1), all::hgetall).doc(
        "key",
        "Gives all fields and values.",
        "2.0.0",
    ),
    Spec::data("HKEYS", "hkeys", 2, READ, Keys::At(1), all::hkeys).doc("key", "Gives all fields.", "2.0.0"),
    Spec::data("HVALS", "hvals", 2, READ, Keys::At(1), all::hvals).doc("key", "Gives all values.", "2.0.0"),
    Spec::data("HDEL", "hdel", -3, WRITE_FAST, Keys::At(1), del::run).doc(
        "key field [field ...]",
        "Removes fields.",
        "2.0.0",
    ),
    Spec::data("HEXISTS", "hexists", 3, READ_FAST, Keys::At(1), get::hexists).doc(
        "key field",
        "Tells whether a field is there.",
        "2.0.0",
    ),
    Spec::data("HLEN", "hlen", 2, READ_FAST, Keys::At(1), get::hlen).doc(
        "key",
        "Counts the fields.",
        "2.0.0",
    ),
    Spec::data("HSTRLEN", "hstrlen", 3, READ_FAST, Keys::At(1), get::hstrlen).doc(
        "key field",
        "Gives the length of a field's value.",
        "3.2.0",
    ),
    Spec::data("HINCRBY", "hincrby", 4, WRITE_OOM_FAST, Keys::At(1), incr::hincrby).doc(
        "key field increment",
        "Adds to the integer in a field.",
        "2.0.0",
    ),
    Spec::data("HINCRBYFLOAT", "hincrbyfloat", 4, WRITE_OOM_FAST, Keys::At(1), incr::hincrbyfloat).doc(
        "key field increment",
        "Adds to the decimal number in a field.",
        "2.6.0",
    ),
    Spec::data("HRANDFIELD", "hrandfield", -2, READ, Keys::At(1), random_field::run).doc(
        "key [count [WITHVALUES]]",
        "Gives random fields.",
        "6.2.0",
    ),
    Spec::data("HSCAN", "hscan", -3, READ, Keys::At(1), scan::run).doc(
        "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        "Walks the fields, some at a time.",
        "2.8.0",
    ),
    Spec::data("HEXPIRE", "hexpire", -6, WRITE_FAST, Keys::At(1), expire::hexpire).doc(
        "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Lets fields expire in so many seconds.",
        "7.4.0",
    ),
    Spec::data("HPEXPIRE", "hpexpire", -6, WRITE_FAST, Keys::At(1), expire::hpexpire).doc(
        "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Lets fields expire in so many milliseconds.",
        "7.4.0",
    ),
    Spec::data("HEXPIREAT", "hexpireat", -6, WRITE_FAST, Keys::At(1), expire::hexpireat).doc(
        "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Lets fields expire at a moment in seconds.",
        "7.4.0",
    ),
    Spec::data("HPEXPIREAT", "hpexpireat", -6, WRITE_FAST, Keys::At(1), expire::hpexpireat).doc(
        "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Lets fields expire at a moment in milliseconds.",
        "7.4.0",
    ),
    Spec::data("HTTL", "httl", -5, READ_FAST, Keys::At(1), ttl::httl).doc(
        FIELDS,
        "Gives the seconds until fields expire.",
        "7.4.0",
    ),
    Spec::data("HPTTL", "hpttl", -5, READ_FAST, Keys::At(1), ttl::hpttl).doc(
        FIELDS,
        "Gives the milliseconds until fields expire.",
        "7.4.0",
    ),
    Spec::data("HEXPIRETIME", "hexpiretime", -5, READ_FAST, Keys::At(1), ttl::hexpiretime).doc(
        FIELDS,
        "Gives the moments at which fields expire, in seconds.",
        "7.4.0",
    ),
    Spec::data("HPEXPIRETIME", "hpexpiretime", -5, READ_FAST, Keys::At(1), ttl::hpexpiretime).doc(
        FIELDS,
        "Gives the moments at which fields expire, in milliseconds.",
        "7.4.0",
    ),
    Spec::data("HPERSIST", "hpersist", -5, WRITE_FAST, Keys::At(1), persist::run).doc(
        FIELDS,
        "Lets fields expire no more.",
        "7.4.0",
    ),
    Spec::data("HGETDEL", "hgetdel", -5, WRITE_FAST, Keys::At(1), get_del::run).doc(
        FIELDS,
        "Gives the values of fields and removes them.",
        "8.0.0",
    ),
    Spec::data("HGETEX", "hgetex", -5, WRITE_FAST, Keys::At(1), get_ex::run).doc(
        HGETEX_SYNTAX,
        "Gives the values of fields and sets when they expire.",
        "8.0.0",
    ),
    Spec::data("HSETEX", "hsetex", -6, WRITE_OOM_FAST, Keys::At(1), set_ex::run).doc(
        HSETEX_SYNTAX,
        "Sets fields and when they expire.",
        "8.0.0",
    ),
];
