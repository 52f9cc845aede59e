"""`tailrace trigger run --engine spark` over a topic with transactions, and what its function did, seen from outside.

- Every committed record is handled, and no other one. In each shard, events are handled for the first time in order.
- Every handled event has its output. With exactly-once, readers of committed records see it once.
- In the end, the marks of the group are the ends of the log, behind aborted records and markers too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from chaos.records import Log, Place, stored
from cluster import tailrace
from msgspec import Struct
from pipeline.running_job import ENVIRONMENT, LOCAL, RunningJob
from spark.kafka_side import KafkaSide, committed
from spark.session import HERE, JARS
from spu_cluster import SeparateCluster

TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
OUTPUT, OUTPUT_PARTITIONS = "invoices", 2
PLACES: list[Place] = [(TOPIC, partition) for partition in range(PARTITIONS)]
OUTPUT_PLACES: list[Place] = [(OUTPUT, partition) for partition in range(OUTPUT_PARTITIONS)]
FUNCTION = Path(__file__).with_name("billing_function.py")
ENGINE_ENVIRONMENT = ENVIRONMENT | {
    "PYSPARK_SUBMIT_ARGS": (
        "--driver-java-options '-XX:+UseSerialGC -XX:TieredStopAtLevel=1' "
        "--conf 'spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1' "
        f"--conf spark.jars.ivySettings={HERE / 'ivysettings.xml'} --conf spark.jars.ivy={JARS} "
        f"{ENVIRONMENT['PYSPARK_SUBMIT_ARGS']}"
    )
}
SESSION_SECONDS = 6
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
LINE_BYTES = 20
"""About how long a line of the function is."""


class EventSeen(Struct, frozen=True, order=True):
    """An event that the function got."""

    time_ns: int
    shard: int
    offset: int


class RunningEngine:
    """One trigger, and all its runs on Spark."""

    def __init__(self, cluster: SeparateCluster, directory: Path, checkpoint: Path, guarantee: str) -> None:
        self._cluster = cluster
        self._directory = directory
        self._checkpoint = checkpoint
        self._guarantee = guarantee
        self._archive = directory / "archive"
        self._events = directory / "events"
        self._events.mkdir()
        self.runs: list[RunningJob] = []

    def run(self, *words: str) -> RunningJob:
        """Starts a run over the topic."""
        flags = {
            "engine": "spark",
            "checkpoint": str(self._checkpoint),
            "seek-to": "earliest",
            "session-timeout": f"{SESSION_SECONDS}s",
        }
        return self._start(["trigger", "run", str(FUNCTION)], flags, words)

    def backfill(self, *words: str) -> RunningJob:
        """Starts a run over the archive of the topic."""
        return self._start(["trigger", "backfill", str(FUNCTION)], {"archive": str(self._archive)}, words)

    def _start(self, command: Sequence[str], flags: Mapping[str, str], words: Sequence[str]) -> RunningJob:
        of_both = {
            "topic": TOPIC,
            "group": GROUP,
            "guarantee": self._guarantee,
            "sc": self._cluster.sc,
            "env": f"TAILRACE_TEST_EVENTS={self._events}",
        }
        given = [word for flag, value in (of_both | flags).items() for word in (f"--{flag}", value)]
        started = RunningJob(self._directory, "engine", tailrace(*command, *given, *words), ENGINE_ENVIRONMENT)
        self.runs.append(started)
        return started

    def archive(self) -> None:
        """Copies the topic to the archive."""
        where = ("--to", str(self._archive), "--bootstrap", self._cluster.bootstrap, *LOCAL)
        run = RunningJob(self._directory, "archive", tailrace("pipeline", "archive", "run", TOPIC, *where))
        self.runs.append(run)
        assert run.wait() == 0, run.said()

    def end(self) -> None:
        for each in self.runs:
            each.end()

    def finish(self) -> None:
        """Handles what is left, in a run that ends by itself."""
        run = self.run("--available-now", *LOCAL)
        assert run.wait() == 0, run.said()

    def wait_for_events(self, run: RunningJob, count: int = 50) -> None:
        """Waits until the function has got so many more events, and the run still goes on."""
        wanted = self._written() + count * LINE_BYTES
        assert run.wait_for(lambda: self._written() >= wanted, f"{count} more events"), run.said()

    def _written(self) -> int:
        return sum(path.stat().st_size for path in self._events.glob("*.events"))

    def seen(self) -> list[EventSeen]:
        """Returns the events that the function got, in the order of time."""
        lines = [line.split() for path in self._events.glob("*.events") for line in path.read_text().splitlines()]
        return sorted(EventSeen(int(at), int(shard), int(offset)) for shard, offset, at in lines)

    def contradictions(self, starts: Mapping[Place, int], *, of_archive: bool = False) -> list[str]:
        """Compares what the function got with what stock clients read at the end.

        A backfill of the archive commits nothing to the group of the trigger.
        """
        bootstrap = self._cluster.bootstrap
        logs, bills = stored(bootstrap, PLACES), stored(bootstrap, OUTPUT_PLACES)
        values = [value.decode() for log in bills.values() for _, value in log]
        found = handling_contradictions(self.seen(), logs, starts) + output_contradictions(values, logs)
        twice = repeats(values) if self._guarantee == EXACTLY_ONCE else []
        if twice:
            found.append(f"{len(twice)} outputs are there more than once: {twice[:5]}")
        marks, ends = committed(bootstrap, GROUP), KafkaSide(bootstrap).ends(TOPIC)
        if marks != ends and not of_archive:
            found.append(f"the group has committed {marks}, and the logs end at {ends}")
        return found


def handling_contradictions(
    seen: Iterable[EventSeen], logs: Mapping[Place, Log], starts: Mapping[Place, int]
) -> list[str]:
    """Compares what the function got with the committed records. Those before `starts` may have been deleted first."""
    firsts: dict[int, dict[int, None]] = {partition: {} for _, partition in logs}
    for each in seen:
        firsts[each.shard].setdefault(each.offset)
    found = []
    for place, log in logs.items():
        offsets, known = list(firsts[place[1]]), {offset for offset, _ in log}
        missing = sorted(known - set(offsets))
        extra = [each for each in offsets if each not in known and each >= starts.get(place, 0)]
        if missing:
            found.append(f"{place}: {len(missing)} committed records were not handled: {missing[:5]}")
        if extra:
            found.append(f"{place}: {len(extra)} events are no committed records: {extra[:5]}")
        if offsets != sorted(offsets):
            found.append(f"{place}: events were first handled out of order")
    return found


def output_contradictions(values: Sequence[str], logs: Mapping[Place, Log]) -> list[str]:
    """Compares the output with the committed records. Each of them must have one output at least."""
    wanted = {f"{partition} {offset}" for (_, partition), log in logs.items() for offset, _ in log}
    missing = sorted(wanted - set(values))
    return [f"{len(missing)} events have no output: {missing[:5]}"] if missing else []


def repeats(values: Sequence[str]) -> list[str]:
    """Returns the outputs that are there more than once."""
    return sorted(value for value, times in Counter(values).items() if times > 1)
