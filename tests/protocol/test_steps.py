from collections.abc import Generator

from tailrace.protocol.steps import finish


def test_finishing_takes_all_steps_that_are_left() -> None:
    taken = []

    def work() -> Generator[int, None, str]:
        for number in range(3):
            taken.append(number)
            yield 1
        return "done"

    steps = work()
    next(steps)
    assert finish(steps) == "done"
    assert taken == [0, 1, 2]
