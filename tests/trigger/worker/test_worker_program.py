"""A worker without a pool: the lease must hold even if the replica no longer does anything."""

import os
import signal
import sys
from pathlib import Path

import pytest
import trio
from worker_pools import Signals, chunk_of, config_of, function_in

from tailrace.runtime.workers.shared_page import SharedPage, clock
from tailrace.runtime.workers.worker_process import start_worker
from tailrace.trigger.worker.frames import Done, FrameInbox, FromWorker, Ready, Start, encode, work_of
from tailrace.trigger.worker.worker_page import LEASE_UNTIL, NONE, OPEN, RUNNING, WorkerPage
from tailrace.trigger.worker.worker_program import next_look

FUNCTION = """
    import os, threading, time

    def handler(context, event):
        if event.body == b"wait":
            with open(os.environ["SIGNALS"], "w") as file:
                file.write("w")
            threading.Event().wait()
"""


@pytest.mark.parametrize("acknowledgement", ["automatic", "explicit"])
async def test_a_worker_ends_itself_when_the_lease_is_over_and_an_event_runs_or_is_open(
    tmp_path: Path, acknowledgement: str
) -> None:
    signals = Signals(tmp_path)
    source = function_in(tmp_path, FUNCTION)
    worker = start_worker(
        [sys.executable, "-P", "-m", "tailrace.trigger.worker.worker_program"],
        {**os.environ, "SIGNALS": str(signals.path)},
    )
    page, inbox = WorkerPage(worker.page), FrameInbox()

    async def next_message() -> FromWorker:
        while True:
            for message in inbox.add(await worker.receive()):
                return message

    with trio.fail_after(30):
        await worker.send([encode(Start(source, config_of(acknowledgement=acknowledgement), 0, "info", True))])
        assert await next_message() == Ready()
        page.set_lease(0.0, may_begin=True)
        for number, until in ((1, 0.0), (2, clock() + 0.3)):
            page.set_lease(until, may_begin=True)
            body = "wait" if acknowledgement == "automatic" else "open"
            chunk = chunk_of("", body, first=5)
            worker.grant()
            await worker.send([encode(work_of(number, chunk)), *chunk.batches])
            if number == 1 or body == "open":
                done = await next_message()
                assert isinstance(done, Done)
                assert done.outcome is not None
                assert (done.number, done.outcome.next_offset) == (number, 5 if number == 1 else 7)
        if acknowledgement == "automatic":
            assert await signals.next() == "w"
            assert (page.doing().running, page.doing().safe) == (6, 6)
        else:
            assert page.doing().open == 2
        assert await worker.wait() == -signal.SIGKILL
    worker.close()
    signals.close()


def test_the_watchdog_looks_when_the_lease_may_be_over() -> None:
    page = SharedPage()
    numbers, times = page.numbers, page.times
    numbers[RUNNING] = NONE
    times[LEASE_UNTIL] = 5.0
    assert next_look(numbers, times, 3.0) == 2.0
    assert next_look(numbers, times, 5.0) is not None  # nothing runs
    numbers[RUNNING] = 7
    assert next_look(numbers, times, 4.5) == 0.5
    assert next_look(numbers, times, 5.0) is None
    numbers[RUNNING], numbers[OPEN] = NONE, 1
    assert next_look(numbers, times, 5.0) is None
