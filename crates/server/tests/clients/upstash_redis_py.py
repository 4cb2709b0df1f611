"""upstash-redis: every command that it has, by one client, by one with asyncio, in a pipeline and in a transaction.

A row is a method, its arguments and the expected result, or a function that checks it.
"""

import asyncio
import os
import time

from upstash import fails_with, run
from upstash_redis import Redis
from upstash_redis.asyncio import Redis as AsyncRedis
from upstash_redis.commands import Commands, JsonCommands


def row(method, *args, **kwargs):
    """`row("get", "k") >> "v"` is a row."""

    class Asked:
        def __rshift__(self, result):
            return (method, args, kwargs, result)

    return Asked()


def near(least, most):
    return lambda value: least <= value <= most


def same(*members):
    return lambda value: sorted(value) == sorted(members)


def sole(*expected):
    return lambda value: [near(e - 2, e)(v) if e > 0 else v == e for v, e in zip(value, expected)] == [True] * len(expected)


now = int(time.time())
INCREMENT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
READ = "return redis.call('GET', KEYS[1])"
SHA_OF_READ = "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f"

STRINGS = [
    row("set", "s", "v") >> True,
    row("get", "s") >> "v",
    row("get", "none") >> None,
    row("set", "s", "w", get=True, ex=100) >> "v",
    row("set", "s", "x", nx=True) >> False,
    row("set", "s", "x", xx=True, keepttl=True) >> True,
    row("ttl", "s") >> near(98, 100),
    row("append", "s", "yz") >> 3,
    row("strlen", "s") >> 3,
    row("getrange", "s", 1, -1) >> "yz",
    row("substr", "s", 0, 0) >> "x",
    row("setrange", "s", 1, "--") >> 3,
    row("getset", "s", "new") >> "x--",
    row("getex", "s", persist=True) >> "new",
    row("getdel", "s") >> "new",
    row("setnx", "n", 1) >> True,
    row("setnx", "n", 2) >> False,
    row("incr", "n") >> 2,
    row("incrby", "n", 9_223_372_036_854_775_800) >> 9_223_372_036_854_775_802,
    row("decrby", "n", 9_223_372_036_854_775_800) >> 2,
    row("decr", "n") >> 1,
    row("incrbyfloat", "n", 0.5) >> 1.5,
    row("setex", "n", 60, "e") >> True,
    row("psetex", "n", 60_000, "e") >> True,
    row("mset", {"a": 1.0, "b": True, "c": {"x": [1]}, "d": "ü\x00"}) >> True,
    row("mget", "a", "b", "c", "d", "none") >> ["1.0", "true", '{"x": [1]}', "ü\x00", None],
    row("msetnx", {"a": 1, "e": 2}) >> False,
    row("msetnx", {"e": 1, "f": 2}) >> True,
    row("setbit", "bits", 7, 1) >> 0,
    row("getbit", "bits", 7) >> 1,
    row("bitcount", "bits") >> 1,
    row("bitpos", "bits", 1) >> 7,
    row("setbit", "more", 0, 1) >> 0,
    row("bitop", "OR", "both", "bits", "more") >> 1,
    row("bitcount", "both", 0, 0) >> 2,
    row("bitop", "DIFF", "only", "both", "more") >> 1,
    row("bitpos", "only", 1) >> 7,
    row("pfadd", "hll", "a", "b") >> True,
    row("pfadd", "hll", "a") >> False,
    row("pfmerge", "merged", "hll") >> True,
    row("pfcount", "merged", "hll") >> 2,
]

