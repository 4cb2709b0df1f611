"""redis-py as for one server, in RESP2 and RESP3, with the argument PORT."""

import sys
import threading

import redis

port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True)
    client.flushall()
    for n in range(200):
        assert client.set(f"key:{n}", f"value:{n}")
    names = [f"key:{n}" for n in range(200)]
    assert client.mget(names) == [f"value:{n}" for n in range(200)]
    assert client.dbsize() == 200
    assert sorted(client.scan_iter("key:*", count=7)) == sorted(names)
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.get(name)
    assert pipeline.execute() == [f"value:{n}" for n in range(200)]
    client.hset("hash", mapping={"a": 1, "b": 2})
    assert client.hgetall("hash") == {"a": "1", "b": "2"}
    client.zadd("zset", {"a": 1.5})
    assert client.zscore("zset", "a") == 1.5

    def increment(pipe):
        value = int(pipe.get("counter") or 0)
        pipe.multi()
        pipe.set("counter", value + 1)

    def work():
        own = redis.Redis(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True)
        for _ in range(30):
            own.transaction(increment, "counter")

    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.get("counter") == "90", client.get("counter")

    script = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert [script(keys=[f"s{n}"], args=[2]) for n in range(20)] == [2] * 20
    with client.lock("lock", timeout=5):
        assert client.exists("lock")
    subscriber = client.pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("channel")
    subscriber.psubscribe("chan*")
    assert subscriber.get_message(timeout=2) is None or True
    client.publish("channel", "hello")
    kinds = set()
    while len(kinds) < 2:
        message = subscriber.get_message(timeout=5)
        if message:
            assert message["data"] == "hello"
            kinds.add(message["type"])
    assert kinds == {"message", "pmessage"}
    subscriber.close()
    client.rpush("list", "x")
    assert client.blpop("list", timeout=1) in (("list", "x"), ["list", "x"])
    assert client.delete(*names) == 200
    client.close()
print("ok")
