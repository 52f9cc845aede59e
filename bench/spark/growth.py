"""`make bench-growth`: shows how the time and the memory of jobs grow with the data, on one core and on two.

It writes a topic of values of 1 kB for each size, straight into segments. BENCH="--megabytes 200 2000 20000" chooses
the sizes. The tables show wall time and processor time, and the most memory that the JVM, the largest Python worker and
the driver's Python process needed at once. The data and the largest archive are on the disk at the same time.
"""

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import psutil
import trio
from msgspec import Struct
from pyspark.sql import SparkSession
from segment_logs import START_MS, Spu
from spark.memory_peaks import NO_PEAK, Peak, forget_peaks, peaks
from spark_broker import SEGMENT_BYTES, session_of
from spark_work import ALL, PARTITIONS, SEGMENTS_ARCHIVE, TAILRACE, WORK, Place

from tailrace.pipeline.audit import audit
from tailrace.pipeline.stats import stats
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.log_config import LogConfig

VALUE_BYTES, PER_BATCH = 1000, 500
AUDIT, STATS = "audit", "stats"
SPUS = ("spu-1", "spu-2")
"""Both SPUs have the same segments. The files of the second one are links to those of the first."""
SAMPLE_SECONDS = 0.5


class Turn(Struct, frozen=True):
    """What one turn took."""

    seconds: float
    cpu_seconds: float
    peak: Peak


Turns = defaultdict[tuple[str, int, int], list[Turn]]
"""By case, cores and megabytes."""


def _audit(place: Place) -> int:
    result = audit(place.session, [str(place.data.parent / each) for each in SPUS], topics=[place.topic])
    assert result.is_ok, result.text()
    return sum(copy.records for copy in result.copies) // len(SPUS)


def _stats(place: Place) -> int:
    (topic,) = stats(place.session, segments=[str(place.data)], topics=[place.topic]).topics
    return topic.records


CASES: Mapping[str, tuple[str, Callable[[Place], int]]] = {
    ALL: ("read all columns with `segments`", WORK[ALL, TAILRACE]),
    SEGMENTS_ARCHIVE: ("`archive` from segments", WORK[SEGMENTS_ARCHIVE, TAILRACE]),
    AUDIT: ("`audit` of two copies", _audit),
    STATS: ("`stats`", _stats),
}
"""The name of each case in the tables, and its work."""


def main() -> None:
    options = parse_options()
    turns: Turns = defaultdict(list)
    home = Path(tempfile.mkdtemp(prefix="bench-growth-", dir=options.scratch))
    try:
        for spu in SPUS:
            trio.run(write, home / spu, options.megabytes, None if spu == SPUS[0] else home / SPUS[0])
        for cores in options.cores:
            session = session_of(home / "spark", cores)
            for number in range(options.rounds + 1):  # the first round only warms up
                for megabytes in options.megabytes[: None if number else 1]:
                    place = Place(session, "", home / SPUS[0], f"values-{megabytes}", home)
                    for case in options.only:
                        turn = measured(place, case, megabytes)
                        print(f"# {told(case, cores, megabytes, turn)}", file=sys.stderr, flush=True)
                        if number:
                            turns[case, cores, megabytes].append(turn)
            session.stop()
    finally:
        shutil.rmtree(home)
    print("\n".join(table(turns, options)))


def measured(place: Place, case: str, megabytes: int) -> Turn:
    with sampled(place.session) as sample:
        began = time.monotonic()
        records = CASES[case][1](place)
        seconds = time.monotonic() - began
    if (expected := len(batches(megabytes)) * PER_BATCH * PARTITIONS) != records:
        raise SystemExit(f"{case} has handled {records} of {expected} records")
    return Turn(seconds, sample.cpu_seconds, sample.peak)


