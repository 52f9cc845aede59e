"""Tests large requests: read in steps, one at a time, with others served between, and bounded by the cluster's size."""

from collections.abc import Generator

import pytest
import trio
import trio.testing

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.compile import Steps
from tailrace.protocol.codec.decoder_source import ELEMENTS_MAX
from tailrace.server.fairness.crowd import Crowd
from tailrace.server.fairness.large_requests import (
    CHANGED_ELEMENTS_EXPECTED,
    ELEMENTS_EXPECTED,
    HELD_BYTES_MAX,
    STEP_SECONDS,
    LargeRequests,
    elements_max,
)


@pytest.mark.parametrize(
    ("api", "partitions", "limit"),
    [
        (ApiKey.METADATA, 0, ELEMENTS_EXPECTED),
        (ApiKey.CREATE_TOPICS, 0, CHANGED_ELEMENTS_EXPECTED),
        (ApiKey.METADATA, 50_000, 200_000),
        (ApiKey.CREATE_TOPICS, 50_000, 200_000),
        (ApiKey.FETCH, 10_000_000, ELEMENTS_MAX),
    ],
)
def test_the_bound_follows_from_the_size_of_the_cluster(api: ApiKey, partitions: int, limit: int) -> None:
    assert elements_max(api, partitions) == limit


def _steps(name: str, count: int, log: list[str], clock: trio.testing.MockClock) -> Steps:
    for _ in range(count):
        log.append(name)
        clock.jump(STEP_SECONDS)
        yield
    return name, 0


async def test_requests_are_read_one_at_a_time_and_others_are_served_between_the_steps(
    mock_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []
    requests = LargeRequests(Crowd())

    async def read(name: str) -> None:
        log.append(f"{await requests.read_and_handle(_steps(name, 3, log, mock_clock), lambda request: request)} done")

    async def serve_others() -> None:
        while "second done" not in log:
            await requests.crowd.enter()
            log.append("other")
            requests.crowd.leave()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, "first")
        await trio.testing.wait_all_tasks_blocked(0)
        nursery.start_soon(read, "second")
        nursery.start_soon(serve_others)
    assert log.index("first done") < log.index("second")
    middle = log[log.index("second") : log.index("second done")]
    assert middle.count("second") == 3
    assert middle.count("other") >= 2


async def test_an_error_while_reading_leaves_the_line_free() -> None:
    requests = LargeRequests(Crowd())

    def steps() -> Steps:
        yield
        raise ValueError("malformed")

    with pytest.raises(ValueError, match="malformed"):
        await requests.read_and_handle(steps(), lambda request: request)
    with trio.fail_after(5):
        await requests.crowd.enter()
    requests.crowd.leave()


async def _answer_later(log: list[str]) -> str:
    await trio.sleep(1)
    log.append("changed")
    return "answer"


async def test_a_change_that_a_large_request_began_completes_without_its_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []
    requests = LargeRequests(Crowd())

    def end_turn() -> None:
        log.append("turn ended")
        scope.cancel()

    def steps() -> Steps:
        yield
        return "request", 0

    with trio.CancelScope() as scope:
        assert await requests.answer(steps(), lambda request: _answer_later(log), end_turn) == "answer"
    assert log == ["turn ended", "changed"]


async def test_the_answer_of_an_ordinary_handler_is_returned() -> None:
    def steps() -> Steps:
        yield
        return "request", 0

    assert await LargeRequests(Crowd()).answer(steps(), lambda request: f"{request} answered", lambda: None) == (
        "request answered"
    )


async def test_work_in_steps_is_done_one_request_at_a_time_with_others_in_between(
    mock_clock: trio.testing.MockClock,
) -> None:
    log: list[str] = []
    requests = LargeRequests(Crowd())

    async def work(name: str) -> None:
        steps = _steps(name, 3, log, mock_clock)
        assert (await requests.take_steps(steps, 10, lambda: log.append("turn ended")))[0] == name
        log.append(f"{name} done")

    async def serve_others() -> None:
        while "second done" not in log:
            await requests.crowd.enter()
            log.append("other")
            requests.crowd.leave()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, "first")
        nursery.start_soon(work, "second")
        nursery.start_soon(serve_others)
    names = [name for name in log if name in ("first", "second")]
    assert names in (["first"] * 3 + ["second"] * 3, ["second"] * 3 + ["first"] * 3)
    assert log.count("turn ended") == 8
    assert log.count("other") >= 2
    assert requests.held_bytes == 0


async def test_the_time_of_steps_is_measured(mock_clock: trio.testing.MockClock) -> None:
    log: list[str] = []

    class Meter:
        bytes_max = 0

        def hold_back(self, record_bytes: int) -> int:
            return record_bytes

        def resumed(self) -> None:
            log.append("resumed")

        def handled(self) -> None:
            log.append("handled")

    steps = _steps("step", 2, log, mock_clock)
    await LargeRequests(Crowd()).take_steps(steps, 10, lambda: None, Meter())
    assert log == ["resumed", "step", "handled", "resumed", "step", "handled", "resumed", "handled"]


async def test_requests_in_steps_are_counted_from_the_beginning_to_the_end() -> None:
    requests = LargeRequests(Crowd())

    def steps() -> Generator[None, None, str]:
        yield
        raise ValueError("malformed")

    work = requests.take_steps(steps(), HELD_BYTES_MAX, lambda: None)
    assert not requests.has_room
    with pytest.raises(ValueError, match="malformed"):
        await work
    assert requests.has_room
