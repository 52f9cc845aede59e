"""Runs one system on the records of a topic, and measures its rate and its processor time from outside."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from msgspec import Struct

EVERY = 200
"""After how many calls a process leaves a mark."""
FIRST_MARK_SECONDS_MAX = 60.0
WARM_UP_SECONDS = 0.5
LOOK_SECONDS = 0.02
END_SHARE = 0.95
"""The share of the records after which the measurement ends, because then some shards have no more records."""
STOP_SECONDS_MAX = 20.0
SETTLE_SECONDS = 4.0
"""How long a system has no records before it counts as idle."""


class Moment(Struct, frozen=True):
    at: float
    handled: int
    cpu_seconds: float


def measured(
    command: Sequence[str], marks: Path, records: int, seconds: float, stops_cleanly: bool
) -> dict[str, float]:
    """Runs the command, and returns its rate and the processor time of its processes for 100 000 records."""
    with running(command, marks, stops_cleanly) as process:
        wait_for(process, marks, EVERY, FIRST_MARK_SECONDS_MAX)
        time.sleep(WARM_UP_SECONDS)
        first = moment(process, marks)
        last = wait_for(process, marks, int(records * END_SHARE), seconds)
    handled = last.handled - first.handled
    if handled < EVERY:
        raise SystemExit(f"{command} handled {handled} records within {last.at - first.at:.1f} s")
    return {
        "records_per_second": handled / (last.at - first.at),
        "cpu_seconds": (last.cpu_seconds - first.cpu_seconds) / handled * 100_000,
    }


def idle_share(command: Sequence[str], marks: Path, records: int, seconds: float, stops_cleanly: bool) -> float:
    """Runs the command until all records are handled, and returns which share of a core it then takes."""
    with running(command, marks, stops_cleanly) as process:
        # Each process writes a mark after every 200 calls only, so that the last records leave none.
        wait_for(process, marks, int(records * END_SHARE), FIRST_MARK_SECONDS_MAX)
        time.sleep(SETTLE_SECONDS)
        first = moment(process, marks)
        time.sleep(seconds)
        last = moment(process, marks)
    return (last.cpu_seconds - first.cpu_seconds) / (last.at - first.at)


@contextmanager
def running(command: Sequence[str], marks: Path, stops_cleanly: bool) -> Iterator[psutil.Process]:
    """Runs the command. At the end, a command that `stops_cleanly` must end with status 0, and others are killed."""
    marks.touch()
    with output_of(marks).open("wb") as output:
        surroundings = {**os.environ, "TAILRACE_BENCH_MARKS": str(marks), "TAILRACE_BENCH_EVERY": str(EVERY)}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=surroundings)
    try:
        yield psutil.Process(process.pid)
        process.send_signal(signal.SIGTERM if stops_cleanly else signal.SIGKILL)
        status = process.wait(STOP_SECONDS_MAX)
        if stops_cleanly and status != 0:
            raise SystemExit(f"{command} ended with status {status}:\n{last_output(marks)}")
    finally:
        process.kill()
        process.wait()


def output_of(marks: Path) -> Path:
    return marks.with_suffix(".output")


def last_output(marks: Path) -> str:
    return output_of(marks).read_text(errors="replace")[-2000:]


def wait_for(process: psutil.Process, marks: Path, handled: int, seconds: float) -> Moment:
    """Waits until so many records are handled, at most for `seconds`."""
    deadline = time.monotonic() + seconds
    while (now := moment(process, marks)).handled < handled and now.at < deadline:
        time.sleep(LOOK_SECONDS)
    return now


def moment(process: psutil.Process, marks: Path) -> Moment:
    """Returns how far the process and its children are now."""
    if process.status() == psutil.STATUS_ZOMBIE:
        raise SystemExit(f"a system ended by itself:\n{last_output(marks)}")
    cpu_seconds = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            cpu_seconds += times.user + times.system
    return Moment(time.monotonic(), marks.stat().st_size * EVERY, cpu_seconds)
