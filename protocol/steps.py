"""Work in small steps is a generator: others are served between its steps, and it returns the result at its end."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finish(steps: Generator[object, None, Result]) -> Result:
    """Takes all steps that are left, in one go, and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
