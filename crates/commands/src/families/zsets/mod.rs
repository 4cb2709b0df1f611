//! Sorted sets: the table of this family.

mod combine;
mod range;
mod read;
mod side;
mod slice;
pub(crate) mod store;
pub(crate) mod zadd;
mod zcombine;
mod zcount;
mod zmpop;
mod zpop;
mod zrandmember;
mod zrange;
mod zrank;
mod zrem;
mod zremrange;
mod zscan;

use crate::keys_of::Keys;
use crate::spec::flag::*;
use crate::spec::{Flags, Spec};

const BLOCKING_POP: Flags = and(and(WRITE_FAST, NO_SCRIPT), BLOCKING);

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("zadd", -4, WRITE_OOM_FAST, Keys::At(1), zadd::zadd).doc(
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        "Adds members to a sorted set or updates their scores, and returns how many are new. Creates the key if it does not exist.",
        "1.2.0",
    ),
    Spec::data("zincrby", 4, WRITE_OOM_FAST, Keys::At(1), zadd::zincrby).doc(
        "key increment member",
        "Increments the score of a member of a sorted set and returns the new score.",
        "1.2.0",
    ),
    Spec::data("zrem", -3, WRITE_FAST, Keys::At(1), zrem::zrem).doc(
        "key member [member ...]",
        "Removes one or more members from a sorted set. Deletes the sorted set when no member remains.",
        "1.2.0",
    ),
    Spec::data("zcard", 2, READ_FAST, Keys::At(1), read::zcard).doc(
        "key",
        "Returns the number of members of a sorted set.",
        "1.2.0",
    ),
    Spec::data("zscore", 3, READ_FAST, Keys::At(1), read::zscore).doc(
        "key member",
        "Returns the score of a member of a sorted set.",
        "1.2.0",
    ),
    Spec::data("zmscore", -3, READ_FAST, Keys::At(1), read::zmscore).doc(
        "key member [member ...]",
        "Returns the scores of one or more members of a sorted set.",
        "6.2.0",
    ),
    Spec::data("zrank", -3, READ_FAST, Keys::At(1), zrank::zrank).doc(
        "key member [WITHSCORE]",
        "Returns the rank of a member of a sorted set, ordered from the lowest to the highest score.",
        "2.0.0",
    ),
    Spec::data("zrevrank", -3, READ_FAST, Keys::At(1), zrank::zrevrank).doc(
        "key member [WITHSCORE]",
        "Returns the rank of a member of a sorted set, ordered from the highest to the lowest score.",
        "2.0.0",
    ),
    Spec::data("zcount", 4, READ_FAST, Keys::At(1), zcount::zcount).doc(
        "key min max",
        "Returns the number of members of a sorted set with scores in a range.",
        "2.0.0",
    ),
    Spec::data("zlexcount", 4, READ_FAST, Keys::At(1), zcount::zlexcount).doc(
        "key min max",
        "Returns the number of members of a sorted set in a lexicographical range. All scores must be equal.",
        "2.8.9",
    ),
    Spec::data("zrange", -4, READ, Keys::At(1), zrange::zrange).doc(
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "Returns the members of a sorted set in a range of ranks, scores or lexicographical order.",
        "1.2.0",
    ),
    Spec::data("zrangestore", -5, WRITE_OOM, Keys::Two(1, 2), zrange::zrangestore).doc(
        "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        "Stores a range of members of a sorted set in a key.",
        "6.2.0",
    ),
    Spec::data("zrevrange", -4, READ, Keys::At(1), zrange::zrevrange).doc(
        "key start stop [WITHSCORES]",
        "Returns the members of a sorted set in a range of ranks, highest score first. Deprecated in favour of ZRANGE with REV.",
        "1.2.0",
    ),
    Spec::data("zrangebyscore", -4, READ, Keys::At(1), zrange::zrangebyscore).doc(
        "key min max [WITHSCORES] [LIMIT offset count]",
        "Returns the members of a sorted set in a range of scores. Deprecated in favour of ZRANGE with BYSCORE.",
        "1.0.5",
    ),
    Spec::data("zrevrangebyscore", -4, READ, Keys::At(1), zrange::zrevrangebyscore).doc(
        "key max min [WITHSCORES] [LIMIT offset count]",
        "Returns the members of a sorted set in a range of scores, highest score first. Deprecated in favour of ZRANGE with REV and BYSCORE.",
        "2.2.0",
    ),
    Spec::data("zrangebylex", -4, READ, Keys::At(1), zrange::zrangebylex).doc(
        "key min max [LIMIT offset count]",
        "Returns the members of a sorted set in a lexicographical range. All scores must be equal. Deprecated in favour of ZRANGE with BYLEX.",
        "2.8.9",
    ),
    Spec::data("zrevrangebylex", -4, READ, Keys::At(1), zrange::zrevrangebylex).doc(
        "key max min [LIMIT offset count]",
        "Returns the members of a sorted set in a lexicographical range, in reverse order. All scores must be equal. Deprecated in favour of ZRANGE with REV and BYLEX.",
        "2.8.9",
    ),
    Spec::data("zremrangebyrank", 4, WRITE, Keys::At(1), zremrange::zremrangebyrank).doc(
        "key start stop",
        "Removes the members of a sorted set in a range of ranks.",
        "2.0.0",
    ),
    Spec::data("zremrangebyscore", 4, WRITE, Keys::At(1), zremrange::zremrangebyscore).doc(
        "key min max",
        "Removes the members of a sorted set in a range of scores.",
        "1.2.0",
    ),
    Spec::data("zremrangebylex", 4, WRITE, Keys::At(1), zremrange::zremrangebylex).doc(
        "key min max",
        "Removes the members of a sorted set in a lexicographical range. All scores must be equal.",
        "2.8.9",
    ),
    Spec::data("zpopmin", -2, WRITE_FAST, Keys::At(1), zpop::zpopmin).doc(
        "key [count]",
        "Removes and returns the members with the lowest scores of a sorted set.",
        "5.0.0",
    ),
    Spec::data("zpopmax", -2, WRITE_FAST, Keys::At(1), zpop::zpopmax).doc(
        "key [count]",
        "Removes and returns the members with the highest scores of a sorted set.",
        "5.0.0",
    ),
    Spec::data("zmpop", -4, WRITE, Keys::Counted(1), zmpop::zmpop).doc(
        "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        "Removes and returns the members with the lowest or highest scores of the first sorted set that is not empty.",
        "7.0.0",
    ),
    Spec::data("zrandmember", -2, READ, Keys::At(1), zrandmember::zrandmember).doc(
        "key [count [WITHSCORES]]",
        "Returns one or more random members of a sorted set.",
        "6.2.0",
    ),
    Spec::data("zscan", -3, READ, Keys::At(1), zscan::zscan).doc(
        "key cursor [MATCH pattern] [COUNT count]",
        "Iterates over the members and scores of a sorted set with a cursor.",
        "2.8.0",
    ),
    Spec::data("zunion", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zunion).doc(
        "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
        "Returns the union of several sorted sets, with combined scores.",
        "6.2.0",
    ),
    Spec::data("zinter", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zinter).doc(
        "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
        "Returns the intersection of several sorted sets, with combined scores.",
        "6.2.0",
    ),
    Spec::data("zdiff", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zdiff).doc(
        "numkeys key [key ...] [WITHSCORES]",
        "Returns the difference between the first sorted set and all following sorted sets.",
        "6.2.0",
    ),
    Spec::data(
        "zunionstore",
        -4,
        and(WRITE_OOM, WHOLE),
        Keys::StoreCounted,
        zcombine::zunionstore,
    )
    .doc(
        "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
        "Stores the union of several sorted sets in a key.",
        "2.0.0",
    ),
    Spec::data(
        "zinterstore",
        -4,
        and(WRITE_OOM, WHOLE),
        Keys::StoreCounted,
        zcombine::zinterstore,
    )
    .doc(
        "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
        "Stores the intersection of several sorted sets in a key.",
        "2.0.0",
    ),
    Spec::data(
        "zdiffstore",
        -4,
        and(WRITE_OOM, WHOLE),
        Keys::StoreCounted,
        zcombine::zdiffstore,
    )
    .doc("destination numkeys key [key ...]", "Stores the difference between the first sorted set and all following sorted sets in a key.", "6.2.0"),
    Spec::data("zintercard", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zintercard).doc(
        "numkeys key [key ...] [LIMIT limit]",
        "Returns the number of members of the intersection of several sorted sets.",
        "7.0.0",
    ),
    Spec::data("bzpopmin", -3, BLOCKING_POP, Keys::Until(1, 1), zpop::bzpopmin).doc(
        "key [key ...] timeout",
        "Removes and returns the member with the lowest score of the first sorted set that is not empty. Blocks until one is available or the timeout expires.",
        "5.0.0",
    ),
    Spec::data("bzpopmax", -3, BLOCKING_POP, Keys::Until(1, 1), zpop::bzpopmax).doc(
        "key [key ...] timeout",
        "Removes and returns the member with the highest score of the first sorted set that is not empty. Blocks until one is available or the timeout expires.",
        "5.0.0",
    ),
    Spec::data("bzmpop", -5, and(WRITE, BLOCKING), Keys::Counted(2), zmpop::bzmpop).doc(
        "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
        "Removes and returns the members with the lowest or highest scores of the first sorted set that is not empty. Blocks until one is available or the timeout expires.",
        "7.0.0",
    ),
];