KEYS = [
    row("mset", {"k1": 1, "k2": 2, "k3": 3}) >> True,
    row("dbsize") >> 3,
    row("exists", "k1", "k2", "none") >> 2,
    row("keys", "k*") >> same("k1", "k2", "k3"),
    row("touch", "k1", "none") >> 1,
    row("type", "k1") >> "string",
    row("expire", "k1", 100) >> True,
    row("expire", "k1", 50, gt=True) >> False,
    row("persist", "k1") >> True,
    row("ttl", "k1") >> -1,
    row("pexpire", "k1", 100_000) >> True,
    row("pttl", "k1") >> near(95_000, 100_000),
    row("expireat", "k1", now + 500) >> True,
    row("pexpireat", "k1", (now + 500) * 1000) >> True,
    row("rename", "k1", "k9") >> True,
    row("renamenx", "k9", "k2") >> False,
    row("renamenx", "k9", "k1") >> True,
    row("copy", "k1", "copy") >> True,
    row("copy", "k1", "copy") >> False,
    row("copy", "k2", "copy", replace=True) >> True,
    row("randomkey") >> (lambda key: key in ("k1", "k2", "k3", "copy")),
    row("scan", 0, match="k*", count=100) >> (lambda found: found[0] == 0 and sorted(found[1]) == ["k1", "k2", "k3"]),
    row("delete", "k1", "none") >> 1,
    row("unlink", "k2", "k3") >> 2,
    row("ping") >> "PONG",
    row("ping", "hello") >> "hello",
    row("echo", "grüße 😀") >> "grüße 😀",
    row("time") >> (lambda pair: abs(pair[0] - now) < 600 and 0 <= pair[1] < 1_000_000),
    row("publish", "nobody", "x") >> 0,
    row("flushdb") >> True,
    row("flushall", "SYNC") >> True,
    row("dbsize") >> 0,
]

HASHES = [
    row("hset", "h", "a", "1") >> 1,
    row("hset", "h", values={"b": "two", "c": 3}) >> 2,
    row("hget", "h", "b") >> "two",
    row("hget", "h", "none") >> None,
    row("hgetall", "h") >> {"a": "1", "b": "two", "c": "3"},
    row("hgetall", "none") >> {},
    row("hmget", "h", "a", "none") >> ["1", None],
    row("hmset", "h", {"d": 4}) >> True,
    row("hsetnx", "h", "d", 5) >> False,
    row("hexists", "h", "d") >> True,
    row("hlen", "h") >> 4,
    row("hstrlen", "h", "b") >> 3,
    row("hkeys", "h") >> same("a", "b", "c", "d"),
    row("hvals", "h") >> same("1", "two", "3", "4"),
    row("hincrby", "h", "a", 9) >> 10,
    row("hincrbyfloat", "h", "a", 0.25) >> 10.25,
    row("hdel", "h", "c", "d", "none") >> 2,
    row("hrandfield", "h") >> (lambda field: field in "ab"),
    row("hrandfield", "h", 5, withvalues=True) >> {"a": "10.25", "b": "two"},
    row("hscan", "h", 0, match="b") >> (0, {"b": "two"}),
    row("hexpire", "h", "a", 100) >> [1],
    row("httl", "h", ["a", "b", "none"]) >> sole(100, -1, -2),
    row("hpexpire", "h", "a", 90_000) >> [1],
    row("hpttl", "h", "a") >> (lambda ms: near(85_000, 90_000)(ms[0])),
    row("hexpireat", "h", "a", now + 500) >> [1],
    row("hexpiretime", "h", "a") >> [now + 500],
    row("hpexpireat", "h", "a", (now + 600) * 1000) >> [1],
    row("hpexpiretime", "h", "a") >> [(now + 600) * 1000],
    row("hpersist", "h", ["a", "b"]) >> [1, -1],
    row("hsetex", "h", values={"f": 1, "g": 2}, ex=60) >> (lambda result: result in (1, True)),
    row("httl", "h", ["f", "g"]) >> sole(60, 60),
    row("hgetex", "h", "f", persist=True) >> ["1"],
    row("httl", "h", "f") >> [-1],
    row("hgetdel", "h", "f", "g", "none") >> ["1", "2", None],
]

