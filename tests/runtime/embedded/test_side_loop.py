import threading

import pytest
import trio

from tailrace.runtime.embedded.side_loop import BlockingCalls, SideLoop

SECONDS_MAX = 20.0


def test_the_work_runs_in_another_thread_until_it_is_stopped() -> None:
    threads: list[str] = []
    failures: list[BaseException] = []

    async def work(stop: trio.Event) -> None:
        threads.append(threading.current_thread().name)
        await stop.wait()
        threads.append("stopped")

    loop = SideLoop("side", work, failures.append)
    assert loop.is_running
    assert loop.stop(SECONDS_MAX)
    assert not loop.is_running
    assert threads == ["side", "stopped"]
    assert failures == []
    assert loop.stop(SECONDS_MAX), "a second stop does nothing"


def test_other_threads_call_into_the_loop() -> None:
    threads: list[str] = []
    called = threading.Event()

    async def work(stop: trio.Event) -> None:
        await stop.wait()

    def call() -> None:
        threads.append(threading.current_thread().name)
        called.set()

    loop = SideLoop("side", work, lambda error: None)
    loop.call_soon(call)
    assert called.wait(SECONDS_MAX)
    assert loop.stop(SECONDS_MAX)
    loop.call_soon(call)
    assert threads == ["side"]


def test_a_failure_of_the_work_is_reported_and_raised_nowhere() -> None:
    failures: list[BaseException] = []

    async def work(stop: trio.Event) -> None:
        raise ValueError("broken")

    loop = SideLoop("side", work, failures.append)
    assert loop.stop(SECONDS_MAX)
    assert [str(each) for each in failures] == ["broken"]


def test_work_that_does_not_end_is_left_alone() -> None:
    let_go = threading.Event()

    async def work(stop: trio.Event) -> None:
        await stop.wait()
        let_go.wait(SECONDS_MAX)

    loop = SideLoop("side", work, lambda error: None)
    assert not loop.stop(0.0)
    let_go.set()
    assert loop.stop(SECONDS_MAX)


async def test_calls_that_hang_do_not_pile_up() -> None:
    calls = BlockingCalls()
    let_go = threading.Event()
    has_started = trio.Event()
    started: list[int] = []

    def hang() -> None:
        started.append(len(started))
        trio.from_thread.run_sync(has_started.set)
        let_go.wait(SECONDS_MAX)

    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(calls.run, hang)
            await has_started.wait()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert started == [0]
    let_go.set()
    assert await calls.run(lambda: "done") == "done"


async def test_a_call_that_fails_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        await BlockingCalls().run(lambda: 1 // 0)