class Sample:
    """What the processes of a session have needed since it was made."""

    def __init__(self, session: SparkSession) -> None:
        self.peak = NO_PEAK
        self._session = session
        self._before = self._busy()
        self._busy_until: dict[int, float] = {}
        forget_peaks(session)

    @property
    def cpu_seconds(self) -> float:
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in self._busy_until.items())

    def look(self) -> None:
        """Must be called often, because a Python worker may end before the work does."""
        self.peak = self.peak.at_least(peaks(self._session))
        self._busy_until.update(self._busy())

    @staticmethod
    def _busy() -> dict[int, float]:
        """Returns the processor time of each process."""
        found, mine = {}, psutil.Process()
        for each in (mine, *mine.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                found[each.pid] = times.user + times.system
        return found


@contextmanager
def sampled(session: SparkSession) -> Iterator[Sample]:
    """Yields a sample, and looks at the processes until the work ends."""
    sample, is_done = Sample(session), threading.Event()

    def look() -> None:
        while not is_done.wait(SAMPLE_SECONDS):
            sample.look()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield sample
    finally:
        is_done.set()
        thread.join()
        sample.look()


def batches(megabytes: int) -> range:
    """Returns the base offsets of the batches of one partition."""
    return range(0, megabytes * 10**6 // PARTITIONS // VALUE_BYTES, PER_BATCH)


async def write(directory: Path, sizes: Sequence[int], original: Path | None) -> None:
    """Writes a topic for each size, or links to the segments of an original.

    All batches are the same but for their offset, which their checksum leaves out.
    """
    content = random.Random(1).randbytes(VALUE_BYTES * PER_BATCH)
    records = [
        Record(number, START_MS, b"key-%06d" % number, content[number * VALUE_BYTES : (number + 1) * VALUE_BYTES])
        for number in range(PER_BATCH)
    ]
    batch = build_batch(records, leader_epoch=0)
    if original is not None:
        shutil.copytree(original, directory, copy_function=os.link)
        return
    spu = Spu(directory, LogConfig(segment_bytes_max=SEGMENT_BYTES))
    for megabytes in sizes:
        topic, topic_id = f"values-{megabytes}", UUID(int=megabytes)
        for partition in range(PARTITIONS):
            log = spu.log(partition, topic=topic, topic_id=topic_id)
            for base in batches(megabytes):
                stamp(batch, 0, base, 0)
                log.append(memoryview(batch), read_header(batch))
            await log.sync()
            await spu.commit(log.log_end, partition, topic_id)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[200, 2000])
    parser.add_argument("--cores", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--scratch", help="the directory for the data, if not that of temporary files")
    return parser.parse_args()


def told(case: str, cores: int, megabytes: int, turn: Turn) -> str:
    load = os.getloadavg()[0]
    took = f"{turn.seconds:.2f} s, {turn.cpu_seconds:.2f} s of CPU, {in_mib(turn.peak)} MiB"
    return f"{time.strftime('%H:%M:%S')} {case}, {cores} cores, {megabytes} MB: {took}, load {load:.1f}"


def in_mib(peak: Peak) -> str:
    return " / ".join(f"{each / 2**20:.0f}" for each in (peak.jvm, peak.worker, peak.driver))


def table(turns: Turns, options: argparse.Namespace) -> list[str]:
    """Returns a table of times, and one of memory."""
    head = [
        f"| work | cores | {' | '.join(f'{each / 1000:g} GB' for each in options.megabytes)} |",
        "|---|--:|" + "--:|" * len(options.megabytes),
    ]
    times, memory = list(head), list(head)
    for case in options.only:
        for cores in options.cores:
            found = [turns[case, cores, megabytes] for megabytes in options.megabytes]
            pairs = [
                (statistics.median(t.seconds for t in each), statistics.median(t.cpu_seconds for t in each))
                for each in found
            ]
            start = f"| {CASES[case][0]} | {cores} | "
            times.append(start + " | ".join(f"{taken:.1f} s, {busy:.1f} s of CPU" for taken, busy in pairs) + " |")
            most = [_highest(each) for each in found]
            memory.append(start + " | ".join(map(in_mib, most)) + " |")
    return [*times, "", "MiB of the JVM / the largest Python worker / the driver in Python:", "", *memory]


def _highest(turns: Sequence[Turn]) -> Peak:
    highest = NO_PEAK
    for turn in turns:
        highest = highest.at_least(turn.peak)
    return highest


if __name__ == "__main__":
    main()
