//! Streams: entries in the order of their ids, and consumer groups.

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
    Spec::data("xadd", -5, WRITE_OOM_FAST, Keys::At(1), add::xadd).doc(
        ADD_SYNTAX,
        "Appends an entry to a stream and returns its ID. Creates the key if it does not exist.",
        "5.0.0",
    ),
    Spec::data("xlen", 2, READ_FAST, Keys::At(1), len::xlen).doc(
        "key",
        "Returns the number of entries of a stream.",
        "5.0.0",
    ),
    Spec::data("xrange", -4, READ, Keys::At(1), range::xrange).doc(
        "key start end [COUNT count]",
        "Returns the entries of a stream in a range of IDs.",
        "5.0.0",
    ),
    Spec::data("xrevrange", -4, READ, Keys::At(1), range::xrevrange).doc(
        "key end start [COUNT count]",
        "Returns the entries of a stream in a range of IDs, in reverse order.",
        "5.0.0",
    ),
    Spec::data("xread", -4, and(READ, BLOCKING), Keys::Streams, read::xread).doc(
        "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        "Returns the entries of one or more streams with IDs greater than the given ones. Optionally blocks until one is available.",
        "5.0.0",
    ),
    Spec::data("xdel", -3, WRITE_FAST, Keys::At(1), del::xdel).doc(
        "key id [id ...]",
        "Deletes entries from a stream and returns how many were deleted.",
        "5.0.0",
    ),
    Spec::data("xdelex", -5, WRITE_FAST, Keys::At(1), del_ex::xdelex).doc(
        "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        "Deletes entries from a stream, with control over the references that consumer groups hold to them.",
        "8.2.0",
    ),
    Spec::data("xtrim", -4, WRITE, Keys::At(1), trim::xtrim).doc(
        "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
        "Deletes the oldest entries of a stream, up to a length or a minimum ID.",
        "5.0.0",
    ),
    Spec::data("xsetid", -3, WRITE_OOM_FAST, Keys::At(1), set_id::xsetid).doc(
        "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
        "Sets the last ID of a stream. An internal command of Redis for replication.",
        "5.0.0",
    ),
    Spec::within("xgroup", group::TABLE).doc("", "A container for consumer group commands.", "5.0.0"),
    Spec::data("xreadgroup", -7, and(WRITE, BLOCKING), Keys::Streams, read_group::xreadgroup).doc(
        "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
        "Returns new or pending entries of one or more streams for a consumer of a group. Optionally blocks until one is available.",
        "5.0.0",
    ),
    Spec::data("xack", -4, WRITE_FAST, Keys::At(1), ack::xack).doc(
        "key group id [id ...]",
        "Acknowledges pending entries of a consumer group and returns how many were acknowledged.",
        "5.0.0",
    ),
    Spec::data("xackdel", -6, WRITE_FAST, Keys::At(1), ack_del::xackdel).doc(
        "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        "Acknowledges pending entries of a consumer group and deletes them from the stream.",
        "8.2.0",
    ),
    Spec::data("xpending", -3, READ, Keys::At(1), pending::xpending).doc(
        "key group [[IDLE min-idle-time] start end count [consumer]]",
        "Returns the pending entries of a consumer group: those delivered and not acknowledged.",
        "5.0.0",
    ),
    Spec::data("xclaim", -6, WRITE_FAST, Keys::At(1), claim::xclaim).doc(
        CLAIM_SYNTAX,
        "Changes the owner of pending entries of a consumer group to another consumer.",
        "5.0.0",
    ),
    Spec::data("xautoclaim", -6, WRITE_FAST, Keys::At(1), autoclaim::xautoclaim).doc(
        "key group consumer min-idle-time start [COUNT count] [JUSTID]",
        "Changes the owner of entries that have been pending longer than a minimum time to another consumer.",
        "6.2.0",
    ),
    Spec::within("xinfo", info::TABLE).doc("", "A container for stream introspection commands.", "5.0.0"),
];
