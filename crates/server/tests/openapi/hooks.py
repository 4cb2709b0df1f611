"""Additions to the OpenAPI document for schemathesis, so that its requests get further than random words would.

Everything is chosen by what was generated, so the same seed sends the same requests.
"""

import itertools
import json
import os
import re
import threading
import time
import urllib.request
import zlib

import schemathesis

# The token of those who may write, where there is one.
TOKEN = os.environ.get("ADMIN_TOKEN")
# Whether responses are streams of events.
EVENTS = "EVENTS" in os.environ

# They stop or hold up the server, or change it for all clients; and as paths the last are routes of their own.
NOT_THESE = {"client", "config", "debug", "shutdown", "acl", "script", "function"}
NOT_THESE |= {"monitor", "subscribe", "psubscribe"}
# Of limits.toml.
POLICIES = ["login", "units", "jobs", "flow"]
KEYS = ["s", "n", "h", "l", "set", "z", "x", "j", "bits", "nothing"]
FILL = [
    ["SET", "s", "text"],
    ["SET", "n", 7],
    ["HSET", "h", "f", "v"],
    ["RPUSH", "l", "a", "b"],
    ["SADD", "set", "a", "b"],
    ["ZADD", "z", 1, "a", 2, "b"],
    ["XADD", "x", "*", "f", "v"],
    ["JSON.SET", "j", "$", '{"a":[1,2]}'],
    ["SETBIT", "bits", 7, 1],
]


def ask(*commands):
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    request = urllib.request.Request(
        os.environ["SERVER_URL"] + "/pipeline", json.dumps(commands).encode(), headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


ask(*FILL)
NAMES = [name for name in ask(["COMMAND", "LIST"])[0].get("result", ["get"]) if name not in NOT_THESE]
COUNTER = itertools.count()

# A change for each kind of event in a stream of documents.
CHANGES = [
    ["JSON.SET", "j", "$", '{"a":[1,2]}'],
    ["EXPIRE", "j", 100],
    ["SET", "s", "text"],
    ["HSET", "h", "f", "v"],
    ["DEL", "n"],
    ["FLUSHALL"],
]


def change_all_the_time():
    while True:
        ask(*CHANGES)
        time.sleep(0.02)


if EVENTS:
    threading.Thread(target=change_all_the_time, daemon=True).start()


@schemathesis.hook
def before_load_schema(context, raw_schema):
    # A server without a token asks for none, and the document says so. This one has a token, so it must ask.
    if TOKEN is None:
        return
    for path in raw_schema["paths"].values():
        for operation in path.values():
            operation["security"] = [one for one in operation["security"] if one]


@schemathesis.deserializer("application/octet-stream")
def resp2(context, response):
    return response.content.decode("latin-1")


def chosen(words, command, part):
    """One of these by what was generated; now and then what was generated."""
    number = zlib.crc32(repr(command[part:]).encode())
    return command[part] if number % 4 == 0 else words[number // 4 % len(words)]


def real(command):
    """The command with a real name, and a key that is there."""
    return [
        *(chosen(words, command, part) for part, words in enumerate((NAMES, KEYS)) if part < len(command)),
        *command[2:],
    ]


DURATION = re.compile("([0-9]+(ms|s|m|h|d|w))+")


def agree(case):
    """Leaves out, most of the time, what contradicts something else or what is stored, so that documents change at all."""
    query, headers = case.query, case.headers
    number = zlib.crc32(repr((sorted(query.items()), case.body)).encode())
    if number % 4 == 0:
        return
    if "ttl" in query or number % 2:
        query.pop("expiresAt", None)
    elif "expiresAt" in query:
        query["expiresAt"] = 2**62 + number
    if "wait" not in query:
        query.pop("sinceVersion", None)
    if EVENTS:
        # A stream takes no other, and ids come from another stream.
        case.query = {name: value for name, value in query.items() if name == "prefix" and number % 2}
        headers.pop("last-event-id", None)
    query.pop("ifVersion", None)
    headers.pop("if-match", None)
    headers.pop("if-none-match", None)


def admit(body):
    """Policies that are there, and commands that exist, so that something is decided and written at all."""
    for check in body.get("checks", []):
        check["policy"] = chosen(POLICIES, [check["policy"]], 0)
    then = body.get("then") or {}
    if "commands" in then:
        then["commands"] = [real(command) for command in then["commands"]]


@schemathesis.hook
def before_call(context, case, kwargs):
    # Whoever waits for a change hears of none, because requests come one after the other.
    if DURATION.fullmatch(str(case.query.get("wait", ""))):
        case.query["wait"] = "20ms"
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    name = case.headers.get("idempotency-key")
    # Schemathesis gives the same name to many requests, and hears 422 ever after.
    if name and len(name) < 200 and zlib.crc32(repr(case.body).encode()) % 4:
        case.headers["idempotency-key"] = f"{name}{next(COUNTER)}"
    parameters = case.path_parameters
    if case.path.startswith("/kv"):
        agree(case)
        if "key" in parameters:
            parameters["key"] = chosen(KEYS, [parameters["key"]], 0)
    elif case.path.startswith("/limit"):
        if "policy" in parameters:
            parameters["policy"] = chosen(POLICIES, [parameters["policy"]], 0)
        if isinstance(case.body, dict):
            admit(case.body)
    elif "command" in parameters:
        words = [parameters[part] for part in ("command", "first", "second") if part in parameters]
        parameters.update(zip(("command", "first", "second"), real(words)))
    elif case.path == "/" and isinstance(case.body, list):
        case.body = real(case.body)
    elif case.path in ("/pipeline", "/multi-exec") and isinstance(case.body, list):
        case.body = [real(command) for command in case.body]
