"""One function with one set of events has the same log and dead letters live, on Spark and in a unit test."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from brokers import is_apache_kafka
from cluster import Server, Tailrace, tailrace
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from transactions.transaction_readers import values
from waiting import wait_until

from tailrace.pipeline.archive import archive, read_archive, verify
from tailrace.pipeline.engine import EngineResult, backfill, run_trigger
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.trigger.testing import FunctionUnderTest, event

from .kafka_side import PATIENCE_SECONDS, KafkaSide, Row, ToSend
from .session import SUBMIT_ARGUMENTS
from .test_lag import committed

FUNCTION = Path(__file__).with_name("recorded_function.py")
READY = re.compile(r"^ready \S+ of trigger .*$", re.MULTILINE)
SHARDS, EVENTS = 2, 30
DEAD = "__dlq.errors."
CRASHING = 11
"""The place of an event whose worker ends at the first attempt, which a unit test cannot survive."""

DRIVER_SECONDS_MAX = 150
"""How long a driver may take until it handles events; most of it is the start of its JVM."""

Line = tuple[int, int, int, str]
"""Shard, offset, attempt and body of an event that the function got."""


class World:
    """A topic with events, and one run of the function over it after the other, each with a group of its own."""

    def __init__(self, side: KafkaSide, directory: Path, events: int = EVENTS) -> None:
        self.side = side
        self.directory = directory
        self.topic = side.new_topic("trigger", SHARDS, retention_ms="-1")
        self.invoices = side.new_topic("invoices", retention_ms="-1")
        self.function = directory / "billing.py"
        self.function.write_text(FUNCTION.read_text().replace('"invoices"', f'"{self.invoices}"'))
        for shard in range(SHARDS):
            self.produce(shard, events)

    def produce(self, shard: int, count: int) -> None:
        first = self.side.ends(self.topic)[shard]
        offsets = range(first, first + count)
        self.side.send(
            self.topic,
            [
                ToSend(
                    b"%d-%d" % (shard, each), b"k%d" % each, shard, 1_700_000_000_000 + each, (("n", b"1"), ("z", None))
                )
                for each in offsets
            ],
        )

    def events_of(self, group: str) -> Path:
        directory = self.directory / group
        directory.mkdir(exist_ok=True)
        return directory

    def log_of(self, group: str) -> list[Line]:
        """Returns what the function got, in the order of each shard."""
        lines = [
            line.split() for path in self.events_of(group).glob("*.events") for line in path.read_text().splitlines()
        ]
        return sorted((int(shard), int(offset), int(attempt), body) for shard, offset, attempt, body, _ in lines)

    def letters_of(self, group: str) -> list[tuple[Mapping[str, bytes | None], Row]]:
        """Returns the dead letters, with the headers that say why, without what differs from run to run."""
        found = []
        for row in self.side.rows(f"{self.topic}.{group}.dead"):
            headers = {name.removeprefix(DEAD): value for name, value in row.headers if name.startswith(DEAD)}
            assert headers.pop("group") == group.encode()
            found.append((headers, row))
        return sorted(found, key=lambda each: (each[0]["partition"], int(each[0]["offset"] or b"0")))

    def outputs(self) -> list[Row]:
        return self.side.rows(self.invoices)


@pytest.fixture(scope="module")
def world(kafka_side: KafkaSide, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(kafka_side, tmp_path_factory.mktemp("trigger"))


def expected_log(ends: Mapping[int, int]) -> list[Line]:
    return [
        (shard, offset, attempt, f"{shard}-{offset}")
        for shard, end in sorted(ends.items())
        for offset in range(end)
        for attempt in range(1, 3 if offset % 20 in (7, 9, CRASHING) else 2)
    ]


def run_live(world: World, group: str) -> None:
    server = Server(world.directory, group, READY)
    words = ["--topic", world.topic, "--group", group, "--env", f"TAILRACE_TEST_EVENTS={world.events_of(group)}"]
    server.start(tailrace("trigger", "run", str(world.function), *words, "--bootstrap", world.side.bootstrap))
    try:
        ends = world.side.ends(world.topic)
        wait_until(lambda: committed(world.side.bootstrap, group) == ends, PATIENCE_SECONDS, "all events are handled")
    finally:
        assert server.stop() == 0


def run_on_spark(world: World, group: str, session: SparkSession, **more: object) -> Mapping[str, object]:
    result = run_trigger(
        session,
        str(world.function),
        checkpoint=str(world.directory / f"{group}-checkpoint"),
        bootstrap=world.side.bootstrap,
        available_now=True,
        settings={
            "topic": world.topic,
            "group": group,
            "environment": {"TAILRACE_TEST_EVENTS": str(world.events_of(group))},
            **more,
        },
    )
    assert result.is_ok, result.text()
    return result.facts


def run_in_a_unit_test(world: World, group: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, str]]:
    """Calls the function with the same events. Returns the events that fail at their last attempt."""
    monkeypatch.setenv("TAILRACE_TEST_EVENTS", str(world.events_of(group)))
    monkeypatch.setattr(os, "_exit", _crash)
    failed = []
    function = runpy.run_path(str(world.function))["bill"]
    with FunctionUnderTest(function, topic=world.topic) as tested:
        for row in world.side.rows(world.topic):
            for attempt in (1, 2):
                made = event(row.value, key=row.key, shard=row.partition, offset=row.offset, attempt=attempt)
                try:
                    tested.invoke(made)
                    break
                except (ValueError, KeyError, _CrashError) as error:
                    if attempt == 2:
                        failed.append((row.partition, row.offset, str(error)))
    return failed


class _CrashError(Exception):
    """The end of the process."""


def _crash(status: int) -> None:
    raise _CrashError(status)


def test_every_engine_has_the_same_log_and_the_same_dead_letters(
    world: World, spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_live(world, "live")
    after_live = world.outputs()
    facts = run_on_spark(world, "spark", spark_session)
    failed = run_in_a_unit_test(world, "unit", monkeypatch)

    ends = world.side.ends(world.topic)
    assert world.log_of("live") == world.log_of("spark") == world.log_of("unit") == expected_log(ends)
    assert committed(world.side.bootstrap, "spark") == ends
    live, spark = world.letters_of("live"), world.letters_of("spark")
    assert [(headers, row.key, row.value) for headers, row in live] == [
        (headers, row.key, row.value) for headers, row in spark
    ]
    assert failed == [
        (int(headers["partition"] or b""), int(headers["offset"] or b""), (headers["message"] or b"").decode())
        for headers, _ in live
    ]
    of_live = Counter((row.key, row.value, row.headers) for row in after_live)
    assert Counter((row.key, row.value, row.headers) for row in world.outputs()) == of_live + of_live
    handled = sum(ends.values()) - len(spark)
    assert (facts["events"], facts["dead letters"], facts["outputs"]) == (handled, len(spark), handled)


def test_a_topic_of_apache_kafka_has_the_same_log_and_dead_letters(
    apache_kafka: str, spark_session: SparkSession, tmp_path: Path
) -> None:
    world = World(KafkaSide(apache_kafka), tmp_path)
    run_on_spark(world, "spark", spark_session)
    ends = world.side.ends(world.topic)
    assert world.log_of("spark") == expected_log(ends)
    assert committed(apache_kafka, "spark") == ends
    letters = [
        (headers["partition"], headers["offset"], headers["message"]) for headers, _ in world.letters_of("spark")
    ]
    assert letters == [
        (b"%d" % shard, b"%d" % offset, b"no luck with %d-%d" % (shard, offset))
        for shard in range(SHARDS)
        for offset in (7, 27)
    ]


def test_the_next_run_begins_where_any_engine_has_ended(world: World, spark_session: SparkSession) -> None:
    for shard in range(SHARDS):
        world.produce(shard, 3)
    run_live(world, "spark")
    world.produce(0, 4)
    run_on_spark(world, "spark", spark_session)
    ends = world.side.ends(world.topic)
    assert world.log_of("spark") == expected_log(ends), "the checkpoint is older than the group, which counts"


def test_a_backfill_has_the_same_log_and_its_output_exactly_once(
    kafka_side: KafkaSide, spark_session: SparkSession, tmp_path: Path
) -> None:
    world = World(kafka_side, tmp_path)
    source, target = str(tmp_path / "archive"), str(tmp_path / "output")
    archive(spark_session, [world.topic], source, brokers=[world.side.bootstrap])
    for shard in range(SHARDS):
        world.produce(shard, 10)
    archive(spark_session, [world.topic], source, brokers=[world.side.bootstrap])

    def run(group: str, **more: str) -> EngineResult:
        settings = {
            "topic": world.topic,
            "group": group,
            "environment": {"TAILRACE_TEST_EVENTS": str(world.events_of(group))},
        }
        return backfill(spark_session, str(world.function), archive=source, settings=settings, **more)

    (world.events_of("again") / "kill").touch()
    with pytest.raises(JobError):
        run("again", output_archive=target)
    result = run("again", output_archive=target)
    assert result.is_ok, result.text()
    assert result.facts["chunks done before"], "the second chunk of a shard was killed, and not the first"
    assert run("again", output_archive=target).facts["events"] == 0
    where = {"progress": str(tmp_path / "progress"), "bootstrap": world.side.bootstrap}
    handled = [run("topics", **where).facts["events"] for _ in range(2)]

    log = expected_log(world.side.ends(world.topic))
    assert world.log_of("topics") == sorted(set(world.log_of("again"))) == log
    assert verify(spark_session, target).is_ok
    sent, letters = world.outputs(), world.letters_of("topics")
    assert handled == [len(sent), 0]
    assert archived(spark_session, target, world.invoices) == sorted((row.key, row.value, row.headers) for row in sent)
    of_archive = archived(spark_session, target, f"{world.topic}.again.dead")
    assert [(key, value) for key, value, _ in of_archive] == sorted((row.key, row.value) for _, row in letters)


@pytest.mark.parametrize("kind", ["stream", "backfill"])
@pytest.mark.parametrize("brokers", ["bootstrap", "apache_kafka"])
def test_output_is_in_topics_exactly_once_although_a_task_was_killed(
    brokers: str, kind: str, request: pytest.FixtureRequest, spark_session: SparkSession, tmp_path: Path
) -> None:
    world = World(KafkaSide(request.getfixturevalue(brokers)), tmp_path)
    for shard in range(SHARDS):
        world.produce(shard, 20)
    bootstrap, source = world.side.bootstrap, str(tmp_path / "archive")
    environment = {"TAILRACE_TEST_EVENTS": str(world.events_of("once")), "TAILRACE_TEST_SECONDS": "0.005"}
    given = {"topic": world.topic, "group": "once", "guarantee": "exactly-once", "commit_interval": 10}
    settings = {**given, "environment": environment}

    def run() -> EngineResult:
        file = str(world.function)
        if kind == "backfill":
            return backfill(spark_session, file, archive=source, bootstrap=bootstrap, settings=settings)
        checkpoint = str(tmp_path / "checkpoint")
        return run_trigger(
            spark_session, file, checkpoint=checkpoint, bootstrap=bootstrap, available_now=True, settings=settings
        )

    if kind == "backfill":
        archive(spark_session, [world.topic], source, brokers=[bootstrap])
    (world.events_of("once") / "kill").touch()
    with suppress(JobError):
        assert not run().is_ok
    assert not (world.events_of("once") / "kill").exists(), "the task was killed"
    result = run()
    assert result.is_ok, result.text()
    assert run().facts["events"] == 0

    ends = world.side.ends(world.topic)
    assert sorted(set(world.log_of("once"))) == expected_log(ends)
    events = [(shard, offset) for shard, end in ends.items() for offset in range(end)]
    bills = [f'{{"bill":"{shard}-{offset}"}}' for shard, offset in events if offset % 20 != 7]
    assert sorted(values(bootstrap, world.invoices, [0])) == sorted(bills)
    assert len(values(bootstrap, world.invoices, [0], "read_uncommitted")) > len(bills), "some output was aborted"
    letters = values(bootstrap, f"{world.topic}.once.dead", range(SHARDS))
    assert sorted(letters) == sorted(f"{shard}-{offset}" for shard, offset in events if offset % 20 == 7)
    if kind == "stream":
        assert committed(bootstrap, "once") == ends


def archived(
    spark: SparkSession, directory: str, topic: str
) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    rows = read_archive(spark, directory, topics=[topic]).select("key", "value", "headers").collect()
    return sorted(
        (
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()),
        )
        for row in rows
    )


def transact(bootstrap: str, topic: str, values: Sequence[tuple[int, bytes]], *, commit: bool) -> None:
    """Writes records to shards in one transaction, with a stock client, and ends it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    for shard, value in values:
        producer.produce(topic, value, partition=shard)
    producer.flush(PATIENCE_SECONDS)
    if commit:
        producer.commit_transaction(PATIENCE_SECONDS)
    else:
        producer.abort_transaction(PATIENCE_SECONDS)


