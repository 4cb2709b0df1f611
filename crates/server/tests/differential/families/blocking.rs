//! Scenes of requests that wait: served by another connection, unblocked, or timed out.
//!
//! Keys that are waited for are deleted first, so that the request really waits and the push really serves it.

/// Lists.
pub(crate) const LISTS: &[&str] = &[
    "BLPOP {list}+ {timeout}",
    "BRPOP {list}+ {timeout}",
    "BLMOVE {list} {list} (LEFT|RIGHT|{bad}) (LEFT|RIGHT) {timeout}",
    "BRPOPLPUSH {list} {list} {timeout}",
    "BLMPOP {timeout} {nlist} (LEFT|RIGHT) [COUNT {count}]",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; c> RPUSH {:A} {m}+ ; w> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} {list:B} ; w> BRPOP {:A} {:B} 0 ; c> LPUSH {:B} {m}+ ; w> ; c> EXISTS {:B}",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; x> BRPOP {:A} 0 ; c> RPUSH {:A} 1 2 3 ; w> ; x> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; x> BLPOP {:A} 0 ; c> RPUSH {:A} 1 ; w> ; c> RPUSH {:A} 2 ; x>",
    "c> DEL {list:A} l:9 ; w> BLMOVE {:A} l:9 (LEFT|RIGHT) (LEFT|RIGHT) 0 ; c> RPUSH {:A} {m}+ ; w> ; c> LRANGE l:9 0 -1",
    "c> DEL l:8 l:9 ; w> BLMOVE l:8 l:9 LEFT RIGHT 0 ; x> BLPOP l:9 0 ; c> RPUSH l:8 v ; w> ; x> ; c> EXISTS l:8 l:9",
    "c> DEL {list:A} l:9 ; w> BRPOPLPUSH {:A} l:9 0 ; c> RPUSH {:A} {m}+ ; w> ; c> LRANGE l:9 0 -1",
    "c> DEL {list:A} ; c> SET s:9 v ; w> BRPOPLPUSH {:A} s:9 0 ; c> RPUSH {:A} {m} ; w> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} ; w> BLMPOP 0 2 {:A} l:9 (LEFT|RIGHT) [COUNT 2] ; c> RPUSH {:A} {m}+ ; w> ; c> LLEN {:A}",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; c> MULTI ; c> RPUSH {:A} 1 ; c> DEL {:A} ; c> EXEC ; c> RPUSH {:A} 2 ; w>",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; c> MULTI ; c> RPUSH {:A} 1 ; c> LPUSH {:A} 2 ; c> EXEC ; w> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} l:9 ; c> RPUSH l:9 1 2 ; w> BLPOP {:A} 0 ; c> RENAME l:9 {:A} ; w> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} l:9 ; c> RPUSH l:9 1 2 ; w> BLPOP {:A} 0 ; c> COPY l:9 {:A} ; w> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} l:9 ; c> RPUSH l:9 3 1 2 ; w> BLPOP {:A} 0 ; c> SORT l:9 STORE {:A} ; w> ; c> LRANGE {:A} 0 -1",
    "c> DEL {list:A} l:9 ; c> RPUSH l:9 1 ; w> BLPOP {:A} 0 ; c> LMOVE l:9 {:A} LEFT LEFT ; w> ; c> EXISTS {:A}",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; c> SET {:A} v ; c> DEL {:A} ; c> RPUSH {:A} v ; w>",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; c> ZADD {:A} 1 m ; c> DEL {:A} ; c> LPUSH {:A} v ; w>",
    "c> DEL {list:A} ; w> BLPOP {:A} {:A} 0 ; c> CLIENT UNBLOCK <id:w> [TIMEOUT|ERROR] ; w>",
    "c> DEL {list:A} ; w> BLMOVE {:A} {:A} LEFT LEFT 0 ; c> CLIENT UNBLOCK <id:w> ERROR ; w> ; c> CLIENT UNBLOCK <id:w>",
    "c> DEL {list:A} ; w> BLPOP {:A} 0.02 ; w>",
    "c> DEL {list:A} ; w> BLMPOP 0.02 1 {:A} LEFT ; w>",
    "c> DEL {list:A} ; c> MULTI ; c> BLPOP {:A} 0 ; c> BLMOVE {:A} {:A} LEFT LEFT 0 ; c> BLMPOP 0 1 {:A} LEFT ; c> EXEC",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; c> FLUSHALL ; c> RPUSH {:A} v ; w>",
    "c> DEL {list:A} ; w> BLPOP {:A} 0 ; w> PING ; w> GET s:1 ; c> RPUSH {:A} v ; w> ; w> ; w>",
];

