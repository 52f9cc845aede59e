"""Spark's Kafka source and sink, and our jobs, on a cluster with TLS, logins, client certificates and access rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from java_stores import java_stores
from pyspark.sql import SparkSession
from secured_broker import CERTIFICATE, MECHANISMS, PASSWORD, SecuredBroker, SecuredTailrace
from security_page import example
from waiting import wait_until

from tailrace.cli.main import main
from tailrace.pipeline.archive import read_archive
from tailrace.pipeline.lag import attach

from .kafka_side import PATIENCE_SECONDS, KafkaSide, committed

WAYS = [*(("SASL_SSL", mechanism) for mechanism in MECHANISMS), ("SSL", CERTIFICATE), ("SSL", "stores of Java")]
RECORDS = 100
ACCESS_RULES = {"authorizer.class.name": "tailrace", "super.users": "User:ANONYMOUS;User:alice"}
CLIENT_CONFIG = "TAILRACE_CLIENT_CONFIG"


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    if request.config.getoption("--broker") != "tailrace":
        pytest.skip("Apache Kafka gets its users in another way")
    broker = SecuredTailrace(tmp_path_factory.mktemp("secured"), ACCESS_RULES)
    try:
        yield broker.start()
        assert PASSWORD not in broker.errors()
    finally:
        broker.stop()


def options(broker: SecuredBroker, protocol: str, mechanism: str, directory: Path) -> dict[str, str]:
    """Returns the options of Spark's source and sink."""
    if mechanism == "stores of Java":
        properties = java_stores(broker, directory)
    else:
        properties = broker.properties(protocol, mechanism)
    return {f"kafka.{name}": value for name, value in properties.items()} | {
        "kafka.bootstrap.servers": broker.address(protocol)
    }


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_spark_writes_and_reads(
    secured: SecuredBroker, spark_session: SparkSession, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    topic = KafkaSide(secured.open_address).new_topic("secured")
    chosen = options(secured, protocol, mechanism, tmp_path)
    frame = spark_session.range(RECORDS).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("kafka").options(**chosen, topic=topic).save()
    found = spark_session.read.format("kafka").options(**chosen, subscribe=topic).load()
    values = [int(row.value) for row in found.selectExpr("CAST(value AS STRING)").collect()]
    assert sorted(values) == [*range(RECORDS)]


def test_the_example_of_the_page_sends_a_record(secured: SecuredBroker, spark_session: SparkSession) -> None:
    kafka = KafkaSide(secured.open_address)
    topic = kafka.new_topic("page")
    exec(compile(example("Spark", secured, topic), "page", "exec"), {"spark": spark_session})
    assert [row.value for row in kafka.rows(topic)] == [b"from Spark"]


def test_a_stream_copies_records_and_shows_its_lag(
    secured: SecuredBroker, spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = KafkaSide(secured.open_address)
    source, target = kafka.new_topic("from", 2), kafka.new_topic("to")
    kafka.send_values(source, range(RECORDS))
    config = tmp_path / "client.properties"
    write_properties(config, secured.properties("SASL_SSL", "SCRAM-SHA-256"))
    monkeypatch.setenv(CLIENT_CONFIG, str(config))
    reads = options(secured, "SASL_SSL", "SCRAM-SHA-512", tmp_path)
    writes = options(secured, "SSL", CERTIFICATE, tmp_path)
    frame = spark_session.readStream.format("kafka").options(**reads, subscribe=source, startingOffsets="earliest")
    group = f"{source}-copy"
    with attach(spark_session, group, interval_seconds=0.1):
        writer = frame.load().writeStream.format("kafka").options(**writes, topic=target)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            ends = {0: RECORDS, 1: 0}
            wait_until(
                lambda: committed(secured.open_address, group) == ends, PATIENCE_SECONDS, "the lag of the stream"
            )
        finally:
            query.stop()
    assert sorted(int(row.value or b"") for row in kafka.rows(target)) == [*range(RECORDS)]


def test_an_archive_logs_in_to_spus_and_to_the_sc_that_has_its_head(
    secured: SecuredBroker,
    spark_session: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka = KafkaSide(secured.open_address)
    topic = kafka.new_topic("archived", 2, retention_ms="-1")
    kafka.send_values(topic, range(RECORDS))
    to, where = str(tmp_path / "archive"), ("--bootstrap", secured.tls_address)
    words = ("pipeline", "archive", "run", topic, "--to", to, *where, "--sc", secured.sc_address)
    config = tmp_path / "client.properties"
    write_properties(config, secured.properties("SASL_SSL", "SCRAM-SHA-512"))
    # What `--conf spark.executorEnv.TAILRACE_CLIENT_CONFIG=FILE` does.
    monkeypatch.setitem(spark_session.sparkContext.environment, CLIENT_CONFIG, str(config))
    monkeypatch.setenv(CLIENT_CONFIG, str(config))
    assert main([*words]) == 0, capsys.readouterr().err
    assert main(["pipeline", "archive", "verify", to, *where]) == 0, capsys.readouterr().err
    assert f"has {RECORDS} records of 2 partitions exactly once" in capsys.readouterr().out
    assert read_archive(spark_session, to, topics=[topic]).count() == RECORDS


def write_properties(path: Path, settings: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