@pytest.mark.parametrize("brokers", ["bootstrap", "apache_kafka"])
def test_only_committed_records_are_handled_and_marks_pass_aborted_ones_and_markers(
    brokers: str, request: pytest.FixtureRequest, spark_session: SparkSession, tmp_path: Path
) -> None:
    side = KafkaSide(request.getfixturevalue(brokers))
    world = World(side, tmp_path, events=0)
    transact(side.bootstrap, world.topic, [(0, b"0-0"), (0, b"0-1"), (1, b"aborted")], commit=False)
    transact(side.bootstrap, world.topic, [(0, b"0-3"), (0, b"0-4")], commit=True)
    transact(side.bootstrap, world.topic, [(0, b"aborted")], commit=False)
    log = [(0, 3, 1, "0-3"), (0, 4, 1, "0-4")]
    ends = {0: 8, 1: 2}
    assert side.ends(world.topic) == ends
    run_on_spark(world, "committed", spark_session)
    assert world.log_of("committed") == log
    assert committed(side.bootstrap, "committed") == ends, "shard 1 has no record, and 0 ends with an aborted one"
    transact(side.bootstrap, world.topic, [(1, b"aborted")], commit=False)
    run_on_spark(world, "committed", spark_session)
    assert committed(side.bootstrap, "committed") == {0: 8, 1: 4}
    open_producer = Producer({"bootstrap.servers": side.bootstrap, "transactional.id": "open"})
    open_producer.init_transactions(PATIENCE_SECONDS)
    open_producer.begin_transaction()
    open_producer.produce(world.topic, b"1-4", partition=1)
    open_producer.flush(PATIENCE_SECONDS)
    world.produce(1, 1)
    run_on_spark(world, "committed", spark_session)
    assert committed(side.bootstrap, "committed") == {0: 8, 1: 4}, "a transaction is open at 4"
    open_producer.commit_transaction(PATIENCE_SECONDS)
    run_on_spark(world, "committed", spark_session)
    assert world.log_of("committed") == [*log, (1, 4, 1, "1-4"), (1, 5, 1, "1-5")]
    assert committed(side.bootstrap, "committed") == side.ends(world.topic)


