"""Shows how the time of a read and of an archive grows with the data, on one core and on two.

`PYTHONPATH=compat_tests python bench/spark/growth.py` prints a Markdown table. Cells have the seconds and the rate.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from spark_broker import cost_of, fill, running_broker, session_of
from spark_work import ALL, PARTITIONS, SEGMENTS_ARCHIVE, TAILRACE, WORK, Place

VALUE_BYTES = 1000
NAMES = {ALL: "read all columns with `segments`", SEGMENTS_ARCHIVE: "`archive` from segments"}


def main() -> None:
    options = parse_options()
    seconds: dict[tuple[str, int, int], list[float]] = {}
    home = Path(tempfile.mkdtemp(prefix="bench-growth-"))
    try:
        with running_broker(home) as (bootstrap, pid, data):
            for megabytes in options.megabytes:
                fill(bootstrap, data, f"values-{megabytes}", _records(megabytes), VALUE_BYTES, PARTITIONS)
            for cores in options.cores:
                session = session_of(home / "spark", cores)
                for number in range(options.rounds + 1):  # the first round only warms up
                    for megabytes in options.megabytes[: None if number else 1]:
                        place = Place(session, bootstrap, data, f"values-{megabytes}", home)
                        for case in options.only:
                            cost = cost_of(lambda case=case, place=place: WORK[case, TAILRACE](place), pid)  # type: ignore[misc]
                            told = f"{cores} cores, {megabytes} MB: {cost.seconds:.2f} s"
                            print(f"# {time.strftime('%H:%M:%S')} {case}, {told}", file=sys.stderr)
                            if number:
                                seconds.setdefault((case, cores, megabytes), []).append(cost.seconds)
                session.stop()
    finally:
        shutil.rmtree(home)
    print("\n".join(table({key: statistics.median(found) for key, found in seconds.items()}, options)))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[200, 500, 1000, 2000])
    parser.add_argument("--cores", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", choices=list(NAMES), default=list(NAMES))
    return parser.parse_args()


def _records(megabytes: int) -> int:
    return megabytes * 10**6 // VALUE_BYTES


def table(seconds: Mapping[tuple[str, int, int], float], options: argparse.Namespace) -> list[str]:
    lines = [
        f"| work | cores | {' | '.join(f'{each / 1000:g} GB' for each in options.megabytes)} |",
        "|---|--:|" + "--:|" * len(options.megabytes),
    ]
    for case in options.only:
        for cores in options.cores:
            cells = []
            for megabytes in options.megabytes:
                taken = seconds[case, cores, megabytes]
                cells.append(f"{taken:.1f} s, {megabytes / taken:,.0f} MB/s")
            lines.append(f"| {NAMES[case]} | {cores} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