LISTS_AND_SETS = [
    row("rpush", "l", "a", "b", "c") >> 3,
    row("lpush", "l", 0) >> 4,
    row("lpushx", "none", 1) >> 0,
    row("rpushx", "l", "d") >> 5,
    row("lrange", "l", 0, -1) >> ["0", "a", "b", "c", "d"],
    row("lindex", "l", 1) >> "a",
    row("linsert", "l", "BEFORE", "b", "x") >> 6,
    row("llen", "l") >> 6,
    row("lpos", "l", "x") >> 2,
    row("lset", "l", 2, "a") >> True,
    row("lpos", "l", "a", count=0) >> [1, 2],
    row("lrem", "l", 1, "a") >> 1,
    row("lmove", "l", "m", "LEFT", "RIGHT") >> "0",
    row("rpoplpush", "l", "m") >> "d",
    row("lpop", "l") >> "a",
    row("rpop", "l") >> "c",
    row("lpop", "l", 5) >> ["b"],
    row("lpop", "l") >> None,
    row("ltrim", "m", 0, 0) >> "OK",
    row("sadd", "x", "a", "b", "c") >> 3,
    row("sadd", "y", "b", "c", "d") >> 3,
    row("scard", "x") >> 3,
    row("sismember", "x", "a") >> True,
    row("smismember", "x", "a", "z") >> [True, False],
    row("smembers", "x") >> same("a", "b", "c"),
    row("sdiff", "x", "y") >> ["a"],
    row("sdiffstore", "z", "x", "y") >> 1,
    row("sinter", "x", "y") >> same("b", "c"),
    row("sinterstore", "z", "x", "y") >> 2,
    row("sunion", "x", "y") >> same("a", "b", "c", "d"),
    row("sunionstore", "z", "x", "y") >> 4,
    row("smove", "x", "y", "a") >> True,
    row("srem", "y", "a", "none") >> 1,
    row("srandmember", "x") >> (lambda member: member in "bc"),
    row("sscan", "z", 0, count=100) >> (lambda found: found[0] == 0 and sorted(found[1]) == ["a", "b", "c", "d"]),
    row("spop", "x") >> (lambda member: member in "bc"),
]

SORTED_SETS = [
    row("zadd", "z1", {"a": 1, "b": 2.5, "c": 3}) >> 3,
    row("zadd", "z1", {"c": 4}, xx=True, ch=True) >> 1,
    row("zadd", "z1", {"c": 1}, incr=True) >> 5.0,
    row("zcard", "z1") >> 3,
    row("zcount", "z1", "(1", "+inf") >> 2,
    row("zscore", "z1", "b") >> 2.5,
    row("zscore", "z1", "none") >> None,
    row("zmscore", "z1", ["a", "none"]) >> [1.0, None],
    row("zincrby", "z1", -0.5, "b") >> 2.0,
    row("zrank", "z1", "c") >> 2,
    row("zrevrank", "z1", "c") >> 0,
    row("zrange", "z1", 0, -1) >> ["a", "b", "c"],
    row("zrange", "z1", 0, -1, withscores=True, rev=True) >> [("c", 5.0), ("b", 2.0), ("a", 1.0)],
    row("zrangebyscore", "z1", "(1", "+inf", withscores=True) >> [("b", 2.0), ("c", 5.0)],
    row("zrevrangebyscore", "z1", "+inf", "-inf", offset=1, count=1) >> ["b"],
    row("zrangebylex", "z1", "-", "[b") >> ["a", "b"],
    row("zrevrangebylex", "z1", "[b", "-") >> ["b", "a"],
    row("zrevrange", "z1", 0, 0, withscores=True) >> [("c", 5.0)],
    row("zadd", "z2", {"b": 10, "d": 20}) >> 2,
    row("zrangestore", "copy", "z1", 0, 1) >> 2,
    row("zrangestore", "copy", "z1", 0, -1, offset=1, count=1) >> 1,
    row("zdiff", ["z1", "z2"], withscores=True) >> [("a", 1.0), ("c", 5.0)],
    row("zdiffstore", "zd", ["z1", "z2"]) >> 2,
    row("zinter", ["z1", "z2"], withscores=True) >> [("b", 12.0)],
    row("zinterstore", "zi", ["z1", "z2"], weights=[2, 1], aggregate="MAX") >> 1,
    row("zunion", ["z1", "z2"]) >> ["a", "c", "b", "d"],
    row("zunionstore", "zu", ["z1", "z2"]) >> 4,
    row("zlexcount", "z1", "-", "+") >> 3,
    row("zrandmember", "z1", 5, withscores=True) >> same(("a", 1.0), ("b", 2.0), ("c", 5.0)),
    row("zscan", "z1", 0, match="a") >> (0, [("a", 1.0)]),
    row("zpopmin", "z1") >> [("a", 1.0)],
    row("zpopmax", "z1", 2) >> [("c", 5.0), ("b", 2.0)],
    row("zrem", "zu", "a", "none") >> 1,
    row("zremrangebyscore", "zu", 5, "(12") >> 1,
    row("zremrangebyrank", "zu", 0, 0) >> 1,
    row("zremrangebylex", "zu", "-", "+") >> 1,
    row("geoadd", "geo", (13.361389, 38.115556, "Palermo"), (15.087269, 37.502669, "Catania")) >> 2,
    row("geodist", "geo", "Palermo", "Catania", "KM") >> 166.2742,
    row("geohash", "geo", "Palermo", "none") >> ["sqc8b49rny0", None],
    row("geopos", "geo", "Palermo", "none") >> (lambda at: abs(at[0][0] - 13.361389) < 1e-5 and at[1] is None),
    row("geosearch", "geo", unit="KM", longitude=15, latitude=37, radius=200, order="ASC") >> ["Catania", "Palermo"],
    row("geosearchstore", "found", "geo", member="Palermo", unit="KM", radius=1) >> 1,
    row("georadius", "geo", 15, 37, 100, "KM") >> ["Catania"],
    row("georadius_ro", "geo", 15, 37, 100, "KM") >> ["Catania"],
    row("georadiusbymember", "geo", "Palermo", 1, "KM") >> ["Palermo"],
    row("georadiusbymember_ro", "geo", "Palermo", 1, "KM") >> ["Palermo"],
]

