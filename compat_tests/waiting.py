"""Waiting for a condition with a deadline: no test sleeps and hopes."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 10, what: str = "") -> None:
    """Asks again and again until the condition holds; an AssertionError once the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition.__name__}")
        time.sleep(0.01)
