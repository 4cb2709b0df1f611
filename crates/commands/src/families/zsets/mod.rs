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
    Spec::data("ZADD", "zadd", -4, WRITE_OOM_FAST, Keys::At(1), zadd::zadd).doc(
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        "Sets the scores of members and gives how many are new.",
        "1.2.0",
    ),
    Spec::data("ZINCRBY", "zincrby", 4, WRITE_OOM_FAST, Keys::At(1), zadd::zincrby).doc(
        "key increment member",
        "Adds to the score of a member and gives it.",
        "1.2.0",
    ),
    Spec::data("ZREM", "zrem", -3, WRITE_FAST, Keys::At(1), zrem::run).doc(
        "key member [member ...]",
        "Removes members.",
        "1.2.0",
    ),
    Spec::data("ZCARD", "zcard", 2, READ_FAST, Keys::At(1), read::zcard).doc(
        "key",
        "Gives how many members there are.",
        "1.2.0",
    ),
    Spec::data("ZSCORE", "zscore", 3, READ_FAST, Keys::At(1), read::zscore).doc(
        "key member",
        "Gives the score of a member.",
        "1.2.0",
    ),
    Spec::data("ZMSCORE", "zmscore", -3, READ_FAST, Keys::At(1), read::zmscore).doc(
        "key member [member ...]",
        "Gives the scores of members.",
        "6.2.0",
    ),
    Spec::data("ZRANK", "zrank", -3, READ_FAST, Keys::At(1), zrank::zrank).doc(
        "key member [WITHSCORE]",
        "Gives how many members stand before one, by score from the lowest.",
        "2.0.0",
    ),
    Spec::data("ZREVRANK", "zrevrank", -3, READ_FAST, Keys::At(1), zrank::zrevrank).doc(
        "key member [WITHSCORE]",
        "Gives how many members stand before one, by score from the highest.",
        "2.0.0",
    ),
    Spec::data("ZCOUNT", "zcount", 4, READ_FAST, Keys::At(1), zcount::zcount).doc(
        "key min max",
        "Counts members from one score to another.",
        "2.0.0",
    ),
    Spec::data("ZLEXCOUNT", "zlexcount", 4, READ_FAST, Keys::At(1), zcount::zlexcount).doc(
        "key min max",
        "Counts members from one to another, where all scores are equal.",
        "2.8.9",
    ),
    Spec::data("ZRANGE", "zrange", -4, READ, Keys::At(1), zrange::zrange).doc(
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "Gives members in order, by rank, score or name.",
        "1.2.0",
    ),
    Spec::data("ZRANGESTORE", "zrangestore", -5, WRITE_OOM, Keys::Two(1, 2), zrange::zrangestore).doc(
        "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        "Keeps a range of members under another key.",
        "6.2.0",
    ),
    Spec::data("ZREVRANGE", "zrevrange", -4, READ, Keys::At(1), zrange::zrevrange).doc(
        "key start stop [WITHSCORES]",
        "Gives members by rank, the highest score first.",
        "1.2.0",
    ),
    Spec::data("ZRANGEBYSCORE", "zrangebyscore", -4, READ, Keys::At(1), zrange::zrangebyscore).doc(
        "key min max [WITHSCORES] [LIMIT offset count]",
        "Gives members from one score to another.",
        "1.0.5",
    ),
    Spec::data("ZREVRANGEBYSCORE", "zrevrangebyscore", -4, READ, Keys::At(1), zrange::zrevrangebyscore).doc(
        "key max min [WITHSCORES] [LIMIT offset count]",
        "Gives members from one score down to another.",
        "2.2.0",
    ),
    Spec::data("ZRANGEBYLEX", "zrangebylex", -4, READ, Keys::At(1), zrange::zrangebylex).doc(
        "key min max [LIMIT offset count]",
        "Gives members from one to another, where all scores are equal.",
        "2.8.9",
    ),
    Spec::data("ZREVRANGEBYLEX", "zrevrangebylex", -4, READ, Keys::At(1), zrange::zrevrangebylex).doc(
        "key max min [LIMIT offset count]",
        "Gives members from one back to another, where all scores are equal.",
        "2.8.9",
    ),
    Spec::data("ZREMRANGEBYRANK", "zremrangebyrank", 4, WRITE, Keys::At(1), zremrange::by_rank).doc(
        "key start stop",
        "Removes members from one rank to another.",
        "2.0.0",
    ),
    Spec::data("ZREMRANGEBYSCORE", "zremrangebyscore", 4, WRITE, Keys::At(1), zremrange::by_score).doc(
        "key min max",
        "Removes members from one score to another.",
        "1.2.0",
    ),
    Spec::data("ZREMRANGEBYLEX", "zremrangebylex", 4, WRITE, Keys::At(1), zremrange::by_lex).doc(
        "key min max",
        "Removes members from one to another, where all scores are equal.",
        "2.8.9",
    ),
    Spec::data("ZPOPMIN", "zpopmin", -2, WRITE_FAST, Keys::At(1), zpop::zpopmin).doc(
        "key [count]",
        "Takes the members with the lowest scores.",
        "5.0.0",
    ),
    Spec::data("ZPOPMAX", "zpopmax", -2, WRITE_FAST, Keys::At(1), zpop::zpopmax).doc(
        "key [count]",
        "Takes the members with the highest scores.",
        "5.0.0",
    ),
    Spec::data("ZMPOP", "zmpop", -4, WRITE, Keys::Counted(1), zmpop::zmpop).doc(
        "numkeys key [key ...] <MIN | MAX> [COUNT count]",
        "Takes members from the first of several sorted sets that is there.",
        "7.0.0",
    ),
    Spec::data("ZRANDMEMBER", "zrandmember", -2, READ, Keys::At(1), zrandmember::run).doc(
        "key [count [WITHSCORES]]",
        "Gives members picked at random.",
        "6.2.0",
    ),
    Spec::data("ZSCAN", "zscan", -3, READ, Keys::At(1), zscan::run).doc(
        "key cursor [MATCH pattern] [COUNT count]",
        "Walks over the members and scores in steps.",
        "2.8.0",
    ),
    Spec::data("ZUNION", "zunion", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zunion).doc(
        "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
        "Gives the members of any of several sorted sets, their scores joined.",
        "6.2.0",
    ),
    Spec::data("ZINTER", "zinter", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zinter).doc(
        "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
        "Gives the members of all of several sorted sets, their scores joined.",
        "6.2.0",
    ),
    Spec::data("ZDIFF", "zdiff", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zdiff).doc(
        "numkeys key [key ...] [WITHSCORES]",
        "Gives the members of the first sorted set that are in none of the others.",
        "6.2.0",
    ),
    Spec::data(
        "ZUNIONSTORE",
        "zunionstore",
        -4,
        and(WRITE_OOM, WHOLE),
        Keys::StoreCounted,
        zcombine::zunionstore,
    )
    .doc(
        "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
        "Keeps what ZUNION gives under a key.",
        "2.0.0",
    ),
    Spec::data(
        "ZINTERSTORE",
        "zinterstore",
        -4,
        and(WRITE_OOM, WHOLE),
        Keys::StoreCounted,
        zcombine::zinterstore,
    )
    .doc(
        "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
        "Keeps what ZINTER gives under a key.",
        "2.0.0",
    ),
    Spec::data(
        "ZDIFFSTORE",
        "zdiffstore",
        -4,
        and(WRITE_OOM, WHOLE),
        Keys::StoreCounted,
        zcombine::zdiffstore,
    )
    .doc("destination numkeys key [key ...]", "Keeps what ZDIFF gives under a key.", "6.2.0"),
    Spec::data("ZINTERCARD", "zintercard", -3, and(READ, WHOLE), Keys::Counted(1), zcombine::zintercard).doc(
        "numkeys key [key ...] [LIMIT limit]",
        "Counts the members of all of several sorted sets.",
        "7.0.0",
    ),
    Spec::data("BZPOPMIN", "bzpopmin", -3, BLOCKING_POP, Keys::Until(1, 1), zpop::bzpopmin).doc(
        "key [key ...] timeout",
        "Takes the member with the lowest score of the first of several sorted sets that is there, \
         or waits for one.",
        "5.0.0",
    ),
    Spec::data("BZPOPMAX", "bzpopmax", -3, BLOCKING_POP, Keys::Until(1, 1), zpop::bzpopmax).doc(
        "key [key ...] timeout",
        "Takes the member with the highest score of the first of several sorted sets that is there, \
         or waits for one.",
        "5.0.0",
    ),
    Spec::data("BZMPOP", "bzmpop", -5, and(WRITE, BLOCKING), Keys::Counted(2), zmpop::bzmpop).doc(
        "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
        "Takes members from the first of several sorted sets that is there, or waits for one.",
        "7.0.0",
    ),
];