STREAMS = [
    row("xadd", "t", "1-0", {"n": 1}) >> "1-0",
    row("xadd", "t", "2-0", {"n": 2}) >> "2-0",
    row("xadd", "t", "3-0", {"n": 3}, maxlen=10) >> "3-0",
    row("xlen", "t") >> 3,
    row("xrange", "t", count=1) >> (lambda found: [list(entry) for entry in found] == [["1-0", ["n", "1"]]]),
    row("xrevrange", "t", count=1) >> (lambda found: [list(entry) for entry in found] == [["3-0", ["n", "3"]]]),
    row("xread", {"t": "2-0"}) >> [["t", [["3-0", ["n", "3"]]]]],
    row("xgroup_create", "t", "g", "0") >> (lambda result: result in ("OK", True)),
    row("xgroup_createconsumer", "t", "g", "c") >> 1,
    row("xreadgroup", "g", "c", {"t": ">"}, count=2) >> [["t", [["1-0", ["n", "1"]], ["2-0", ["n", "2"]]]]],
    row("xack", "t", "g", "1-0") >> 1,
    row("xpending", "t", "g") >> (lambda found: found[0] == 1 and found[1] == "2-0"),
    row("xpending", "t", "g", "-", "+", 10) >> (lambda found: found[0][:2] == ["2-0", "c"]),
    row("xclaim", "t", "g", "d", 0, "2-0", justid=True) >> ["2-0"],
    row("xautoclaim", "t", "g", "e", 0, "0-0", justid=True) >> (lambda found: list(found)[:2] == ["0-0", ["2-0"]]),
    row("xinfo_groups", "t") >> (lambda found: found[0][:4] == ["name", "g", "consumers", 3]),
    row("xinfo_consumers", "t", "g") >> (lambda found: sorted(one[1] for one in found) == ["c", "d", "e"]),
    row("xackdel", "t", "g", "2-0", "9-9", option="DELREF") >> [1, -1],
    row("xdelex", "t", "1-0", "9-9") >> [1, -1],
    row("xgroup_setid", "t", "g", "$") >> (lambda result: result in ("OK", True)),
    row("xgroup_delconsumer", "t", "g", "c") >> 0,
    row("xgroup_destroy", "t", "g") >> 1,
    row("xadd", "t", "4-0", {"n": 4}) >> "4-0",
    row("xtrim", "t", maxlen=1, approximate=False) >> 1,
    row("xdel", "t", "4-0") >> 1,
]

