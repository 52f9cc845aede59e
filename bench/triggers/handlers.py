"""The handlers that each system calls, and the marks by which the bench sees how far a process is.

A handler counts its calls. After TAILRACE_BENCH_EVERY calls it appends a line to the file that TAILRACE_BENCH_MARKS
names. So the work of a call is the same in every system, and the bench needs neither logs nor metrics of the systems.
"""

import os
import time

BUSY_SECONDS = 100e-6

_every = int(os.environ["TAILRACE_BENCH_EVERY"])
_marks = os.open(os.environ["TAILRACE_BENCH_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_count = 0


def no_op() -> None:
    """Counts the call."""
    global _count
    _count += 1
    if not _count % _every:
        os.write(_marks, b"\n")


def busy() -> None:
    """Computes for 100 µs. Time in which the process waits for a core does not count."""
    end = time.thread_time() + BUSY_SECONDS
    while time.thread_time() < end:
        pass
    no_op()


CALLS = {"no-op": no_op, "busy": busy}
