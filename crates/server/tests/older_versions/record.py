"""Writes a database with an older version of the server, for the test beside this file.

    python3 record.py KEYSTEAD DIRECTORY

KEYSTEAD is the binary of that version. The database has every type of value. The first part is archived; the second is only in the
journal, because the server is killed before it archives again. `replies.txt` has what that version itself returned for everything
that the test reads. Journal files are stored without the zeros at their end.
"""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

YEAR_2100_MS = 4102444800000
LIMITS = {
    "gcra": "limit = 5\nperiodMs = '36500d'",
    "bucket": "kind = 'tokenBucket'\ncapacity = 10\nrefillPerSec = 0.000000001",
    "fixed": "kind = 'fixedWindow'\nlimit = 6\nwindowMs = '36500d'",
    "sliding": "kind = 'slidingWindow'\nlimit = 7\nwindowMs = '36500d'",
    "log": "kind = 'slidingWindowLog'\nlimit = 8\nwindowMs = '36500d'",
    "quota": "kind = 'quota'\nlimit = 9\nresetCadence = 'fixed'\nperiodMs = '36500d'",
    "slots": "kind = 'concurrency'\nlimit = 4\nleaseMs = '36500d'",
}
SETTINGS = "".join(f"[limit.{name}]\n{fields}\nfail = 'closed'\n\n" for name, fields in LIMITS.items())
LIBRARY = "#!lua name=old\nredis.register_function('twice', function(keys, args) return 2 * args[1] end)"
LATER_LIBRARY = "#!lua name=later\nredis.register_function('thrice', function(keys, args) return 3 * args[1] end)"
LARGE = range(150)

