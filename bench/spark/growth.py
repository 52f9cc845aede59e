"""Shows how the time of a read and of an archive grows with the data, on one core and on two.

`PYTHONPATH=compat_tests:tests python bench/spark/growth.py` prints a Markdown table of times and of times of CPU.
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import trio
from segment_logs import START_MS, Spu
from spark_broker import SEGMENT_BYTES, Cost, cost_of, session_of
from spark_work import ALL, PARTITIONS, SEGMENTS_ARCHIVE, TAILRACE, WORK, Place

from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.log_config import LogConfig

VALUE_BYTES, PER_BATCH = 1000, 500
Costs = defaultdict[tuple[str, int, int], list[Cost]]
"""What each turn took, by case, cores and megabytes."""
NAMES = {ALL: "read all columns with `segments`", SEGMENTS_ARCHIVE: "`archive` from segments"}


def main() -> None:
    options = parse_options()
    costs: Costs = defaultdict(list)
    home = Path(tempfile.mkdtemp(prefix="bench-growth-"))
    try:
        trio.run(write, home / "data", options.megabytes)
        for cores in options.cores:
            session = session_of(home / "spark", cores)
            for number in range(options.rounds + 1):  # the first round only warms up
                for megabytes in options.megabytes[: None if number else 1]:
                    place = Place(session, "", home / "data", f"values-{megabytes}", home)
                    for case in options.only:
                        cost = cost_of(partial(WORK[case, TAILRACE], place))
                        told = f"{cores} cores, {megabytes} MB: {cost.seconds:.2f} s, {cost.cpu_seconds:.2f} s of CPU"
                        print(f"# {time.strftime('%H:%M:%S')} {case}, {told}", file=sys.stderr)
                        if number:
                            costs[case, cores, megabytes].append(cost)
            session.stop()
    finally:
        shutil.rmtree(home)
    print("\n".join(table(costs, options)))


async def write(directory: Path, sizes: Sequence[int]) -> None:
    """Writes a topic for each size. All batches are the same but for their offset, which their checksum leaves out."""
    content = random.Random(1).randbytes(VALUE_BYTES * PER_BATCH)
    records = [
        Record(number, START_MS, b"key-%06d" % number, content[number * VALUE_BYTES : (number + 1) * VALUE_BYTES])
        for number in range(PER_BATCH)
    ]
    batch = build_batch(records, leader_epoch=0)
    spu = Spu(directory, LogConfig(segment_bytes_max=SEGMENT_BYTES))
    for megabytes in sizes:
        topic, topic_id = f"values-{megabytes}", UUID(int=megabytes)
        for partition in range(PARTITIONS):
            log = spu.log(partition, topic=topic, topic_id=topic_id)
            while log.log_end * VALUE_BYTES < megabytes * 10**6 // PARTITIONS:
                stamp(batch, 0, log.log_end, 0)
                log.append(memoryview(batch), read_header(batch))
            await log.sync()
            await spu.commit(log.log_end, partition, topic_id)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[200, 500, 1000, 2000])
    parser.add_argument("--cores", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", choices=list(NAMES), default=list(NAMES))
    return parser.parse_args()


def table(costs: Costs, options: argparse.Namespace) -> list[str]:
    lines = [
        f"| work | cores | {' | '.join(f'{each / 1000:g} GB' for each in options.megabytes)} |",
        "|---|--:|" + "--:|" * len(options.megabytes),
    ]
    for case in options.only:
        for cores in options.cores:
            cells = []
            for megabytes in options.megabytes:
                found = costs[case, cores, megabytes]
                taken = statistics.median(each.seconds for each in found)
                busy = statistics.median(each.cpu_seconds for each in found)
                cells.append(f"{taken:.1f} s, {busy:.1f} s of CPU")
            lines.append(f"| {NAMES[case]} | {cores} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
