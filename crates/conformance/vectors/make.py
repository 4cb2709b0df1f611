#!/usr/bin/env python3
"""Calculates the decision vectors from the formulas of the strategies (docs/limits.md), without any code of Keystead.

    python3 make.py        writes *.ndjson beside this file

Python's floats are IEEE doubles, so the bits are the same if the formulas are. Times only move forward: what a clock that jumps
back means is not in the formulas, and is tested by comparing stores with memory.
"""

import json
import math
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path


def floor(x):
    return math.floor(x)


def ceil(x):
    return math.ceil(x)


def decision(allowed, limit, remaining, reset_at, retry_after_ms, **more):
    return {"allowed": allowed, "limit": limit, "remaining": max(0, remaining), "resetAt": reset_at,
            "retryAfterMs": 0 if allowed else max(1, retry_after_ms), **more}


def gcra(policy):
    limit, period = policy["limit"], policy["periodMs"]
    burst = policy.get("burst", limit)
    t = period / limit
    tau = t * burst

    def check(state, now, cost):
        tat = max(state if state is not None else float(now), float(now))
        new = tat + t * cost
        allow_at = new - tau
        if now < allow_at:
            return state, decision(False, burst, floor((tau - (tat - now)) / t), ceil(tat), ceil(allow_at - now))
        return new, decision(True, burst, floor((tau - (new - now)) / t), ceil(new), 0)

    return check


def token_bucket(policy):
    capacity, rate = policy["capacity"], policy["refillPerSec"] / 1000

    def check(state, now, cost):
        tokens, last = state or (float(capacity), now)
        tokens = min(float(capacity), tokens + max(0, now - last) * rate)
        if tokens >= cost:
            left = tokens - cost
            return (left, now), decision(True, capacity, floor(left), now + ceil((capacity - left) / rate), 0)
        return state, decision(False, capacity, floor(tokens), now + ceil((capacity - tokens) / rate),
                               ceil((cost - tokens) / rate))

    return check


def counted(limit, window_of):
    """Counting in windows [start, end) that `window_of` finds."""

    def check(state, now, cost):
        start, end = window_of(now)
        count = state[1] if state and state[0] == start else 0
        if count + cost <= limit:
            return (start, count + cost), decision(True, limit, limit - count - cost, end, 0)
        return state, decision(False, limit, limit - count, end, end - now)

    return check