ARCHIVED = [
    "SET string hello",
    "SET empty ''",
    "SET counter 41",
    "SET \\x00binary\\xff \\x00\\x01\\xfe\\xff",
    f"SET long {'0123456789' * 30}",
    "SET a-name-of-more-than-twenty-three-bytes value-of-more-than-twenty-three-bytes",
    f"SET expires soon PXAT {YEAR_2100_MS}",
    "SETBIT bits 100 1",
    "PFADD visitors ada bob eve",
    "HSET hash name Ada visits 1 gone x",
    "HSET fields a 1 b 2",
    f"HPEXPIREAT fields {YEAR_2100_MS} FIELDS 1 a",
    "HSET large:hash " + " ".join(f"field{n} value{n}" for n in LARGE),
    "RPUSH list a b c d e",
    "RPUSH large:list " + " ".join(f"item{n}" for n in LARGE),
    "SADD set ada bob eve",
    "SADD numbers 3 1 2",
    "SADD large:set " + " ".join(f"member{n}" for n in LARGE),
    "ZADD zset 1.5 ada -0 bob inf eve 1e-300 tiny",
    "ZADD large:zset " + " ".join(f"{n} member{n}" for n in LARGE),
    "GEOADD places 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    "XADD stream 1-1 f 1",
    "XADD stream 2-1 f 2 g 2",
    "XADD stream 3-1 f 3",
    "XADD stream 4-1 f 4",
    "XDEL stream 3-1",
    "XGROUP CREATE stream readers 0",
    "XREADGROUP GROUP readers one COUNT 2 STREAMS stream >",
    'JSON.SET json $ {"name":"Ada","n":[1,2.50,9007199254740993]}',
    "CL.THROTTLE throttle 15 30 3153600000",
    "SET deleted x",
    "SET renamed x",
    "SET overwritten x",
    "HSET retyped f v",
]
IN_JOURNAL = [
    "SET only-in-the-journal string",
    "INCR counter",
    "APPEND string -and-more",
    "DEL deleted",
    "SET in-the-place-of-deleted y",
    "RENAME renamed new-name",
    "SET overwritten y KEEPTTL",
    "SET retyped string",
    f"PEXPIREAT long {YEAR_2100_MS + 1}",
    "PERSIST expires",
    "HSET hash visits 2 more m",
    "HDEL hash gone",
    "HPERSIST fields FIELDS 1 a",
    f"HPEXPIREAT fields {YEAR_2100_MS + 2} FIELDS 1 b",
    "HDEL large:hash field0",
    "LPUSH list front",
    "LINSERT list BEFORE c between",
    "LREM list 1 d",
    "LSET list -1 last",
    "LTRIM large:list 1 -2",
    "SADD set new",
    "SREM set bob",
    "SADD numbers text",
    "SREM large:set member0",
    "ZADD zset 2.5 ada 3 new",
    "ZREM zset tiny",
    "ZREM large:zset member0",
    "XADD stream 5-1 f 5",
    "XACK stream readers 1-1",
    "XREADGROUP GROUP readers two COUNT 1 STREAMS stream >",
    "XDEL stream 2-1",
    "XADD journal:stream 1-1 f 1",
    "JSON.SET json $.name \"Eve\"",
    'JSON.SET journal:json $ {"a":null}',
    "HSET journal:hash f v",
    "RPUSH journal:list a b",
    "SADD journal:set a",
    "ZADD journal:zset 0.1 a",
    "PFADD visitors zoe",
    "CL.THROTTLE throttle 15 30 3153600000",
]
DOCUMENT = "/kv/user:1"
READS = [
    "sorted KEYS *",
    "redis DBSIZE",
    *(f"redis GET {key}" for key in (
        "string", "empty", "counter", "\\x00binary\\xff", "long", "a-name-of-more-than-twenty-three-bytes", "expires", "deleted",
        "in-the-place-of-deleted", "renamed", "new-name", "overwritten", "retyped", "only-in-the-journal",
    )),
    *(f"redis PEXPIRETIME {key}" for key in ("expires", "long", "string", "user:1")),
    "redis BITPOS bits 1",
    "redis PFCOUNT visitors",
    "sorted HGETALL hash",
    "sorted HGETALL fields",
    "redis HPEXPIRETIME fields FIELDS 2 a b",
    "sorted HGETALL large:hash",
    "redis LRANGE list 0 -1",
    "redis LRANGE large:list 0 -1",
    "sorted SMEMBERS set",
    "sorted SMEMBERS numbers",
    "sorted SMEMBERS large:set",
    "redis ZRANGE zset 0 -1 WITHSCORES",
    "redis ZRANGE large:zset 0 -1 WITHSCORES",
    "redis GEOPOS places Palermo Catania",
    "redis XRANGE stream - +",
    "redis XINFO GROUPS stream",
    "redis XPENDING stream readers",
    "redis XRANGE journal:stream - +",
    "redis JSON.GET json",
    "redis JSON.GET journal:json",
    "sorted HGETALL journal:hash",
    "redis LRANGE journal:list 0 -1",
    "redis SMEMBERS journal:set",
    "redis ZRANGE journal:zset 0 -1 WITHSCORES",
    "redis TYPE throttle",
    "redis FCALL twice 0 21",
    "redis FCALL thrice 0 14",
    f"http {DOCUMENT}",
    "http /kv/user:2",
    "http /kv/user:3",
    *(f"limit {name}" for name in LIMITS),
]


def words(line):
    parts = [b"" if word == "''" else word.encode("latin-1") for word in line.split(" ")]
    return [re.sub(rb"\\x(..)", lambda byte: bytes([int(byte[1], 16)]), part) for part in parts]


class Redis:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.file = self.socket.makefile("rb")

    def send(self, parts):
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.socket.sendall(request)

    def ask(self, parts):
        self.send(parts)
        return self.receive()

    def receive(self):
        """The reply in the form of the tests' client."""
        line = self.file.readline()[:-2]
        mark, text = line[:1], line[1:].decode()
        if mark == b"$" and text != "-1":
            value = self.file.read(int(text) + 2)[:-2]
            return escaped(value) or "''"
        if mark == b"*" and text != "-1":
            return "[" + " ".join(self.receive() for _ in range(int(text))) + "]"
        return mark.decode() + text


def escaped(value):
    plain = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(plain.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in value)


