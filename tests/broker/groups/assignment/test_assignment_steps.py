from random import Random

import pytest

from tailrace.broker.groups.assignment.assignment_steps import SORTED_PER_STEP, sort_in_steps
from tailrace.protocol.steps import finish


@pytest.mark.parametrize("count", [0, 1, SORTED_PER_STEP, SORTED_PER_STEP + 1, 3 * SORTED_PER_STEP + 7])
def test_steps_sort_as_sorted_does(count: int) -> None:
    random = Random(count)
    items = [(random.randrange(100), number) for number in range(count)]
    by_first = lambda item: item[0]  # noqa: E731
    assert finish(sort_in_steps(items, by_first)) == sorted(items, key=by_first)


def test_no_step_of_a_sort_is_large() -> None:
    steps = list(sort_in_steps(range(5 * SORTED_PER_STEP, 0, -1), lambda number: number))
    assert max(steps) == SORTED_PER_STEP
    assert sum(steps) == 10 * SORTED_PER_STEP
