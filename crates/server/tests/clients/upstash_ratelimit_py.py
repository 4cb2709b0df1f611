"""upstash-ratelimit: every algorithm admits exactly what it should, in threads and in tasks."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from upstash import run
from upstash_ratelimit import FixedWindow, Ratelimit, SlidingWindow, TokenBucket
from upstash_ratelimit.asyncio import Ratelimit as AsyncRatelimit
from upstash_redis import Redis
from upstash_redis.asyncio import Redis as AsyncRedis

LIMIT = 10
# Windows of a thousand seconds do not end while a case runs.
LIMITERS = {
    "fixed": lambda: FixedWindow(max_requests=LIMIT, window=1000),
    "sliding": lambda: SlidingWindow(max_requests=LIMIT, window=1000),
    "bucket": lambda: TokenBucket(max_tokens=LIMIT, refill_rate=LIMIT, interval=1000),
}
redis = Redis.from_env()
numbers = count()


def make(limiter):
    return Ratelimit(redis=redis, limiter=limiter, prefix=f"py{next(numbers)}")


def one_after_the_other():
    for name, limiter in LIMITERS.items():
        ratelimit = make(limiter())
        for n in range(1, LIMIT + 1):
            response = ratelimit.limit("me")
            assert (response.allowed, response.limit, response.remaining) == (True, LIMIT, LIMIT - n), (name, response)
            assert ratelimit.get_remaining("me") == LIMIT - n, name
        for _ in range(3):
            response = ratelimit.limit("me")
            assert (response.allowed, response.remaining) == (False, 0), (name, response)
        assert time.time() < ratelimit.get_reset("me") <= time.time() + 1000, name
        assert ratelimit.get_remaining("nobody") == LIMIT, name
        assert ratelimit.limit("other").remaining == LIMIT - 1, name


def many_threads_at_a_time():
    for name, limiter in LIMITERS.items():
        ratelimit = make(limiter())
        with ThreadPoolExecutor(20) as threads:
            responses = list(threads.map(lambda _: ratelimit.limit("me"), range(100)))
        left = sorted(response.remaining for response in responses if response.allowed)
        assert left == list(range(LIMIT)), (name, left)


async def many_tasks_at_a_time():
    async with AsyncRedis.from_env() as redis:
        for name, limiter in LIMITERS.items():
            ratelimit = AsyncRatelimit(redis=redis, limiter=limiter(), prefix=f"py{next(numbers)}")
            responses = await asyncio.gather(*(ratelimit.limit("me") for _ in range(100)))
            left = sorted(response.remaining for response in responses if response.allowed)
            assert left == list(range(LIMIT)), (name, left)
            assert await ratelimit.get_remaining("me") == 0, name
            assert await ratelimit.get_remaining("other") == LIMIT, name
            assert await ratelimit.get_reset("me") > time.time(), name


def a_rate_of_several():
    for name, limiter in LIMITERS.items():
        ratelimit = make(limiter())
        assert ratelimit.limit("me", rate=4).remaining == LIMIT - 4, name
        assert ratelimit.limit("me", rate=6).remaining == 0, name
        assert not ratelimit.limit("me").allowed, name


def the_next_window_starts_afresh():
    ratelimit = make(FixedWindow(max_requests=2, window=1))
    time.sleep(1.02 - time.time() % 1)
    assert [ratelimit.limit("me").allowed for _ in range(4)] == [True, True, False, False]
    time.sleep(1.02 - time.time() % 1)
    assert [ratelimit.limit("me").allowed for _ in range(4)] == [True, True, False, False]


def a_bucket_fills_again():
    ratelimit = make(TokenBucket(max_tokens=3, refill_rate=1, interval=1))
    assert [ratelimit.limit("me").allowed for _ in range(4)] == [True, True, True, False]
    time.sleep(1.05)
    assert [ratelimit.limit("me").allowed for _ in range(2)] == [True, False]


def it_waits_until_it_may_and_not_longer():
    ratelimit = make(FixedWindow(max_requests=1, window=1))
    time.sleep(1.02 - time.time() % 1)
    begun = time.monotonic()
    assert ratelimit.limit("me").allowed
    assert ratelimit.block_until_ready("me", 5).allowed
    assert 0.8 < time.monotonic() - begun < 3
    slow = make(FixedWindow(max_requests=1, window=1000))
    slow.limit("me")
    assert not slow.block_until_ready("me", 0.3).allowed


async def it_waits_in_tasks_too():
    async with AsyncRedis.from_env() as redis:
        ratelimit = AsyncRatelimit(redis=redis, limiter=FixedWindow(max_requests=1, window=1), prefix="pywait")
        assert (await ratelimit.limit("me")).allowed
        assert (await ratelimit.block_until_ready("me", 5)).allowed


run(
    [
        one_after_the_other,
        many_threads_at_a_time,
        many_tasks_at_a_time,
        a_rate_of_several,
        the_next_window_starts_afresh,
        a_bucket_fills_again,
        it_waits_until_it_may_and_not_longer,
        it_waits_in_tasks_too,
    ]
)
