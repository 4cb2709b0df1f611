"""What the tests with Upstash's SDKs for Python share: named cases that all run whatever the others do."""

import asyncio
import inspect
import os
import sys
import time
import traceback


def run(cases) -> None:
    """Runs the cases one after the other and says how each ended; the last line is `ok` when all went well."""
    failed = 0
    # Families of cases that are known to differ on the server that the REST API is in front of.
    different = tuple(name for name in os.environ.get("DIFFERENT", "").split(";") if name)
    for name in different:
        assert any(case.__name__.startswith(name) for case in cases), f"{name} is no case"
    for case in cases:
        if case.__name__.startswith(different):
            print(f"case {case.__name__}: not run, known to differ")
            continue
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
