"""redis-py Cluster with its defaults, with the arguments PORT COUNTERS: increments counters until its input ends, and fails at any error."""

import sys
import threading

from redis.cluster import RedisCluster

port, count = int(sys.argv[1]), int(sys.argv[2])
cluster = RedisCluster(host="127.0.0.1", port=port, decode_responses=True)
values = [0] * count
stops = threading.Event()


def read_input():
    sys.stdin.read()
    stops.set()


def increment():
    for n in range(count):
        value = cluster.incr(f"redis-py:{n}")
        assert value == values[n] + 1, (n, value, values[n])
        values[n] = value
    pipeline = cluster.pipeline()
    for n in range(count):
        pipeline.incr(f"redis-py:{n}")
    for n, value in enumerate(pipeline.execute()):
        assert value == values[n] + 1, (n, value, values[n])
        values[n] = value


threading.Thread(target=read_input, daemon=True).start()
increment()
print("started", flush=True)
while not stops.is_set():
    increment()
for n, value in enumerate(values):
    assert cluster.get(f"redis-py:{n}") == str(value)
cluster.close()
print(sum(values))
print("ok")
