"""Waits for a condition with a deadline, so that no test sleeps and hopes."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 10, what: str = "") -> None:
    """Checks the condition until it holds, and raises AssertionError after the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition.__name__}")
        time.sleep(0.01)
