//! Streams: entries in the order of their ids, and groups that share them out.

mod ack;
mod ack_del;
mod add;
mod autoclaim;
mod claim;
mod del;
mod del_ex;
mod entry;
mod group;
mod groups;
mod id;
mod info;
mod len;
mod node;
mod pending;
mod progress;
mod range;
mod read;
mod read_group;
mod reading;
mod references;
mod set_id;
mod trim;
mod trimming;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{BLOCKING, READ, READ_FAST, WRITE, WRITE_FAST, WRITE_OOM_FAST, and};

const ADD_SYNTAX: &str = "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] \
    <* | id> field value [field value ...]";
const CLAIM_SYNTAX: &str = "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] \
    [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID last-id]";

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("XADD", "xadd", -5, WRITE_OOM_FAST, Keys::At(1), add::run).doc(
        ADD_SYNTAX,
        "Adds an entry to a stream, and gives its id.",
        "5.0.0",
    ),
    Spec::data("XLEN", "xlen", 2, READ_FAST, Keys::At(1), len::run).doc(
        "key",
        "Counts the entries of a stream.",
        "5.0.0",
    ),
    Spec::data("XRANGE", "xrange", -4, READ, Keys::At(1), range::forward).doc(
        "key start end [COUNT count]",
        "Gives the entries of a range of ids.",
        "5.0.0",
    ),
    Spec::data("XREVRANGE", "xrevrange", -4, READ, Keys::At(1), range::backward).doc(
        "key end start [COUNT count]",
        "Gives the entries of a range of ids, the last first.",
        "5.0.0",
    ),
    Spec::data("XREAD", "xread", -4, and(READ, BLOCKING), Keys::Streams, read::run).doc(
        "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        "Gives the entries of streams behind ids, and may wait for one.",
        "5.0.0",
    ),
    Spec::data("XDEL", "xdel", -3, WRITE_FAST, Keys::At(1), del::run).doc(
        "key id [id ...]",
        "Deletes entries.",
        "5.0.0",
    ),
    Spec::data("XDELEX", "xdelex", -5, WRITE_FAST, Keys::At(1), del_ex::run).doc(
        "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        "Deletes entries, and tells what becomes of what groups remember of them.",
        "8.2.0",
    ),
    Spec::data("XTRIM", "xtrim", -4, WRITE, Keys::At(1), trim::run).doc(
        "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
        "Deletes the first entries of a stream.",
        "5.0.0",
    ),
    Spec::data("XSETID", "xsetid", -3, WRITE_OOM_FAST, Keys::At(1), set_id::run).doc(
        "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
        "Sets what a stream remembers of entries that are gone.",
        "5.0.0",
    ),
    Spec::within("XGROUP", "xgroup", group::TABLE),
    Spec::data("XREADGROUP", "xreadgroup", -7, and(WRITE, BLOCKING), Keys::Streams, read_group::run).doc(
        "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
        "Gives a consumer of a group entries that nobody of it has, and may wait for one.",
        "5.0.0",
    ),
    Spec::data("XACK", "xack", -4, WRITE_FAST, Keys::At(1), ack::run).doc(
        "key group id [id ...]",
        "Acknowledges entries that were delivered to a group.",
        "5.0.0",
    ),
    Spec::data("XACKDEL", "xackdel", -6, WRITE_FAST, Keys::At(1), ack_del::run).doc(
        "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        "Acknowledges entries that were delivered to a group, and deletes them.",
        "8.2.0",
    ),
    Spec::data("XPENDING", "xpending", -3, READ, Keys::At(1), pending::run).doc(
        "key group [[IDLE min-idle-time] start end count [consumer]]",
        "Tells what was delivered to a group and not acknowledged.",
        "5.0.0",
    ),
    Spec::data("XCLAIM", "xclaim", -6, WRITE_FAST, Keys::At(1), claim::run).doc(
        CLAIM_SYNTAX,
        "Gives entries that are pending to another consumer.",
        "5.0.0",
    ),
    Spec::data("XAUTOCLAIM", "xautoclaim", -6, WRITE_FAST, Keys::At(1), autoclaim::run).doc(
        "key group consumer min-idle-time start [COUNT count] [JUSTID]",
        "Gives entries that have been pending for long to another consumer.",
        "6.2.0",
    ),
    Spec::within("XINFO", "xinfo", info::TABLE),
];