def fixed_window(policy):
    width = policy["windowMs"]
    return counted(policy["limit"], lambda now: (now // width * width, now // width * width + width))


def sliding_window(policy):
    limit, window, slots = policy["limit"], policy["windowMs"], policy.get("buckets", 10)
    w = window / slots

    def check(state, now, cost):
        counts = state or {}
        c = floor(now / w)
        elapsed = max(0.0, now - c * w)
        weight = min(1.0, max(0.0, (w - elapsed) / w))
        full = sum(counts.get(tick, 0) for tick in range(c - slots + 1, c + 1))
        oldest = counts.get(c - slots, 0)
        estimate = full + oldest * weight
        projected = estimate + cost
        reset_at = ceil((c + 1) * w + window)
        if projected <= limit:
            counts = {tick: n for tick, n in counts.items() if tick >= c - slots}
            counts[c] = counts.get(c, 0) + cost
            return counts, decision(True, limit, floor(limit - projected), reset_at, 0)
        over = projected - limit
        if oldest > 0 and over <= oldest * weight:
            wait = ceil(over * w / oldest)
        else:
            wait = ceil((c + 1) * w - now)
        return state, decision(False, limit, floor(limit - estimate), reset_at, wait)

    return check


def sliding_window_log(policy):
    limit, window = policy["limit"], policy["windowMs"]

    def check(state, now, cost):
        live = [at for at in state or [] if at > now - window]
        n = len(live)
        if n + cost <= limit:
            live = live + [now] * cost
            return live, decision(True, limit, limit - n - cost, live[0] + window, 0)
        if n == 0:
            return state, decision(False, limit, limit, now + window, window)
        k = min(max(n + cost - limit, 1), n)
        return state, decision(False, limit, limit - n, live[0] + window, live[k - 1] + window - now)

    return check


def quota(policy):
    cadence, offset = policy["resetCadence"], timedelta(minutes=policy.get("offsetMinutes", 0))
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)

    def ms(moment):
        return round((moment - offset - epoch) / timedelta(milliseconds=1))

    def window_of(now):
        local = epoch + timedelta(milliseconds=now) + offset
        day = local.replace(hour=0, minute=0, second=0, microsecond=0)
        if cadence == "calendar-day":
            return ms(day), ms(day + timedelta(days=1))
        if cadence == "calendar-week":
            since = ((day.weekday() + 1) % 7 - policy.get("weekStartsOn", 1)) % 7
            start = day - timedelta(days=since)
            return ms(start), ms(start + timedelta(days=7))
        if cadence == "calendar-month":
            start = day.replace(day=1)
            return ms(start), ms((start + timedelta(days=32)).replace(day=1))
        period, anchor = policy["periodMs"], policy.get("anchor", 0)
        start = anchor + (now - anchor) // period * period
        return start, start + period

    return counted(policy["limit"], window_of)


def leaky_bucket(policy):
    t, most = 1000 / policy["ratePerSec"], policy["maxQueueMs"]

    def free(delay):
        """Single units that can still queue."""
        return 0 if delay > most else floor((most - delay) / t) + 1

    def check(state, now, cost):
        departure = max(state if state is not None else float(now), float(now))
        delay = departure - now
        if delay > most:
            return state, decision(False, free(0), 0, ceil(departure), ceil(delay - most))
        after = departure + t * cost
        return after, decision(True, free(0), free(after - now), ceil(after), 0, delayMs=ceil(delay))

    return check


POLICIES = {
    "gcra": (gcra, [
        {"limit": 10, "periodMs": 60000},
        {"limit": 3, "periodMs": 1000, "burst": 7},
        {"limit": 7, "periodMs": 86400000, "burst": 1},
        {"limit": 900000, "periodMs": 1000, "burst": 5},
    ]),
    "tokenBucket": (token_bucket, [
        {"capacity": 10, "refillPerSec": 1},
        {"capacity": 5, "refillPerSec": 0.3},
        {"capacity": 1000, "refillPerSec": 333.25},
    ]),
    "fixedWindow": (fixed_window, [
        {"limit": 5, "windowMs": 1000},
        {"limit": 12, "windowMs": 60000},
        {"limit": 3, "windowMs": 7},
    ]),
    "slidingWindow": (sliding_window, [
        {"limit": 10, "windowMs": 1000},
        {"limit": 10, "windowMs": 60000, "buckets": 1},
        {"limit": 25, "windowMs": 10007, "buckets": 7},
    ]),
    "slidingWindowLog": (sliding_window_log, [
        {"limit": 5, "windowMs": 1000},
        {"limit": 20, "windowMs": 60000},
        {"limit": 2, "windowMs": 50},
    ]),
    "quota": (quota, [
        {"limit": 10, "resetCadence": "calendar-day"},
        {"limit": 12, "resetCadence": "calendar-week", "weekStartsOn": 0, "offsetMinutes": -210},
        {"limit": 15, "resetCadence": "calendar-month", "offsetMinutes": 840},
        {"limit": 6, "resetCadence": "fixed", "periodMs": 90000, "anchor": 12345},
    ]),
    "leakyBucket": (leaky_bucket, [
        {"ratePerSec": 2, "maxQueueMs": 2000},
        {"ratePerSec": 0.7, "maxQueueMs": 5000},
        {"ratePerSec": 30, "maxQueueMs": 0},
    ]),
}


def span_ms(kind, policy):
    """The time in which a limit is replenished, about."""
    if kind == "tokenBucket":
        return policy["capacity"] / policy["refillPerSec"] * 1000
    if kind == "leakyBucket":
        return max(policy["maxQueueMs"], 4000 / policy["ratePerSec"])
    if kind == "quota":
        days = {"calendar-day": 1, "calendar-week": 7, "calendar-month": 31}
        return policy.get("periodMs") or days[policy["resetCadence"]] * 86400000
    return policy.get("periodMs") or policy["windowMs"]


def requests(rng, kind, policy):
    now, limit = 1700000000000 + rng.randrange(10**10), policy.get("limit", policy.get("capacity", 5))
    burst = min(policy.get("burst", limit), limit, 1000)
    for _ in range(40):
        if rng.random() < 0.7:
            now += rng.randrange(max(1, int(span_ms(kind, policy) / (2 * min(limit, 20)))) + 1)
        elif rng.random() < 0.3:
            now += int(span_ms(kind, policy) * rng.random() * 2)
        most = max(1, burst // 2)
        cost = 1 if rng.random() < 0.5 else 1 + rng.randrange(min(most, 1000))
        yield now, rng.choice(["ada", "ada", "ada", "bob"]), burst + 1 if rng.random() < 0.05 else cost


def main():
    for kind, (strategy, policies) in POLICIES.items():
        rng, lines = random.Random(kind), []
        for policy in policies:
            policy = {"kind": kind, **policy}
            lines.append(json.dumps({"policy": policy}, separators=(",", ":")))
            check, states = strategy(policy), {}
            for now, key, cost in requests(rng, kind, policy):
                states[key], made = check(states.get(key), now, cost)
                line = {"now": now, "key": key, "cost": cost, "decision": made}
                lines.append(json.dumps(line, separators=(",", ":")))
        Path(__file__).with_name(f"{kind}.ndjson").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