/// Sorted sets.
pub(crate) const ZSETS: &[&str] = &[
    "BZPOPMIN {zset}+ {timeout}",
    "BZPOPMAX {zset}+ {timeout}",
    "BZMPOP {timeout} {nzset} (MIN|MAX) [COUNT {count}]",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0 ; c> ZADD {:A} 2 b 1 a ; w> ; c> ZRANGE {:A} 0 -1",
    "c> DEL {zset:A} {zset:B} ; w> BZPOPMAX {:A} {:B} 0 ; c> ZADD {:B} 1.5 a ; w> ; c> EXISTS {:B}",
    "c> DEL {zset:A} ; w> BZMPOP 0 2 z:9 {:A} (MIN|MAX) [COUNT 2] ; c> ZADD {:A} 1 a 2 b 3 c ; w> ; c> ZCARD {:A}",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0 ; x> BZPOPMAX {:A} 0 ; c> ZADD {:A} 1 a 2 b 3 c ; w> ; x> ; c> ZCARD {:A}",
    "c> DEL {zset:A} z:9 ; c> ZADD z:9 1 a ; w> BZPOPMIN {:A} 0 ; c> ZUNIONSTORE {:A} 1 z:9 ; w>",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0 ; c> ZINCRBY {:A} 5 m ; w>",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0 ; c> GEOADD {:A} 1 1 p ; w>",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0 ; c> RPUSH {:A} v ; c> DEL {:A} ; c> ZADD {:A} 1 m ; w>",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0 ; c> MULTI ; c> ZADD {:A} 1 a ; c> ZADD {:A} 0 b ; c> EXEC ; w>",
    "c> DEL {zset:A} ; w> BZPOPMIN {:A} 0.02 ; w> ; w> BZMPOP 0.02 1 {:A} MAX ; w>",
    "c> DEL {zset:A} ; c> MULTI ; c> BZPOPMIN {:A} 0 ; c> BZMPOP 0 1 {:A} MAX ; c> EXEC",
    "c> DEL {zset:A} ; w> BZPOPMAX {:A} 0 ; c> CLIENT UNBLOCK <id:w> [ERROR] ; w>",
];

/// Streams.
pub(crate) const STREAMS: &[&str] = &[
    "XREAD [COUNT {pos}] BLOCK (3|5|-1|abc) STREAMS {stream} ($|{id})",
    "XREADGROUP GROUP {group} {consumer} BLOCK 5 STREAMS {stream} (>|0)",
    "c> DEL {stream:A} ; w> XREAD BLOCK 0 STREAMS {:A} $ ; c> XADD {:A} 1-1 f v ; w>",
    "c> DEL {stream:A} ; c> XADD {:A} 1-1 a b ; w> XREAD BLOCK 0 STREAMS {:A} $ ; c> XADD {:A} 2-1 f v ; w>",
    "c> DEL {stream:A} ; c> XADD {:A} 1-1 a b ; w> XREAD BLOCK 0 STREAMS {:A} 5 ; c> XADD {:A} 2-1 f v ; c> XADD {:A} 6-1 f v ; w>",
    "c> DEL {stream:A} x:9 ; w> XREAD COUNT 1 BLOCK 0 STREAMS {:A} x:9 $ $ ; c> XADD x:9 1-1 f v ; w>",
    "c> DEL {stream:A} ; w> XREAD BLOCK 0 STREAMS {:A} $ ; x> XREAD BLOCK 0 STREAMS {:A} 0 ; c> XADD {:A} 1-1 f v ; w> ; x>",
    "c> DEL {stream:A} ; c> XGROUP CREATE {:A} g $ MKSTREAM ; w> XREADGROUP GROUP g c BLOCK 0 STREAMS {:A} > ; c> XADD {:A} 1-1 f v ; w> ; c> XPENDING {:A} g",
    "c> DEL {stream:A} ; c> XGROUP CREATE {:A} g $ MKSTREAM ; w> XREADGROUP GROUP g c BLOCK 0 STREAMS {:A} > ; x> XREADGROUP GROUP g d BLOCK 0 STREAMS {:A} > ; c> XADD {:A} 1-1 f v ; w> ; c> XADD {:A} 2-1 f v ; x>",
    "c> DEL {stream:A} ; c> XGROUP CREATE {:A} g $ MKSTREAM ; w> XREADGROUP GROUP g c BLOCK 0 STREAMS {:A} > ; c> (DEL {:A}|XGROUP DESTROY {:A} g|SET {:A} v) ; w>",
    "c> DEL {stream:A} ; c> XGROUP CREATE {:A} g $ MKSTREAM ; w> XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS {:A} > ; c> XADD {:A} 1-1 f v ; w> ; c> XPENDING {:A} g",
    "c> DEL {stream:A} ; w> XREAD BLOCK 0 STREAMS {:A} $ ; c> MULTI ; c> XADD {:A} 1-1 f v ; c> XADD {:A} 2-1 f v ; c> EXEC ; w>",
    "c> DEL {stream:A} ; w> XREAD BLOCK 20 STREAMS {:A} $ ; w>",
    "c> DEL {stream:A} ; c> XGROUP CREATE {:A} g $ MKSTREAM ; w> XREADGROUP GROUP g c BLOCK 20 STREAMS {:A} > ; w>",
    "c> DEL {stream:A} ; w> XREAD BLOCK 0 STREAMS {:A} $ ; c> CLIENT UNBLOCK <id:w> [ERROR] ; w>",
    "c> DEL {stream:A} ; c> MULTI ; c> XREAD BLOCK 0 STREAMS {:A} $ ; c> EXEC",
    "c> DEL {stream:A} x:9 ; c> XADD x:9 3-3 f v ; w> XREAD BLOCK 0 STREAMS {:A} $ ; c> RENAME x:9 {:A} ; w>",
];
