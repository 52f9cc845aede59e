import os
import signal
import sys
import textwrap

import trio

from tailrace.runtime.workers.worker_process import start_worker

WATCHED = """
    import sys, threading
    from tailrace.runtime.workers.watchdog import start_watchdog
    from tailrace.runtime.workers.worker_side import WorkerSide
    side = WorkerSide(sys.argv[-1])
    start_watchdog(side, lambda: None if side.page.numbers[0] else 0.001)
    side.write([b"ready"])
    while True:
        pass
"""


async def test_a_busy_process_ends_when_the_watchdog_says_so() -> None:
    worker = start_worker([sys.executable, "-c", textwrap.dedent(WATCHED)], dict(os.environ))
    with trio.fail_after(30):
        assert await worker.receive() == b"ready"
        worker.page.numbers[0] = 1
        assert await worker.wait() == -signal.SIGKILL
    worker.close()


async def test_a_busy_process_ends_when_the_pipe_to_it_is_closed() -> None:
    worker = start_worker([sys.executable, "-c", textwrap.dedent(WATCHED)], dict(os.environ))
    with trio.fail_after(30):
        assert await worker.receive() == b"ready"
        os.close(worker._to_worker)
        assert await worker.wait() == -signal.SIGKILL
    worker._to_worker = os.open(os.devnull, os.O_RDONLY)  # so that there is something to close
    worker.close()
