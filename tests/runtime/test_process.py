import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
import trio
import trio.testing

from tailrace.runtime import process
from tailrace.runtime.process import (
    ServerStop,
    Stop,
    allow_many_files,
    file_input,
    read_input,
    run_stoppable,
    run_until_stopped,
    running_ms,
    stop_signals,
    write_output,
)


def test_running_time_does_not_go_back() -> None:
    assert 0 <= running_ms() <= running_ms()


def test_the_limit_of_open_files_is_raised_as_far_as_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        assert allow_many_files() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_limit_that_cannot_be_raised_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_many_files() == 1024


@pytest.mark.trio
@pytest.mark.usefixtures("hangups_count")
@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_to_stop_arrive_as_values(asked: signal.Signals) -> None:
    async with stop_signals() as signals:
        os.kill(os.getpid(), asked)
        with trio.fail_after(10):
            assert await anext(signals) == asked


@pytest.mark.trio
async def test_a_process_that_ignores_sighup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with stop_signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            with trio.fail_after(10):
                assert await anext(signals) == signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.trio
async def test_work_ends_by_itself_or_is_stopped() -> None:
    done = []

    async def work() -> None:
        done.append("work")

    async def endless() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

    async def failing() -> None:
        raise ValueError("of the work")

    with trio.fail_after(10):
        await run_until_stopped(work)
        await run_until_stopped(endless)
        with pytest.raises(ValueError, match="of the work"):
            await run_until_stopped(failing)
    assert done == ["work"]


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Returns the other end of a pipe that is the standard input during the test."""
    reading, writing = os.pipe()
    monkeypatch.setattr(process, "STANDARD_INPUT", reading)
    yield writing
    os.close(reading)


@pytest.mark.trio
async def test_input_is_read_as_it_comes(standard_input: int) -> None:
    with trio.fail_after(10):
        os.write(standard_input, b"abc")
        assert (await read_input(2), await read_input(2)) == (b"ab", b"c")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect, b"later")
            await trio.testing.wait_all_tasks_blocked()
            os.write(standard_input, b"later")
        os.close(standard_input)
        assert await read_input(2) == b""


async def _expect(data: bytes) -> None:
    assert await read_input(100) == data


@pytest.mark.trio
async def test_input_may_be_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"abc")
    with path.open("rb") as file:
        monkeypatch.setattr(process, "STANDARD_INPUT", file.fileno())
        assert [await read_input(2) for _ in range(3)] == [b"ab", b"c", b""]


@pytest.mark.trio
async def test_a_file_is_read_like_an_input(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"abc")
    read = file_input(str(file))
    assert [await read(2), await read(2), await read(2)] == [b"ab", b"c", b""]
    with pytest.raises(FileNotFoundError):
        file_input(str(tmp_path / "none"))


@pytest.mark.trio
async def test_the_first_signal_lets_work_end_what_it_has_begun() -> None:
    done = []

    async def work(stop: Stop) -> None:
        with stop.ends_waiting():
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep_forever()
        await trio.testing.wait_all_tasks_blocked()
        done.append(stop.signal)
        with stop.ends_waiting():
            await trio.sleep_forever()

    assert (await run_stoppable(work)).signal == signal.SIGTERM
    assert done == [signal.SIGTERM]


@pytest.mark.trio
async def test_the_second_signal_cancels_the_work() -> None:
    async def work(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

    assert (await run_stoppable(work)).signal == signal.SIGINT


@pytest.mark.trio
async def test_work_that_can_be_stopped_ends_by_itself_too() -> None:
    async def work(stop: Stop) -> None:
        if stop.signal is None:
            raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        await run_stoppable(work)


@contextmanager
def output_pipe() -> Iterator[int]:
    """Makes standard output a pipe, and yields the end from which it is read."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as output, redirect_stdout(output):
        yield reading
    os.close(reading)


@pytest.mark.trio
async def test_a_slow_reader_of_the_output_stops_only_the_writer() -> None:
    data = bytes(range(256)) * 4096
    found = bytearray()
    with output_pipe() as reading:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_output, data)
            await trio.testing.wait_all_tasks_blocked()  # the pipe is full
            while len(found) < len(data):
                await trio.lowlevel.wait_readable(reading)
                found += os.read(reading, 1 << 16)
    assert found == data


@pytest.mark.trio
async def test_an_output_that_nothing_reads_can_be_given_up() -> None:
    with output_pipe():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_output, bytes(1 << 20))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_what_was_printed_before_comes_first() -> None:
    with output_pipe() as reading:
        print("before")
        await write_output(b"after\n")
        assert os.read(reading, 100) == b"before\nafter\n"


class CountedStops:
    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_a_stop_begins_once_and_only_if_there_is_a_server() -> None:
    early, server = ServerStop(), CountedStops()
    assert not early.stop()
    early.server = server
    assert (early.is_asked, early.stop(), server.stops) == (True, False, 1)
    stop = ServerStop()
    stop.server = server
    assert (stop.stop(), stop.stop(), server.stops) == (True, False, 3)
