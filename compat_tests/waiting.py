"""Waits for a condition with a deadline, so that no test sleeps and hopes."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 10, what: object = "") -> None:
    """Checks the condition until it holds, and raises AssertionError after the deadline.

    The error shows `what` as it is then, so that it may be a list to which the condition appends what it sees.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or condition.__name__}")
        time.sleep(0.01)
