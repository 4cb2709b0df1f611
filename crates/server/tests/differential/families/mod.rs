//! The families of commands: their templates, one file each. It touches nothing.
//!
//! A template is a line of [`crate::grammar`]. A command of the table that no template names fails the test
//! `every_row_of_the_table_has_a_template`.

mod bitmaps;
mod blocking;
mod connection;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod pubsub;
pub(crate) mod scripts;
mod server;
mod sets;
mod streams;
mod strings;
mod transactions;
mod zsets;

use crate::script::Judges;

pub(crate) use streams::LARGE as LARGE_STREAM;

/// Templates that are drawn from together.
pub(crate) struct Family {
    /// Its name in the names of the tests.
    pub(crate) name: &'static str,
    /// Its title in the table of commands.
    pub(crate) title: &'static str,
    pub(crate) judges: Judges,
    /// What requests are made from.
    pub(crate) templates: &'static [&'static str],
    /// Groups over several connections; fewer, because they cannot be pipelined.
    pub(crate) scenes: &'static [&'static str],
}

const fn family(
    name: &'static str,
    title: &'static str,
    templates: &'static [&'static str],
    scenes: &'static [&'static str],
) -> Family {
    Family { name, title, judges: Judges::Both, templates, scenes }
}

/// All of them.
pub(crate) const FAMILIES: &[Family] = &[
    family("strings", "Strings", strings::TEMPLATES, &[]),
    family("keys", "Keys", keys::TEMPLATES, keys::SCENES),
    family("hashes", "Hashes", hashes::TEMPLATES, &[]),
    Family { judges: Judges::Valkey, ..family("field_expiry", "Hashes", hashes::FIELD_EXPIRY, &[]) },
    family("lists", "Lists", lists::TEMPLATES, blocking::LISTS),
    family("sets", "Sets", sets::TEMPLATES, &[]),
    family("zsets", "Sorted sets", zsets::TEMPLATES, blocking::ZSETS),
    family("streams", "Streams", streams::TEMPLATES, blocking::STREAMS),
    family("bitmaps", "Bitmaps", bitmaps::TEMPLATES, &[]),
    family("hyperloglog", "HyperLogLog", hyperloglog::TEMPLATES, &[]),
    family("geo", "Geo", geo::TEMPLATES, &[]),
    family("scripts", "Scripts", scripts::TEMPLATES, &[]),
    family("transactions", "Transactions", transactions::TEMPLATES, transactions::SCENES),
    family("pubsub", "Publish and subscribe", pubsub::TEMPLATES, pubsub::SCENES),
    family("connection", "Connection", connection::TEMPLATES, connection::SCENES),
    family("server", "Server", server::TEMPLATES, &[]),
];

/// What makes values so large that servers keep them in another form.
pub(crate) const LARGE: &[&str] = &[
    "HSET {hash} {crowdfv}",
    "RPUSH {list} {crowd}",
    "SADD {set} {crowd}",
    "SADD {set} {flood}",
    "ZADD {zset} {crowdsm}",
    "ZADD {lexz} {crowdlex}",
    "SET {str} {blob}",
    "APPEND {str} {blob}",
    "HSET {hash} {f} {blob}",
    "SADD {set} {blob}",
    "RPUSH {list} {blob} {blob}",
];

/// What fills the keys that any family meets: one of each type.
pub(crate) const BASE: &[&str] = &[
    "SET {str} {v}",
    "SET {str} {num}",
    "SET {key} {v} EX {ttl}",
    "HSET {hash} ({f} {v})+",
    "RPUSH {list} {m}+",
    "RPUSH {list} {num}+",
    "SADD {set} {m}+",
    "ZADD {zset} ({score} {m})+",
    "XADD {stream} {newid} {f} {v}",
    "SETBIT {bits} {bit} 1",
    "PFADD {hll} {m}+",
    "GEOADD {geo} {lon} {lat} {place}",
    "ZADD {lexz} (0 {m})+",
    "DEL {key}+",
    "EXPIRE {key} {ttl}",
    "PERSIST {key}",
];
