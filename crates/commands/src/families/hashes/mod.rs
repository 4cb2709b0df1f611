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
    Spec::data("hset", -4, WRITE_OOM_FAST, Keys::At(1), set::hset).doc(
        "key field value [field value ...]",
        "Sets the values of one or more fields of a hash and returns how many are new.",
        "2.0.0",
    ),
    Spec::data("hmset", -4, WRITE_OOM_FAST, Keys::At(1), set::hmset).doc(
        "key field value [field value ...]",
        "Sets the values of one or more fields of a hash. Deprecated in favour of HSET.",
        "2.0.0",
    ),
    Spec::data("hsetnx", 4, WRITE_OOM_FAST, Keys::At(1), set::hsetnx).doc(
        "key field value",
        "Sets the value of a field of a hash, only if the field does not exist.",
        "2.0.0",
    ),
    Spec::data("hget", 3, READ_FAST, Keys::At(1), get::hget).doc(
        "key field",
        "Returns the value of a field of a hash.",
        "2.0.0",
    ),
    Spec::data("hmget", -3, READ_FAST, Keys::At(1), get::hmget).doc(
        "key field [field ...]",
        "Returns the values of one or more fields of a hash.",
        "2.0.0",
    ),
    Spec::data("hgetall", 2, READ, Keys::At(1), all::hgetall).doc(
        "key",
        "Returns all fields and values of a hash.",
        "2.0.0",
    ),
    Spec::data("hkeys", 2, READ, Keys::At(1), all::hkeys).doc("key", "Returns all fields of a hash.", "2.0.0"),
    Spec::data("hvals", 2, READ, Keys::At(1), all::hvals).doc("key", "Returns all values of a hash.", "2.0.0"),
    Spec::data("hdel", -3, WRITE_FAST, Keys::At(1), del::hdel).doc(
        "key field [field ...]",
        "Deletes one or more fields of a hash. Deletes the hash when no field remains.",
        "2.0.0",
    ),
    Spec::data("hexists", 3, READ_FAST, Keys::At(1), get::hexists).doc(
        "key field",
        "Returns whether a field of a hash exists.",
        "2.0.0",
    ),
    Spec::data("hlen", 2, READ_FAST, Keys::At(1), get::hlen).doc(
        "key",
        "Returns the number of fields of a hash.",
        "2.0.0",
    ),
    Spec::data("hstrlen", 3, READ_FAST, Keys::At(1), get::hstrlen).doc(
        "key field",
        "Returns the length of the value of a field of a hash in bytes.",
        "3.2.0",
    ),
    Spec::data("hincrby", 4, WRITE_OOM_FAST, Keys::At(1), incr::hincrby).doc(
        "key field increment",
        "Increments the integer value of a field of a hash by a number. Uses 0 as the initial value if the field does not exist.",
        "2.0.0",
    ),
    Spec::data("hincrbyfloat", 4, WRITE_OOM_FAST, Keys::At(1), incr::hincrbyfloat).doc(
        "key field increment",
        "Increments the floating-point value of a field of a hash by a number. Uses 0 as the initial value if the field does not exist.",
        "2.6.0",
    ),
    Spec::data("hrandfield", -2, READ, Keys::At(1), random_field::hrandfield).doc(
        "key [count [WITHVALUES]]",
        "Returns one or more random fields of a hash.",
        "6.2.0",
    ),
    Spec::data("hscan", -3, READ, Keys::At(1), scan::hscan).doc(
        "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        "Iterates over the fields and values of a hash with a cursor.",
        "2.8.0",
    ),
    Spec::data("hexpire", -6, WRITE_FAST, Keys::At(1), expire::hexpire).doc(
        "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Sets the expiration of fields of a hash in seconds from now.",
        "7.4.0",
    ),
    Spec::data("hpexpire", -6, WRITE_FAST, Keys::At(1), expire::hpexpire).doc(
        "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Sets the expiration of fields of a hash in milliseconds from now.",
        "7.4.0",
    ),
    Spec::data("hexpireat", -6, WRITE_FAST, Keys::At(1), expire::hexpireat).doc(
        "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Sets the expiration of fields of a hash to a Unix time in seconds.",
        "7.4.0",
    ),
    Spec::data("hpexpireat", -6, WRITE_FAST, Keys::At(1), expire::hpexpireat).doc(
        "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "Sets the expiration of fields of a hash to a Unix time in milliseconds.",
        "7.4.0",
    ),
    Spec::data("httl", -5, READ_FAST, Keys::At(1), ttl::httl).doc(
        FIELDS,
        "Returns the remaining time to live of fields of a hash in seconds.",
        "7.4.0",
    ),
    Spec::data("hpttl", -5, READ_FAST, Keys::At(1), ttl::hpttl).doc(
        FIELDS,
        "Returns the remaining time to live of fields of a hash in milliseconds.",
        "7.4.0",
    ),
    Spec::data("hexpiretime", -5, READ_FAST, Keys::At(1), ttl::hexpiretime).doc(
        FIELDS,
        "Returns the expiration of fields of a hash as Unix times in seconds.",
        "7.4.0",
    ),
    Spec::data("hpexpiretime", -5, READ_FAST, Keys::At(1), ttl::hpexpiretime).doc(
        FIELDS,
        "Returns the expiration of fields of a hash as Unix times in milliseconds.",
        "7.4.0",
    ),
    Spec::data("hpersist", -5, WRITE_FAST, Keys::At(1), persist::hpersist).doc(
        FIELDS,
        "Removes the expiration of fields of a hash.",
        "7.4.0",
    ),
    Spec::data("hgetdel", -5, WRITE_FAST, Keys::At(1), get_del::hgetdel).doc(
        FIELDS,
        "Returns the values of fields of a hash and deletes the fields.",
        "8.0.0",
    ),
    Spec::data("hgetex", -5, WRITE_FAST, Keys::At(1), get_ex::hgetex).doc(
        HGETEX_SYNTAX,
        "Returns the values of fields of a hash and sets or removes their expiration.",
        "8.0.0",
    ),
    Spec::data("hsetex", -6, WRITE_OOM_FAST, Keys::At(1), set_ex::hsetex).doc(
        HSETEX_SYNTAX,
        "Sets the values of fields of a hash, optionally with an expiration and a condition.",
        "8.0.0",
    ),
];