SCRIPTS = [
    row("eval", INCREMENT, keys=["count"], args=["5"]) >> 5,
    row("eval", "return {KEYS[1], ARGV[1], false, 7}", keys=["k"], args=["ü"]) >> ["k", "ü", None, 7],
    row("script_load", READ) >> SHA_OF_READ,
    row("script_exists", SHA_OF_READ, "0" * 40) >> [True, False],
    row("evalsha", SHA_OF_READ, keys=["count"]) >> "5",
    row("eval_ro", READ, keys=["count"]) >> "5",
    row("evalsha_ro", SHA_OF_READ, keys=["count"]) >> "5",
    row("script_flush") >> True,
    row("script_exists", SHA_OF_READ) >> [False],
]

JSON = [
    row("json.set", "j", "$", {"a": [1, 2], "o": {"x": 1, "s": "text"}, "b": True}) >> True,
    row("json.get", "j", "$.o.x") >> [1],
    row("json.get", "none") >> None,
    row("json.arrappend", "j", "$.a", 3, 4) >> [4],
    row("json.arrindex", "j", "$.a", 3) >> [2],
    row("json.arrinsert", "j", "$.a", 0, 0) >> [5],
    row("json.arrlen", "j", "$.a") >> [5],
    row("json.arrpop", "j", "$.a") >> (lambda popped: popped in ([4], ["4"])),
    row("json.arrtrim", "j", "$.a", 1, 2) >> [2],
    row("json.numincrby", "j", "$.o.x", 4) >> [5],
    row("json.nummultby", "j", "$.o.x", 2) >> [10],
    row("json.objkeys", "j", "$.o") >> [["x", "s"]],
    row("json.objlen", "j", "$.o") >> [2],
    row("json.strappend", "j", "$.o.s", "!") >> [5],
    row("json.strlen", "j", "$.o.s") >> [5],
    row("json.toggle", "j", "$.b") >> [False],
    row("json.type", "j", "$.o") >> ["object"],
    row("json.merge", "j", "$.o", {"x": None, "y": 2}) >> True,
    row("json.get", "j", "$.o") >> [{"s": "text!", "y": 2}],
    row("json.mset", [("j1", "$", {"n": 1}), ("j2", "$", {"n": 2})]) >> True,
    row("json.mget", ["j1", "j2", "none"], "$.n") >> [[1], [2], None],
    row("json.clear", "j", "$.a") >> 1,
    row("json.resp", "j1") >> [["{", "n", 1]],
    row("json.forget", "j", "$.a") >> 1,
    row("json.delete", "j") >> 1,
]

FAMILIES = {
    "strings": STRINGS,
    "keys": KEYS,
    "hashes": HASHES,
    "lists_and_sets": LISTS_AND_SETS,
    "sorted_sets": SORTED_SETS,
    "streams": STREAMS,
    "scripts": SCRIPTS,
    "json": JSON,
}

redis = Redis.from_env()


def method_of(client, name):
    for part in name.split("."):
        client = getattr(client, part)
    return client


def check(one, result, how):
    method, args, kwargs, expected = one
    message = f"{how}: {method}{args} {kwargs} returned {result!r}, not {expected!r}"
    assert expected(result) if callable(expected) else result == expected and type(result) is type(expected), message


def ask(client, rows, how):
    for one in rows:
        check(one, method_of(client, one[0])(*one[1], **one[2]), how)


