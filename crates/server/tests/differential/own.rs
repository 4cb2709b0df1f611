//! Replies that are Keystead's own, written by hand: errors that say what to do, and Redis 8, RedisJSON and rate
//! limits where no judge has them.
//!
//! They are asked of Keystead alone, in this order, because the judges would end, save or listen, or do not know them.

/// Requests and their replies, as the shrinker would print them.
pub(crate) struct Own {
    /// The test that it belongs to.
    pub(crate) family: &'static str,
    pub(crate) request: &'static str,
    pub(crate) reply: &'static str,
}

const fn own(family: &'static str, request: &'static str, reply: &'static str) -> Own {
    Own { family, request, reply }
}

const NOT_KEPT: &str = "-ERR nothing can be saved: the server stores its data in memory only (--durability fsync or commit persists it)";

const NO_USERS: &str =
    "-ERR users cannot be changed: there is only \\'default\\', and its password is the server\\'s token";

pub(crate) const OWN: &[Own] = &[
    own("strings", "SET own hello IFNE hello", "+OK"),
    own("strings", "SET own hello IFEQ world", "$-1"),
    own("strings", "DIGEST own", "\"9555e8555c62dcfd\""),
    own("strings", "DIGEST", "-ERR wrong number of arguments for \\'digest\\' command"),
    own("strings", "DELEX own IFEQ world", ":0"),
    own("strings", "DELEX own FOO hello", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
    own("strings", "DELEX own IFDEQ 9555E8555C62DCFD", ":1"),
    own("strings", "MSETEX 1 own hello NX PX 60000", ":1"),
    own("strings", "MSETEX 1 own hello NX", ":0"),
    own("strings", "MSETEX 0 own hello", "-ERR invalid numkeys value"),
    own("strings", "DEL own", ":1"),
    own("streams", "XADD own ACKED MAXLEN 9 1-1 a b", "\"1-1\""),
    own("streams", "XDELEX own IDS 1 x", "-ERR Invalid stream ID specified as stream command argument"),
    own("streams", "XDELEX own DELREF IDS 1 1-1", "[:1]"),
    own("streams", "XACKDEL own g ACKED IDS 1 1-1", "[:-1]"),
    own("streams", "XACKDEL own g IDS 0 1-1", "-ERR Number of IDs must be a positive integer"),
    own("streams", "DEL own", ":1"),
    own("server", "MONITOR x", "-ERR wrong number of arguments for \\'monitor\\' command"),
    own("server", "SHUTDOWN ABORT", "-ERR No shutdown in progress."),
    own("server", "SHUTDOWN abc", "-ERR syntax error"),
    own("server", "REPLICAOF h 1", "-ERR replication is not supported: this server is always a master"),
    own("server", "SAVE", NOT_KEPT),
    own("server", "BGSAVE", NOT_KEPT),
    own("server", "BGREWRITEAOF", NOT_KEPT),
    own("server", "ACL SETUSER a on", NO_USERS),
    own("server", "ACL LOAD", NO_USERS),
    own("server", "ACL SAVE", NO_USERS),
    own("server", "MODULE LOAD x", "-ERR modules are not supported"),
    own("server", "MODULE LOADEX x", "-ERR modules are not supported"),
    own("server", "MODULE UNLOAD x", "-ERR modules are not supported"),
    own(
        "server",
        "DEBUG PROTOCOL nothing",
        "-ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|push|verbatim|true|false",
    ),
    // The judges reject it in a pipeline.
    own("scripts", "SCRIPT DEBUG NO", "+OK"),
    own("scripts", "SCRIPT DEBUG abc", "-ERR Use SCRIPT DEBUG YES/SYNC/NO"),
    own("mixed_at_commit", "SAVE", "+OK"),
    own("mixed_at_commit", "BGSAVE", "+Background saving started"),
    own("mixed_at_commit", "BGSAVE SCHEDULE", "+Background saving started"),
    own("mixed_at_commit", "BGREWRITEAOF", "+Background append only file rewriting started"),
    own(
        "keys",
        r#"JSON.SET own:json $ {"a":1,"l":[1,2.0],"s":"x","t":true,"n":{"a":9007199254740993}}"#,
        r#"+OK"#,
    ),
    own("keys", r#"JSON.GET own:json $..a"#, r#""[1,9007199254740993]""#),
    own("keys", r#"JSON.MSET own:json $.a 2 own:json2 $ {"a":3}"#, r#"+OK"#),
    own("keys", r#"JSON.MGET own:json own:json2 $.a"#, r#"["[2]", "[3]"]"#),
    own("keys", r#"JSON.MERGE own:json $.n {"a":null,"b":4}"#, r#"+OK"#),
    own("keys", r#"JSON.TYPE own:json $.*"#, r#"["integer", "array", "string", "boolean", "object"]"#),
    own("keys", r#"JSON.NUMINCRBY own:json $.n.b 0.5"#, r#""[4.5]""#),
    own("keys", r#"JSON.NUMMULTBY own:json $.a 3"#, r#""[6]""#),
    own("keys", r#"JSON.STRAPPEND own:json $.s "\"y\"""#, r#"[:2]"#),
    own("keys", r#"JSON.STRLEN own:json $.s"#, r#"[:2]"#),
    own("keys", r#"JSON.ARRAPPEND own:json $.l 3 null"#, r#"[:4]"#),
    own("keys", r#"JSON.ARRINDEX own:json $.l 2.0"#, r#"[:1]"#),
    own("keys", r#"JSON.ARRINSERT own:json $.l 0 "\"z\"""#, r#"[:5]"#),
    own("keys", r#"JSON.ARRLEN own:json $.l"#, r#"[:5]"#),
    own("keys", r#"JSON.ARRPOP own:json $.l"#, r#"["null"]"#),
    own("keys", r#"JSON.ARRTRIM own:json $.l 1 2"#, r#"[:2]"#),
    own("keys", r#"JSON.OBJKEYS own:json $.n"#, r#"[["b"]]"#),
    own("keys", r#"JSON.OBJLEN own:json"#, r#":5"#),
    own("keys", r#"JSON.TOGGLE own:json $.t"#, r#"[:0]"#),
    own("keys", r#"JSON.RESP own:json $.n"#, r#"[[+{, "b", "4.5"]]"#),
    own("keys", r#"JSON.CLEAR own:json $.n"#, r#":1"#),
    own("keys", r#"JSON.GET own:json"#, r#""{\"a\":6,\"l\":[1,2.0],\"s\":\"xy\",\"t\":false,\"n\":{}}""#),
    own("keys", r#"JSON.DEBUG MEMORY own:json $.l"#, r#"[:7]"#),
    own(
        "keys",
        "JSON.DEBUG HELP",
        r#"[+JSON.DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, +MEMORY key [path], +    Returns the length of the JSON text of the values at a path in bytes., +HELP, +    Returns a list of the subcommands of JSON.DEBUG.]"#,
    ),
    own("keys", r#"JSON.DEL own:json $.l"#, r#":1"#),
    own("keys", r#"JSON.FORGET own:json"#, r#":1"#),
    own("keys", "CL.THROTTLE own 1 1 3600", "[:0, :2, :1, :-1, :3600]"),
    own("keys", "CL.THROTTLE own 1 1 3600 2", "[:1, :2, :1, :3600, :3600]"),
    own("keys", "CL.THROTTLE own 1 1 3600 3", "[:1, :2, :1, :-1, :3600]"),
    own("keys", "TYPE own", "+state"),
    own("keys", "DEL own", ":1"),
    own("keys", "THROTTLE own 2 1 3600 0", "[:1, :2, :2, :0, :0]"),
    own("keys", "THROTTLE own 2 1 3600 3", "[:0, :2, :2, :0, :3600]"),
    own("keys", "EXISTS own", ":0"),
    own("server", "WAITSINK nobody 1", "-ERR there is no sink \\'nobody\\'"),
];
