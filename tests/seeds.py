"""Seeds of tests that take long: a few of them always, all of them with the slow tests."""

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(count: int, *, always: int) -> Sequence[Any]:
    return [*range(always), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(always, count)]]