def family(name, rows):
    """All rows of a family, in every way in which they can be sent."""

    def at_a_time():
        for encoding in ("base64", None):
            with Redis(os.environ["UPSTASH_REDIS_REST_URL"], os.environ["UPSTASH_REDIS_REST_TOKEN"], rest_encoding=encoding) as client:
                client.flushall()
                ask(client, rows, f"encoding {encoding}")

    def in_one_go():
        for how in ("pipeline", "multi"):
            # Scripts cannot be loaded or forgotten within a transaction; FLUSHALL can.
            some = [one for one in rows if not (how == "multi" and one[0].startswith(("script_", "evalsha")))]
            redis.flushall()
            pipe = getattr(redis, how)()
            for one in some:
                method_of(pipe, one[0])(*one[1], **one[2])
            results = pipe.exec()
            assert len(results) == len(some)
            for one, result in zip(some, results):
                check(one, result, how)

    async def with_asyncio():
        async with AsyncRedis.from_env() as client:
            await client.flushall()
            for one in rows:
                check(one, await method_of(client, one[0])(*one[1], **one[2]), "asyncio")
            await client.flushall()

    for case in (at_a_time, in_one_go, with_asyncio):
        case.__name__ = f"{name}_{case.__name__}"
        yield case


def bitfields():
    redis.flushall()
    assert redis.bitfield("f").set("u8", 0, 255).get("u8", 0).incrby("u8", 0, 1).execute() == [0, 255, 0]
    assert redis.bitfield_ro("f").get("u8", 0).execute() == [0]


def every_command_has_a_row():
    """A method that is neither in a row nor named here is one that a new version brings, or one that was forgotten."""
    others = {"bitfield", "bitfield_ro", "client_setinfo", "execute"}
    ours = {one[0] for rows in FAMILIES.values() for one in rows} | others
    methods = {name for name in dir(Commands) if not name.startswith("_")}
    methods |= {f"json.{name}" for name in dir(JsonCommands) if not name.startswith("_") and name != "client"}
    # Arrays, search and vectors are Upstash's own.
    left = {name for name in methods - ours if not name.startswith(("ar", "search", "vector", "json.execute"))}
    assert not left, sorted(left)


def errors_have_the_words_of_redis():
    redis.flushall()
    redis.set("text", "x")
    fails_with("ERR value is not an integer or out of range", redis.incr, "text")
    fails_with("WRONGTYPE Operation against a key", redis.lpush, "text", 1)
    fails_with("ERR unknown command 'NOSUCH'", redis.execute, ["NOSUCH"])
    fails_with("ERR Command is not available: 'BLPOP'", redis.execute, ["BLPOP", "l", 0])
    fails_with("NOSCRIPT", redis.evalsha, "0" * 40)
    stranger = Redis(os.environ["UPSTASH_REDIS_REST_URL"], "wrong")
    fails_with("WRONGPASS invalid or missing auth token", stranger.get, "text")
    reader = Redis(os.environ["UPSTASH_REDIS_REST_URL"], os.environ["READ_ONLY_TOKEN"])
    assert reader.get("text") == "x"
    fails_with("NOPERM this user has no permissions to run the 'set' command", reader.set, "text", "y")
    pipe = redis.pipeline().set("text", "y").incr("text")
    fails_with("ERR value is not an integer or out of range", pipe.exec)
    assert redis.get("text") == "y"


def sync_tokens_differ():
    seen = set()
    for n in range(10):
        redis.set("k", n)
        seen.add(redis._sync_token)
    assert len(seen) == 10 and "" not in seen, seen


async def many_tasks_at_a_time():
    async with AsyncRedis.from_env() as client:
        await client.delete("n")
        counts = await asyncio.gather(*(client.incr("n") for _ in range(300)))
        assert sorted(counts) == list(range(1, 301))
        sums = await asyncio.gather(*(client.multi().incr("a").incr("b").exec() for _ in range(50)))
        assert all(a == b for a, b in sums) and sorted(a for a, _ in sums) == list(range(1, 51)), sums


run(
    [
        *(case for name, rows in FAMILIES.items() for case in family(name, rows)),
        bitfields,
        every_command_has_a_row,
        errors_have_the_words_of_redis,
        sync_tokens_differ,
        many_tasks_at_a_time,
    ]
)
