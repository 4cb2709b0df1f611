"""redis-py Cluster, in RESP2 and RESP3, with the arguments PORT KEYS. It finds the other nodes and routes by itself."""

import sys

from redis.cluster import RedisCluster

port, count = int(sys.argv[1]), int(sys.argv[2])
for protocol in (2, 3):
    cluster = RedisCluster(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True)
    assert len(cluster.get_primaries()) == 3
    for n in range(count):
        assert cluster.set(f"key:{n}", f"value:{n}")
    for n in range(count):
        assert cluster.get(f"key:{n}") == f"value:{n}"
    pipeline = cluster.pipeline()
    for n in range(count):
        pipeline.get(f"key:{n}")
    assert pipeline.execute() == [f"value:{n}" for n in range(count)]
    assert cluster.eval("return redis.call('get', KEYS[1])", 1, "key:7") == "value:7"
    sizes = [cluster.dbsize(target_nodes=node) for node in cluster.get_primaries()]
    assert sum(sizes) == count and min(sizes) > 0, sizes
    cluster.close()
print("ok")
