import os
import resource
import signal

import pytest
import trio

from tailrace.runtime.process import allow_many_files, running_ms, stop_signals


def test_running_time_does_not_go_back() -> None:
    assert 0 <= running_ms() <= running_ms()


def test_the_limit_of_open_files_is_raised_to_what_the_system_lets_us(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        assert allow_many_files() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_system_that_does_not_let_us_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_many_files() == 1024


@pytest.mark.trio
@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
async def test_signals_to_stop_arrive_as_values(asked: signal.Signals) -> None:
    async with stop_signals() as signals:
        os.kill(os.getpid(), asked)
        with trio.fail_after(10):
            assert await anext(signals) == asked
