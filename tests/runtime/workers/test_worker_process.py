import errno
import os
import signal
import sys
import textwrap

import pytest
import trio

from tailrace.runtime.workers.worker_process import WorkerProcess, start_worker

ECHO = """
    import sys
    from tailrace.runtime.workers.worker_side import WorkerSide, EndOfWorkError
    side = WorkerSide(sys.argv[-1])
    try:
        while True:
            size = int.from_bytes(side.read(4), "little")
            data = side.read(size)
            side.page.numbers[0] += 1
            side.write([b"yes" if side.claim() else b"no!", data[:2], data[-2:]])
    except EndOfWorkError:
        pass
"""


def started(program: str) -> WorkerProcess:
    return start_worker([sys.executable, "-c", textwrap.dedent(program)], dict(os.environ))


async def received(worker: WorkerProcess, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await worker.receive()
    return data


async def ended(worker: WorkerProcess) -> int:
    worker.kill()
    status = await worker.wait()
    worker.close()
    return status


async def test_messages_cross_the_pipes_and_grants_can_be_taken_back() -> None:
    worker = started(ECHO)
    with trio.fail_after(30):
        parts = [bytes((number,)) * 10_000 for number in range(200)] * 6
        size = sum(map(len, parts))
        worker.grant()
        await worker.send([size.to_bytes(4, "little"), b"", *parts])
        assert await received(worker, 7) == b"yes" + bytes((0, 0, 199, 199))
        worker.grant()
        assert worker.revoke()
        assert not worker.revoke()
        await worker.send([(4).to_bytes(4, "little") + b"abcd"])
        assert await received(worker, 7) == b"no!abcd"
        assert worker.page.numbers[0] == 2
        assert worker.receive_now() is None
        assert await ended(worker) == -signal.SIGKILL


async def test_the_end_of_a_worker_shows_in_its_pipes_and_its_status() -> None:
    worker = started("raise SystemExit(3)")
    with trio.fail_after(30):
        assert await worker.receive() == b""
        assert await worker.wait() == 3
        with pytest.raises(BrokenPipeError):
            await worker.send([b"x"])
        worker.kill()  # it has ended, so that nothing happens
        worker.close()


async def test_what_a_worker_has_started_ends_with_it_though_it_ended_by_itself() -> None:
    worker = started(
        """
        import subprocess, sys
        from tailrace.runtime.workers.worker_side import WorkerSide
        side = WorkerSide(sys.argv[-1])
        side.write([b"%d" % subprocess.Popen(["sleep", "1000"]).pid])
        """
    )
    with trio.fail_after(30):
        child = os.pidfd_open(int(await worker.receive()))
        assert await worker.wait() == 0
        await trio.lowlevel.wait_readable(child)
        os.close(child)
        worker.close()


def test_a_worker_without_enough_descriptors_is_an_error_and_leaks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, calls = os.pipe, iter((True, False))

    def limited() -> tuple[int, int]:
        if next(calls):
            return pipe()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pipe", limited)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="Too many open files"):
        started("")
    assert os.listdir("/proc/self/fd") == before


def test_a_missing_program_is_an_error_and_leaks_no_descriptor() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No such file"):
        start_worker(["/nowhere/program"], {})
    assert os.listdir("/proc/self/fd") == before
