"""The most memory that the processes of a session needed at once, as Linux counts it for each process."""

from contextlib import suppress
from pathlib import Path

import psutil
from msgspec import Struct
from pyspark.sql import SparkSession


class Peak(Struct, frozen=True):
    """The most bytes that were resident at once."""

    jvm: int
    """In local mode the JVM is the driver and the only executor."""
    worker: int
    """The memory of the largest Python worker."""
    driver: int
    """The memory of the Python process that drives the session."""

    def at_least(self, other: "Peak") -> "Peak":
        return Peak(max(self.jvm, other.jvm), max(self.worker, other.worker), max(self.driver, other.driver))


NO_PEAK = Peak(0, 0, 0)


def can_be_measured() -> bool:
    return Path("/proc/self/clear_refs").exists()


def forget_peaks(session: SparkSession) -> None:
    """Lets the peak of each process begin again at what is resident now."""
    jvm = _jvm(session)
    for process in (psutil.Process(), jvm, *jvm.children(recursive=True)):
        with suppress(OSError):  # it has ended
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def peaks(session: SparkSession) -> Peak:
    """Returns the peaks of the processes that still run."""
    jvm = _jvm(session)
    workers = [_peak(worker.pid) for worker in jvm.children(recursive=True)]
    return Peak(_peak(jvm.pid), max(workers, default=0), _peak(psutil.Process().pid))


def _jvm(session: SparkSession) -> psutil.Process:
    return psutil.Process(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


def _peak(pid: int) -> int:
    """Returns the most memory that was resident at once; 0 for a process that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0
