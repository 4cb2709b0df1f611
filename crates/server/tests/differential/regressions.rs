//! Scripts that once showed a difference, as the shrinker printed them. They run before anything random. It touches nothing.

use crate::script::Judges;

/// A script that once differed.
pub(crate) struct Regression {
    /// The test that it belongs to.
    pub(crate) family: &'static str,
    pub(crate) judges: Judges,
    pub(crate) text: &'static str,
}

const fn by_both(family: &'static str, text: &'static str) -> Regression {
    Regression { family, judges: Judges::Both, text }
}

pub(crate) const REGRESSIONS: &[Regression] = &[
    // A blocked client gets an error when the destination is of another type.
    by_both(
        "lists",
        "{
        c> DEL l:1
        c> SET s:9 v
        w> BRPOPLPUSH l:1 s:9 0
        c> RPUSH l:1 m1
        w>
        c> LRANGE l:1 0 -1
        }",
    ),
    // Cursors as strtoul reads them.
    by_both(
        "keys",
        "a> SCAN -0 MATCH \"\"\n a> SCAN -\n a> SCAN \"\"\n a> SCAN \" 1\"\n a> SCAN 18446744073709551616",
    ),
    by_both("sets", "a> SSCAN e:1 -9223372036854775809"),
    // Databases are numbered by 32 bits.
    by_both("keys", "a> COPY g:2 x:2 DB 9223372036854775807 0\n a> MOVE g:2 -9223372036854775808"),
    // An EXEC that cannot run says so, and ends the transaction.
    by_both("transactions", "a> EXEC x\n a> MULTI\n a> EXEC 1 2\n a> EXEC"),
    by_both(
        "transactions",
        "{
        a> SUBSCRIBE somewhere
        a> MULTI
        a> EXEC
        a> DISCARD
        }",
    ),
    // What a transaction loads is there for its next command.
    by_both(
        "transactions",
        "a> SCRIPT FLUSH
        a> FUNCTION FLUSH
        {
        a> MULTI
        a> SCRIPT LOAD \"return 'loaded'\"
        a> EVALSHA b534286061d4b9e4026607613b95c06c06015ae8 0
        a> SCRIPT FLUSH
        a> EVALSHA b534286061d4b9e4026607613b95c06c06015ae8 0
        a> FUNCTION LOAD \"#!lua name=l\\x0aredis.register_function('f',function() return 'called' end)\"
        a> FCALL f 0
        a> FUNCTION DELETE l
        a> FCALL f 0
        a> EXEC
        }",
    ),
    // What the groups of a stream remember is not what is watched, unless the stream is new.
    by_both(
        "transactions",
        "a> XADD x:2 2-1 5 -7
        a> WATCH x:2 h:1
        b> XGROUP CREATE x:2 g2 0
        {
        a> MULTI
        a> PING
        a> EXEC
        }",
    ),
    by_both(
        "transactions",
        "c> WATCH e:2
        b> XGROUP CREATE e:2 g 0 MKSTREAM
        {
        c> MULTI
        c> PING
        c> EXEC
        }",
    ),
    // What is shown of an unknown command.
    by_both("connection", "b> nan \"\\x00\\x01\\xff\\xfe\""),
    by_both(
        "connection",
        "a> NOSUCHCOMMAND \"a value that is longer than sixty-four bytes: no small encoding of Redis can hold it any more\" -1 \
         \"a value that is longer than sixty-four bytes: no small encoding of Redis can hold it any more\" never shown",
    ),
    by_both(
        "server",
        "b> ACL LOG nan 1\n a> ACL CAT transaction 9223372036854775807\n a> LOLWUT VERSION abc",
    ),
    // Scores in hexadecimal, which Valkey rejects.
    by_both("zsets", "b> ZINCRBY z:1 0x10 -4"),
    // No star matches an empty name, but for KEYS and the scans.
    by_both(
        "pubsub",
        "t> PSUBSCRIBE *
        {
        b> MULTI
        b> PUBLISH \"\" m4
        b> PUBLISH ch:3 m5
        b> EXEC
        }",
    ),
    by_both("sets", "a> SADD e:1 \"\" x\n a> SSCAN e:1 <cursor> MATCH *\n a> SSCAN e:1 <cursor> MATCH **"),
    by_both(
        "keys",
        "a> SET \"\" x\n a> KEYS *\n a> KEYS **\n a> SCAN <cursor> MATCH *\n a> SCAN <cursor> MATCH **",
    ),
];
