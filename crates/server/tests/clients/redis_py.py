"""redis-py, in RESP2 and RESP3, as a program uses it."""

import sys
import threading
import time

import redis


def run(url: str, protocol: int) -> None:
    r = redis.Redis.from_url(url, protocol=protocol, decode_responses=True)
    r.flushall()
    assert r.set("text", "grüße", ex=100)
    assert r.get("text") == "grüße" and r.get("nothing") is None
    assert r.ttl("text") > 90
    r.hset("hash", mapping={"a": 1, "b": "two"})
    assert r.hgetall("hash") == {"a": "1", "b": "two"}
    r.zadd("zset", {"x": 1.5, "y": 0.5})
    assert [tuple(pair) for pair in r.zrange("zset", 0, -1, withscores=True)] == [("y", 0.5), ("x", 1.5)]
    assert r.sadd("set", "m", "n") == 2 and r.smembers("set") == {"m", "n"}
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1
    assert r.pfadd("hll", "a", "b") == 1 and r.pfcount("hll") == 2

    pipe = r.pipeline()
    assert pipe.incr("n").incr("n").execute() == [1, 2]
    r.transaction(lambda p: (p.get("n"), p.multi(), p.incr("n")), "n")
    assert r.get("n") == "3"
    with r.pipeline() as p:
        p.watch("n")
        r.incr("n")
        p.multi()
        p.incr("n")
        try:
            p.execute()
            raise AssertionError("a watched key has changed")
        except redis.WatchError:
            pass

    threading.Timer(0.05, lambda: r.rpush("queue", "job")).start()
    assert tuple(r.blpop("queue", timeout=5)) == ("queue", "job")
    assert r.blpop("queue", timeout=0.05) is None

    listener = r.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("n*")
    time.sleep(0.1)
    assert r.publish("news", "hello") == 2
    got = []
    deadline = time.monotonic() + 5
    while len(got) < 2 and time.monotonic() < deadline:
        message = listener.get_message(timeout=0.2)
        if message:
            got.append((message["type"], message["channel"], message["data"]))
    assert sorted(got) == [("message", "news", "hello"), ("pmessage", "news", "hello")], got
    listener.close()

    entry = r.xadd("stream", {"field": "value"})
    r.xgroup_create("stream", "group", "0")
    read = r.xreadgroup("group", "me", {"stream": ">"}, count=1)
    found = read["stream"][0] if isinstance(read, dict) else read[0][1]
    assert tuple(found[0]) == (entry, {"field": "value"}), read
    assert r.xack("stream", "group", entry) == 1
    assert r.xpending("stream", "group")["pending"] == 0

    for n in range(300):
        r.set(f"many:{n}", n)
    assert len(set(r.scan_iter("many:*", count=50))) == 300
    assert r.hexpire("hash", 100, "a") == [1]
    assert r.httl("hash", "a")[0] > 90
    try:
        r.execute_command("NOSUCH")
        raise AssertionError("there is no such command")
    except redis.ResponseError as error:
        assert "unknown command" in str(error)
    assert r.info()["redis_version"] and r.client_info()["id"] > 0
    assert r.config_get("maxmemory")["maxmemory"] == "0"
    r.close()


for protocol in (2, 3):
    run(sys.argv[1], protocol)
print("ok")
