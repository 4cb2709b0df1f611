"""What the tests with Upstash's SDKs for Python share: named cases that all run whatever the others do."""

import asyncio
import inspect
import sys
import time
import traceback


def run(cases) -> None:
    """Runs the cases one after the other and says how each ended; the last line is `ok` when all went well."""
    failed = 0
    for case in cases:
        begun = time.monotonic()
        try:
            if inspect.iscoroutinefunction(case):
                asyncio.run(case())
            else:
                case()
            print(f"case {case.__name__}: ok, {(time.monotonic() - begun) * 1000:.0f} ms")
        except Exception:
            failed += 1
            print(f"case {case.__name__}: FAILED")
            traceback.print_exc()
    if failed == 0:
        print("ok")
    sys.exit(1 if failed else 0)


def fails_with(words, call, *args, **kwargs) -> None:
    """Asserts that a call fails with an UpstashError of these words."""
    from upstash_redis.errors import UpstashError

    try:
        call(*args, **kwargs)
    except UpstashError as error:
        assert words in str(error), error
        return
    raise AssertionError(f"no error: {words}")
