"""Spark's jobs continue after the broker restarts, cleanly or not, and get each record exactly once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster import Broker
from pyspark.sql import SparkSession
from waiting import wait_until

from .kafka_side import PATIENCE_SECONDS, KafkaSide
from .spark_side import Job, SparkSide

Restart = Callable[[], None]


@pytest.fixture
def own_side(broker: Broker) -> KafkaSide:
    return KafkaSide(broker.bootstrap)


@pytest.fixture
def own_spark(broker: Broker, spark_session: SparkSession) -> SparkSide:
    return SparkSide(spark_session, broker.bootstrap)


@pytest.fixture(params=["stopped", "killed"])
def restart(request: pytest.FixtureRequest, broker: Broker) -> Restart:
    def restart() -> None:
        if request.param == "stopped":
            broker.stop()
        else:
            broker.kill()
        broker.start()

    return restart


def test_jobs_survive_a_restart_of_the_broker(
    restart: Restart, own_side: KafkaSide, own_spark: SparkSide, job: Job
) -> None:
    """The broker restarts once between two runs of a job with a checkpoint, and once under a running job."""
    topic = own_side.new_topic("outlived", 2)
    source = {"subscribe": topic, "startingOffsets": "earliest"}
    sent = 0

    def send_some() -> None:
        nonlocal sent
        for partition in (0, 1):
            own_side.send_values(topic, range(sent, sent + 100), partition)
        sent += 100

    send_some()
    assert len(job.run_available(own_spark.stream(**source, maxOffsetsPerTrigger=120))) == 2 * sent
    send_some()
    restart()
    send_some()
    assert len(job.run_available(own_spark.stream(**source, maxOffsetsPerTrigger=120))) == 2 * 200

    with job.running(own_spark.stream(**source), processingTime="100 milliseconds") as query:
        send_some()
        wait_until(lambda: len(job.rows) == 2 * sent, PATIENCE_SECONDS, "records are read before the restart")
        restart()
        send_some()
        wait_until(lambda: len(job.rows) >= 2 * sent, PATIENCE_SECONDS, "records are read after the restart")
        assert query.exception() is None
    assert job.rows == own_side.rows(topic)
    # Neither a clean stop nor a crash of the process alone leaves a gap or loses an acknowledged record.
    for partition in (0, 1):
        read = [(row.offset, row.value) for row in job.rows if row.partition == partition]
        assert read == [(number, b"%d" % number) for number in range(sent)]


def test_a_batch_is_written_once_although_the_broker_restarts_meanwhile(
    restart: Restart, own_side: KafkaSide, own_spark: SparkSide
) -> None:
    """The producers resend what was not acknowledged; a broker that forgot what it had would store it twice."""
    topic = own_side.new_topic("interrupted", 2)
    count = 600_000
    frame = own_spark.session.range(0, count, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    # Small batches make many of them in flight at any moment.
    writer = frame.write.format("kafka").options(
        **{"kafka.bootstrap.servers": own_spark.bootstrap, "topic": topic, "kafka.batch.size": "1000"}
    )
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(writer.save)
        wait_until(lambda: sum(own_side.ends(topic).values()) > 1000, PATIENCE_SECONDS, "the write is under way")
        restart()
        assert not writing.done(), "the write was over before the broker was back: make it longer"
        writing.result(PATIENCE_SECONDS)
    written = own_spark.frame(subscribe=topic).selectExpr(
        "count(*) AS rows", "count(DISTINCT value) AS values", "count(DISTINCT partition, offset) AS places"
    )
    assert written.first() == (count, count, count)