def test_a_stopped_shard_ends_the_run_and_the_others_go_on(world: World, spark_session: SparkSession) -> None:
    group = "stopped"
    result = run_trigger(
        spark_session,
        str(world.function),
        checkpoint=str(world.directory / "stopped-checkpoint"),
        bootstrap=world.side.bootstrap,
        available_now=True,
        settings={
            "topic": world.topic,
            "group": group,
            "on_exhausted": "stop",
            "environment": {"TAILRACE_TEST_EVENTS": str(world.events_of(group))},
        },
    )
    assert result.status == 1
    assert result.verdict.startswith(f"shard {world.topic}/0: stopped at offset 7: ValueError: no luck with 0-7")
    assert committed(world.side.bootstrap, group) == {0: 7, 1: 7}


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tailrace]:
    if is_apache_kafka(request):
        pytest.skip("only Tailrace has a Streaming Controller, which knows the driver")
    broker = Tailrace(tmp_path / "cluster")
    broker.start()
    yield broker
    broker.kill()


def test_a_driver_that_is_killed_loses_nothing_and_keeps_replicas_out(
    cluster: Tailrace, spark_session: SparkSession, tmp_path: Path
) -> None:
    world = World(KafkaSide(cluster.bootstrap), tmp_path)
    group, total = "killed", 150
    for shard in range(SHARDS):
        world.produce(shard, total - EVENTS)
    settings = ["--topic", world.topic, "--group", group, "--sc", cluster.sc, "--session-timeout", "6s"]
    settings += ["--heartbeat-interval", "1s", "--env", f"TAILRACE_TEST_EVENTS={world.events_of(group)}"]
    settings += ["--commit-interval", "100ms", "--env", "TAILRACE_TEST_SECONDS=0.005"]
    checkpoint = world.directory / f"{group}-checkpoint"
    words = ["trigger", "run", str(world.function), *settings]
    driver = subprocess.Popen(
        tailrace(*words, "--engine", "spark", "--checkpoint", str(checkpoint), "--master", "local[2]"),
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS},
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "driver.errors").open("wb"),
        text=True,
    )
    try:
        wait_until(lambda: len(world.log_of(group)) > 40, DRIVER_SECONDS_MAX, "some events are handled")
        replica = subprocess.run(
            tailrace(*words, "--engine", "spark", "--replica", "other", "--checkpoint", str(checkpoint)),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert replica.returncode == 1
        assert "spark handles" in replica.stderr
    finally:
        driver.kill()
        driver.wait()
    run = run_trigger(
        spark_session,
        str(world.function),
        checkpoint=str(checkpoint),
        sc=cluster.sc,
        available_now=True,
        settings={
            "topic": world.topic,
            "group": group,
            "session_timeout": 6,
            "heartbeat_interval": 1,
            "environment": {"TAILRACE_TEST_EVENTS": str(world.events_of(group))},
        },
    )
    assert run.is_ok, run.text()
    log = world.log_of(group)
    assert set(log) == set(expected_log(world.side.ends(world.topic)))