class Server:
    def __init__(self, binary, folder):
        (self.folder, self.process) = (folder, None)
        arguments = [binary, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--data", "data"]
        self.process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
        ports = {}
        while len(ports) < 2:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("the server did not start")
            found = re.match(r"\s+(http|resp)\s+\S+:(\d+)", line)
            if found:
                ports[found[1]] = int(found[2])
        (self.port, self.redis) = (ports["http"], Redis(ports["resp"]))

    def http(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body and body.encode(), method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read().decode()

    def revisions(self):
        text = self.http("GET", "/metrics")
        return [int(re.search(rf'keystead_shard_{name}_revision{{.*?}} (\d+)', text)[1]) for name in ("durable", "archived")]

    def run(self, line):
        reply = self.redis.ask(words(line))
        if reply.startswith("-"):
            sys.exit(f"{line}: {reply}")


def limit(server, name, times):
    for _ in range(times):
        if name == "slots":
            server.http("POST", "/limit/slots/acquire", '{"key":"ada"}')
        else:
            server.http("POST", f"/limit/{name}", '{"key":"ada"}')


def fill(server):
    for line in ARCHIVED:
        server.run(line)
    server.redis.ask([b"FUNCTION", b"LOAD", LIBRARY.encode()])
    server.http("PUT", DOCUMENT, '{"name":"Ada","n":9007199254740993}')
    server.http("PATCH", DOCUMENT, '{"visits":1}')
    server.http("PUT", f"/kv/user:2?expiresAt={YEAR_2100_MS}", '["kept"]')
    for name in LIMITS:
        limit(server, name, 1)
    while len(set(server.revisions())) > 1:
        time.sleep(0.05)
    # From here on nothing may be archived.
    for line in IN_JOURNAL:
        server.run(line)
    server.redis.ask([b"FUNCTION", b"LOAD", LATER_LIBRARY.encode()])
    server.http("PATCH", DOCUMENT, '{"visits":2}')
    server.http("PUT", "/kv/user:3", '"only in the journal"')
    for name in LIMITS:
        limit(server, name, 1)


def read(server, line):
    kind, request = line.split(" ", 1)
    if kind == "limit":
        decision = json.loads(server.http("GET", f"/limit/{request}/ada"))
        return f"{decision['remaining']} of {decision['limit']}"
    if kind == "http":
        return server.http("GET", request).strip()
    reply = server.redis.ask(words(request))
    return " ".join(sorted(reply.strip("[]").split(" "))) if kind == "sorted" else reply


def archived_revision(data):
    """Of a copy: opening it here would run SQLite's own recovery."""
    with tempfile.TemporaryDirectory() as copy:
        for name in ("archive.sqlite", "archive.sqlite-wal"):
            shutil.copy(f"{data}/shard-0/{name}", copy)
        with sqlite3.connect(f"{copy}/archive.sqlite") as database:
            rows = dict(database.execute("SELECT name, value FROM meta WHERE name IN ('schema', 'revision')"))
    return rows


def store(data, target):
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(f"{target}/shard-0/journal")
    for name in ("database.json", "functions.dump", "shard-0/archive.sqlite", "shard-0/archive.sqlite-wal"):
        shutil.copy(f"{data}/{name}", f"{target}/{name}")
    for name in os.listdir(f"{data}/shard-0/journal"):
        with open(f"{data}/shard-0/journal/{name}", "rb") as journal:
            content = journal.read().rstrip(b"\0")
        if content and name.endswith(".journal"):
            with open(f"{target}/shard-0/journal/{name}", "wb") as journal:
                journal.write(content)


def main(binary, target):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/keystead.toml", "w") as file:
            file.write(SETTINGS)
        server = Server(os.path.abspath(binary), folder)
        try:
            fill(server)
            replies = [f"{line}\n  {read(server, line)}\n" for line in READS]
            durable, _ = server.revisions()
        finally:
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        rows = archived_revision(f"{folder}/data")
        print(f"durable {durable}, in the archive {rows}")
        if rows["revision"] >= durable:
            sys.exit("it was archived before the kill: run this again")
        store(f"{folder}/data", target)
        shutil.copy(f"{folder}/keystead.toml", target)
        with open(f"{target}/replies.txt", "w") as file:
            file.write("".join(replies))


if __name__ == "__main__":
    main(*sys.argv[1:])
