"""`make bench-triggers`: handles the same records with Quix Streams, FastStream and our trigger in turns.

All systems read one topic of 12 partitions of our broker, on this machine. Each run has a group of its own and begins
at the first record. The table shows medians. The bench asserts nothing, because a shared machine is too noisy for that.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import environment
from cluster import READY_LINE, Server, tailrace
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from free_ports import free_port
from msgspec import Struct
from running import idle_share, measured

HERE = Path(__file__).parent
TOPIC, SMALL_TOPIC, SHARDS = "bench", "bench-small", 12
SMALL_RECORDS = 12_000
"""How many records a system handles before it is idle."""
IDLE_SECONDS = 15
VALUE = b"x" * 100
NEVER = "1h"
"""A commit interval that does not end during a measurement."""
QUIX, FAST, ONE, TWO = "Quix Streams", "FastStream", "Tailrace, 1 worker", "Tailrace, 2 workers"
NO_OP, BUSY, UNCOMMITTED, IDLE = "no-op", "busy", "uncommitted", "idle"
CASES = {NO_OP: (QUIX, FAST, ONE, TWO), BUSY: (QUIX, FAST, ONE, TWO), UNCOMMITTED: (ONE,), IDLE: (QUIX, FAST, ONE, TWO)}
Figures = defaultdict[tuple[str, str, str], list[float]]
"""The measured values, by case, system and figure."""


class Goal(Struct, frozen=True):
    """What a figure of one system is compared with, and the thresholds of the ratio or of the figure itself."""

    system: str
    than: tuple[str, str, str] | None
    """The case, system and figure to divide by, or None to judge the figure itself."""
    must: float
    aim: float


class Row(Struct, frozen=True):
    name: str
    case: str
    figure: str
    unit: str
    goal: Goal | None = None


RATE, CPU, SHARE = "records_per_second", "cpu_seconds", "share"
ROWS = (
    Row("a handler that does nothing", NO_OP, RATE, "records/s", Goal(ONE, (NO_OP, QUIX, RATE), 1, 1.5)),
    Row("  CPU for 100 000 records", NO_OP, CPU, "s"),
    Row("the same without commits", UNCOMMITTED, RATE, "records/s"),
    Row("  CPU for 100 000 records", UNCOMMITTED, CPU, "s"),
    Row("a handler that computes for 100 µs", BUSY, RATE, "records/s", Goal(TWO, (BUSY, QUIX, RATE), 1.6, 1.6)),
    Row("  CPU for 100 000 records", BUSY, CPU, "s"),
    Row("idle with 12 shards, of one core", IDLE, SHARE, "%", Goal(ONE, None, 1, 1)),
)


class Broker(Struct, frozen=True):
    bootstrap: str
    sc: str


def main() -> None:
    options = parse_options()
    python = environment.python_of(options.peers)
    figures: Figures = defaultdict(list)
    home = Path(tempfile.mkdtemp(prefix="bench-triggers-"))
    try:
        with running_broker(home) as broker:
            fill(broker.bootstrap, TOPIC, options.records)
            fill(broker.bootstrap, SMALL_TOPIC, SMALL_RECORDS)
            for number in range(options.rounds):
                for case, name in turns(options.only, options.systems, number):
                    measure(case, name, command_of(broker, python, case, name), home, options, figures)
    finally:
        shutil.rmtree(home)
    print("\n".join(table(figures, options.rounds)))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each system does each piece of work")
    parser.add_argument("--records", type=int, default=1_500_000, help="how many records the topic has")
    parser.add_argument("--seconds", type=float, default=5, help="how long one measurement takes at most")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES), help="only these cases")
    parser.add_argument("--systems", nargs="*", choices=list(CASES[NO_OP]), default=list(CASES[NO_OP]))
    parser.add_argument("--peers", type=Path, default=environment.DEFAULT, help="the environment of the libraries")
    return parser.parse_args()


@contextmanager
def running_broker(home: Path) -> Iterator[Broker]:
    """Runs `tailrace up` with one SPU on free ports."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(4)]
    names = ("--public", "--private", "--sc", "--sc-private")
    where = [word for pair in zip(names, addresses, strict=True) for word in pair]
    server = Server(home, "up", READY_LINE)
    try:
        ready = server.start(tailrace("up", "--data", str(home / "data"), *where, "--metrics", "off"))
        yield Broker(ready[1], ready[2])
    finally:
        server.kill()


