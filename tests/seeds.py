"""Seeds of long tests: a few run always, and all of them with the slow tests."""

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(count: int, *, always: int) -> Sequence[Any]:
    return [*range(always), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(always, count)]]
