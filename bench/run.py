"""`make bench`: the same client work against Apache Kafka and Tailrace, by turns, and one table with the ratios.

Both brokers run on this machine at the same time and each gets every piece of work several times; the table shows
medians. Nothing here is asserted: a shared machine is too noisy for that, a reader is not.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import psutil
from cluster import Broker, Tailrace
from confluent_kafka.admin import AdminClient
from goals import ROWS, Of, Row
from peer.apache_kafka import ApacheKafka
from topics import topic_creator

HERE = Path(__file__).parent
THEIRS, OURS = "Apache Kafka", "Tailrace"
WORK_SECONDS_MAX = 180
# These read what the case before them has written, and take over its topic.
READS_THE_TOPIC_BEFORE = {"consume-1", "consume-8"}
MARK = "<!-- the table of the last run -->"
Figures = defaultdict[tuple[str, str], list[float]]


def main() -> None:
    options = parse_options()
    print(f"# {machine()}; medians of {options.rounds} rounds by turns", file=sys.stderr)
    with brokers(Path(options.directory) if options.directory else None) as running:
        figures: dict[str, Figures] = {name: defaultdict(list) for name in running}
        measure_starts(running, figures, options.rounds)
        for name, broker in running.items():
            figures[name]["memory", "idle_megabytes"].append(resident_megabytes(broker))
            run_cases(broker, ["warm-up"], defaultdict(list))
        for chain in chains(options.only):
            for number in range(options.rounds):
                order = list(running) if number % 2 else list(running)[::-1]
                for name in order:
                    run_cases(running[name], chain, figures[name])
            print(f"# {time.strftime('%H:%M:%S')} {', '.join(chain)}", file=sys.stderr)
        for name, broker in running.items():
            figures[name]["memory", "loaded_megabytes"].append(resident_megabytes(broker))
    lines = table(figures, options.rounds)
    print("\n".join(lines))
    if options.save:
        keep_table(Path(options.save), lines)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each broker gets each piece of work")
    parser.add_argument("--only", nargs="*", metavar="CASE", help="some of: " + ", ".join(case_names()))
    parser.add_argument("--directory", metavar="DIR", help="where the brokers keep their data (default: temporary)")
    parser.add_argument("--save", metavar="FILE", help=f"put the table into this file, below the line {MARK}")
    return parser.parse_args()


def case_names() -> list[str]:
    return list(dict.fromkeys(row.case for row in ROWS if row.case not in ("start", "memory")))


def chains(only: list[str] | None) -> list[list[str]]:
    """The cases, each with those behind it that read its topic."""
    found: list[list[str]] = []
    for name in case_names():
        if name in READS_THE_TOPIC_BEFORE:
            found[-1].append(name)
        else:
            found.append([name])
    return [chain for chain in found if not only or set(chain) & set(only)]


@contextlib.contextmanager
def brokers(directory: Path | None) -> Iterator[dict[str, Broker]]:
    home = Path(tempfile.mkdtemp(prefix="bench-", dir=directory))
    running: dict[str, Broker] = {}
    try:
        for name, kind in ((THEIRS, ApacheKafka), (OURS, Tailrace)):
            (home / name.replace(" ", "-")).mkdir()
            running[name] = kind(home / name.replace(" ", "-"))
            running[name].start()
        yield running
    finally:
        for broker in running.values():
            broker.stop()
        shutil.rmtree(home)


def measure_starts(running: dict[str, Broker], figures: dict[str, Figures], rounds: int) -> None:
    """From the start of the process to the answer, with the data of a calm stop."""
    for _ in range(rounds):
        for name, broker in running.items():
            broker.stop()
            started = time.perf_counter()
            broker.start()
            figures[name]["start", "seconds"].append(time.perf_counter() - started)


def run_cases(broker: Broker, chain: list[str], figures: Figures) -> None:
    # What the work before has left to write would be charged to this one, and so would memory that is not free yet.
    os.sync()
    topic = topic_creator(broker.bootstrap, "bench")(partitions=1, file_delete_delay_ms="1000")
    try:
        for case in chain:
            cpu_before = cpu_seconds(broker)
            measured = run_work(broker.bootstrap, case, topic)
            measured["cpu_seconds"] = cpu_seconds(broker) - cpu_before
            if "requests" in measured and measured["cpu_seconds"]:
                measured["requests_per_cpu_second"] = measured["requests"] / measured["cpu_seconds"]
            for figure, value in measured.items():
                figures[case, figure].append(value)
    finally:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        admin.delete_topics([topic], operation_timeout=20)[topic].result(30)


def run_work(bootstrap: str, case: str, topic: str) -> dict[str, float]:
    command = [sys.executable, str(HERE / "work.py"), bootstrap, case, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORK_SECONDS_MAX)
    if done.returncode != 0:
        raise SystemExit(f"{case} against {bootstrap} failed:\n{done.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def cpu_seconds(broker: Broker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


def resident_megabytes(broker: Broker) -> float:
    return float(psutil.Process(broker.pid).memory_info().rss) / (1 << 20)


def machine() -> str:
    memory = psutil.virtual_memory().total >> 30
    return f"{date.today()}, {os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.machine()}, " + (
        f"Python {platform.python_version()}"
    )


def table(figures: dict[str, Figures], rounds: int) -> list[str]:
    """The rows as a Markdown table; the last column says which goal is reached."""
    lines = [
        f"{machine()}; medians of {rounds} rounds by turns.",
        "",
        f"| work | unit | {THEIRS} | {OURS} | ratio | must | aim | reached |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in ROWS:
        key = (row.case, row.figure)
        if not figures[OURS][key]:
            continue
        theirs, ours = (statistics.median(figures[name][key]) for name in (THEIRS, OURS))
        ratio = f"{ours / theirs:.2f}×" if theirs else "–"
        cells = [row.name, row.unit, number(theirs), number(ours), ratio, goal(row, row.must), goal(row, row.aim)]
        lines.append("| " + " | ".join([*cells, verdict(row, theirs, ours)]) + " |")
    return lines


def keep_table(document: Path, lines: list[str]) -> None:
    above, mark, _ = document.read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"{document} has no line {MARK}")
    document.write_text("\n".join([above + MARK, "", *lines]) + "\n")


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def goal(row: Row, value: float | None) -> str:
    if value is None:
        return ""
    sign = "≥" if row.more_is_better else "≤"
    return f"{sign} {value:g}×" if row.goal is Of.RATIO else f"{sign} {value:,g} {row.unit}"


def verdict(row: Row, theirs: float, ours: float) -> str:
    if row.reaches(row.aim, theirs, ours):
        return "aim"
    must = row.reaches(row.must, theirs, ours)
    if must is None:
        return ""
    return "must" if must else "**no**"


if __name__ == "__main__":
    main()