def fill(bootstrap: str, topic: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(topic, SHARDS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(topic, VALUE, partition=number % SHARDS)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(60):
        raise SystemExit(f"{left} records are not delivered")


def turns(cases: Sequence[str], systems: Sequence[str], number: int) -> Iterator[tuple[str, str]]:
    """Yields what to measure in one round: each case with each system, in the opposite order every other time."""
    for case in cases:
        names = [name for name in CASES[case] if name in systems]
        for name in names[::-1] if number % 2 else names:
            yield case, name
        print(f"# {time.strftime('%H:%M:%S')} round {number + 1}: {case}", file=sys.stderr)


def command_of(broker: Broker, python: Path, case: str, name: str) -> list[str]:
    """Returns the command that handles all records in a new group."""
    group, handler = f"bench-{uuid.uuid4().hex[:8]}", BUSY if case == BUSY else NO_OP
    topic = SMALL_TOPIC if case == IDLE else TOPIC
    if name in (QUIX, FAST):
        program = HERE / ("quix_streams.py" if name == QUIX else "fast_stream.py")
        return [str(python), str(program), broker.bootstrap, topic, group, handler]
    function = HERE / f"function_{handler.replace('-', '_')}.py"
    interval = NEVER if case == UNCOMMITTED else "1s"
    return tailrace(
        *("trigger", "run", str(function), "--topic", topic, "--group", group, "--sc", broker.sc),
        *("--seek-to", "earliest", "--max-workers", "2" if name == TWO else "1"),
        *("--commit-interval", interval, "--replica", "replica1"),
    )


def measure(
    case: str, name: str, command: Sequence[str], home: Path, options: argparse.Namespace, figures: Figures
) -> None:
    marks, is_ours = home / f"{uuid.uuid4().hex}.marks", name in (ONE, TWO)
    if case == IDLE:
        share = idle_share(command, marks, SMALL_RECORDS, IDLE_SECONDS, is_ours)
        figures[case, name, SHARE].append(share * 100)
    else:
        for figure, value in measured(command, marks, options.records, options.seconds, is_ours).items():
            figures[case, name, figure].append(value)


def table(figures: Figures, rounds: int) -> list[str]:
    """Returns the rows as a Markdown table; the last column says which goal is reached."""
    median = {key: statistics.median(values) for key, values in figures.items()}
    names = CASES[NO_OP]
    lines = [
        f"{time.strftime('%Y-%m-%d')}; {SHARDS} shards, records of {len(VALUE)} B; medians of {rounds} rounds.",
        "",
        f"| work | unit | {' | '.join(names)} | goal | reached |",
        "|---|---|" + "--:|" * len(names) + "---|---|",
    ]
    for row in ROWS:
        values = [median.get((row.case, name, row.figure)) for name in names]
        if any(value is not None for value in values):
            shown = ["" if value is None else number(value) for value in values]
            lines.append("| " + " | ".join([row.name, row.unit, *shown, *judged(row, median.get)]) + " |")
    return lines


def judged(row: Row, median: Callable[[tuple[str, str, str]], float | None]) -> tuple[str, str]:
    """Returns the goal in words, and which threshold is reached."""
    goal = row.goal
    if goal is None:
        return "", ""
    ours, theirs = median((row.case, goal.system, row.figure)), median(goal.than) if goal.than else None
    if goal.than is None:
        told = f"{goal.system}: ≤ {goal.must:g} {row.unit}"
        return told, "" if ours is None else "must" if ours <= goal.must else "**no**"
    aim = f", aim {goal.aim:g}×" if goal.aim != goal.must else ""
    told = f"{goal.system}: ≥ {goal.must:g}× {goal.than[1]}{aim}"
    if ours is None or theirs is None:
        return told, ""
    ratio = ours / theirs
    verdict = "aim" if ratio >= goal.aim else "must" if ratio >= goal.must else "**no**"
    return told, f"{ratio:.2f}×: {verdict}"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
