"""`make bench-spark`: reads, archives and replays the same records with Spark's Kafka connector and with our jobs.

One broker on this machine holds a topic with small and a topic with large records. One session on two cores does each
piece of work with both systems in turns. The table shows medians. The bench asserts no speed, because a shared machine
is too noisy for that, but both systems must handle all records.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct
from spark_broker import Cost, cost_of, fill, running_broker, session_of
from spark_work import (
    ALL,
    ARCHIVE,
    COUNTS,
    HEADERS,
    PARTITIONS,
    REPLAY,
    SEGMENTS_ARCHIVE,
    SPARK,
    TAILRACE,
    VALUES,
    WORK,
    Place,
)

CORES = 2
SMALL, LARGE = "100 B", "1 kB"
VALUE_BYTES = {SMALL: 100, LARGE: 1000}
HEADERS_MUST = 4.0
"""How many times as fast as all columns `segments` should read headers."""
Costs = defaultdict[tuple[str, str, str], list[Cost]]
"""What each turn took, by topic, case and system."""


class Row(Struct, frozen=True):
    """A row of the table. Both sides have a case, because one side may do the work in two ways."""

    name: str
    case: str
    than: str
    """The case of Spark that is compared."""
    must: float | None = None
    aim: float | None = None


ROWS = (
    Row("read all columns: Spark's Kafka source, `segments`", ALL, ALL, 2.5, 5),
    Row("read keys and values", VALUES, VALUES, 2.5, 5),
    Row("read all columns and headers", HEADERS, HEADERS, 2.5, 5),
    Row("count records and find the last offset: `segments` header-only", COUNTS, COUNTS, 10),
    Row("copy to Parquet: Spark's Kafka source, `archive` from the broker", ARCHIVE, ARCHIVE),
    Row("copy to Parquet: Spark's Kafka source, `archive` from segments", SEGMENTS_ARCHIVE, ARCHIVE),
    Row("send to a topic: Spark's Kafka sink, `replay`", REPLAY, REPLAY),
)


def main() -> None:
    options = parse_options()
    counts = {SMALL: options.records, LARGE: options.records * 2 // 5}
    costs: Costs = defaultdict(list)
    home = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        with running_broker(home) as (bootstrap, pid, data):
            topics = {name: f"values-{VALUE_BYTES[name]}" for name in options.sizes}
            for name, topic in topics.items():
                fill(bootstrap, data, topic, counts[name], VALUE_BYTES[name], PARTITIONS)
            session = session_of(home / "spark", CORES)
            for number in range(options.rounds + 1):  # the first round only warms up
                for name, topic in topics.items():
                    place = Place(session, bootstrap, data, topic, home)
                    measure(place, name, counts[name], number, pid, options.only, costs)
            session.stop()
    finally:
        shutil.rmtree(home)
    print("\n".join(table(costs, counts, options.rounds)))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = list(dict.fromkeys(case for case, _ in WORK))
    parser.add_argument("--rounds", type=int, default=3, help="how often each system does each piece of work")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many small records there are")
    parser.add_argument("--only", nargs="*", choices=cases, default=cases, help="only these cases")
    parser.add_argument("--sizes", nargs="*", choices=list(VALUE_BYTES), default=list(VALUE_BYTES))
    return parser.parse_args()


def measure(place: Place, size: str, records: int, number: int, pid: int, only: list[str], costs: Costs) -> None:
    """Does all work once, in the opposite order every other time."""
    turns = [(case, system) for case, system in WORK if case in only]
    for case, system in turns[::-1] if number % 2 else turns:
        cost = cost_of(partial(WORK[case, system], place), pid)
        if cost.records != records:
            raise SystemExit(f"{system} has handled {cost.records} of {records} records of {size}: {case}")
        if number:
            costs[size, case, system].append(cost)
        told = f"{cost.seconds:.2f} s, {cost.cpu_seconds:.2f} s of CPU"
        print(f"# {time.strftime('%H:%M:%S')} round {number}: {size} {case} {system}: {told}", file=sys.stderr)


def table(costs: Costs, counts: Mapping[str, int], rounds: int) -> list[str]:
    """Returns the rows as a Markdown table; the last column says which goal is reached."""
    lines = [
        f"{time.strftime('%Y-%m-%d')}; {CORES} cores, {PARTITIONS} partitions; medians of {rounds} rounds.",
        "",
        "| work | values | Spark, records/s | Tailrace, records/s | ratio | Spark, CPU s | Tailrace, CPU s | goal |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in ROWS:
        for size in VALUE_BYTES:
            theirs, ours = costs.get((size, row.than, SPARK)), costs.get((size, row.case, TAILRACE))
            if not theirs or not ours:
                continue
            pair = [statistics.median(each.seconds for each in found) for found in (theirs, ours)]
            cpu = [statistics.median(each.cpu_seconds for each in found) for found in (theirs, ours)]
            ratio = pair[0] / pair[1]
            rates = [f"{counts[size] / each:,.0f}" for each in pair]
            cells = [row.name, size, *rates, f"{ratio:.1f}×", *(f"{each:.2f}" for each in cpu), judged(row, ratio)]
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", *header_lines(costs)]


def header_lines(costs: Costs) -> list[str]:
    """Returns how much less time `segments` takes for headers than for all columns."""
    lines = []
    for size in VALUE_BYTES:
        all_columns, headers = costs.get((size, ALL, TAILRACE)), costs.get((size, COUNTS, TAILRACE))
        if all_columns and headers:
            ratio = statistics.median(each.seconds for each in all_columns) / statistics.median(
                each.seconds for each in headers
            )
            goal = f"≥ {HEADERS_MUST:g}×: {'must' if ratio >= HEADERS_MUST else '**no**'}"
            lines.append(f"- {size}: header-only is {ratio:.1f}× as fast as all columns ({goal}).")
    return lines


def judged(row: Row, ratio: float) -> str:
    """Returns the goal, and which threshold is reached."""
    if row.must is None:
        return ""
    goal = f"≥ {row.must:g}×" + ("" if row.aim is None else f", aim {row.aim:g}×")
    verdict = "aim" if row.aim is not None and ratio >= row.aim else "must" if ratio >= row.must else "**no**"
    return f"{goal}: {verdict}"


if __name__ == "__main__":
    main()
