"""`tailrace topic` and `tailrace config` as processes with `--bootstrap`, on Tailrace and on Apache Kafka."""

import json
import os
import subprocess

import pytest
from brokers import private_broker
from cluster import tailrace
from kafka import KafkaConsumer, KafkaProducer
from peer.apache_kafka import ApacheKafka


@pytest.fixture(scope="module", params=["tailrace", "apache-kafka"])
def address(request, tmp_path_factory):
    """Yields the address of a broker of each kind."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "tailrace":
        with private_broker(request, directory) as broker:
            yield broker.bootstrap
        return
    kafka = ApacheKafka(directory)
    try:
        kafka.start()
        yield kafka.bootstrap
    finally:
        kafka.kill()


def run(address, *words, status=0):
    """Runs a command with TAILRACE_BOOTSTRAP, and returns its output and errors."""
    environment = {**os.environ, "TAILRACE_BOOTSTRAP": address}
    done = subprocess.run(tailrace(*words), capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def documents(address, *words):
    return json.loads(run(address, *words, "--output", "json")[0])


def test_a_topic_lives_its_life(address):
    created = ("--partitions", "2", "--config", "retention.ms=86400000", "--wait", "20")
    assert run(address, "topic", "create", "life", *created)[0] == "created topic life\n"
    assert "life" in run(address, "topic", "create", "life", status=1)[1]
    (described,) = documents(address, "topic", "describe", "life")
    assert described["spec"] == {
        "partitions": 2,
        "replicationFactor": 1,
        "configs": {"retention.ms": "86400000"},
    }
    assert described["status"]["replicaMap"] == {"0": [1], "1": [1]}
    run(address, "topic", "alter", "life", "--partitions", "3", "--delete-config", "retention.ms")
    (described,) = documents(address, "topic", "describe", "life")
    assert described["spec"] == {"partitions": 3, "replicationFactor": 1}
    assert "life" in {each["name"] for each in documents(address, "topic", "list")}
    run(address, "topic", "delete", "life")
    assert "there is no topic 'life'" in run(address, "topic", "describe", "life", status=1)[1]


def test_records_are_deleted_up_to_an_offset_and_a_time(address):
    run(address, "topic", "create", "cut", "--wait", "20")
    producer = KafkaProducer(bootstrap_servers=address)
    for number in range(10):
        producer.send("cut", b"%d" % number, timestamp_ms=1_000_000 + 1000 * number)
    producer.close()
    plan = documents(address, "topic", "truncate", "cut/0", "--before", "4")
    assert plan == {
        "executed": False,
        "partitions": [{"topic": "cut", "partition": 0, "start": 0, "newStart": 4, "end": 10, "deletes": 4}],
    }
    assert documents(address, "topic", "offsets", "cut") == [{"topic": "cut", "partition": 0, "start": 0, "end": 10}]
    run(address, "topic", "truncate", "cut/0", "--before", "4", "--execute")
    run(address, "topic", "truncate", "cut", "--before", "1970-01-01T00:16:46Z", "--execute")
    found = documents(address, "topic", "offsets", "cut", "--time", "1970-01-01T00:16:48Z")
    assert found == [{"topic": "cut", "partition": 0, "start": 6, "end": 10, "at": 8}]
    consumer = KafkaConsumer("cut", bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    assert next(consumer).value == b"6"
    consumer.close()
    run(address, "topic", "truncate", "cut", "--before", "end", "--execute")
    assert documents(address, "topic", "offsets", "cut")[0]["start"] == 10


def test_configs_are_set_explained_and_reset(address):
    run(address, "topic", "create", "tuned", "--wait", "20")
    run(address, "config", "set", "topic", "tuned", "retention.ms=60000", "cleanup.policy=compact")
    (retention,) = documents(address, "config", "describe", "topic", "tuned", "retention.ms")
    assert (retention["value"], retention["source"], retention["type"]) == ("60000", "topic", "long")
    assert retention["documentation"]
    assert {each["name"] for each in documents(address, "config", "describe", "topic", "tuned")} == {
        "retention.ms",
        "cleanup.policy",
    }
    listed = [(each["name"], each["value"]) for each in documents(address, "config", "list", "topic")]
    assert ("retention.ms", "60000") in listed
    run(address, "config", "reset", "topic", "tuned", "retention.ms")
    assert [each["name"] for each in documents(address, "config", "describe", "topic", "tuned")] == ["cleanup.policy"]
    everything = documents(address, "config", "describe", "topic", "tuned", "--all")
    assert len(everything) > 20


def test_a_dry_run_and_a_wrong_value_change_nothing(address):
    run(address, "topic", "create", "careful", "--wait", "20")
    shown, _ = run(address, "config", "set", "topic", "careful", "retention.ms=5", "--dry-run")
    assert shown.endswith("Nothing was set: leave out --dry-run to do it.\n")
    run(address, "config", "set", "topic", "careful", "retention.ms=soon", status=1)
    assert documents(address, "config", "describe", "topic", "careful") == []
    _, errors = run(address, "config", "set", "topic", "careful", "retention.millis=5", status=1)
    assert "there is no config 'retention.millis'; did you mean retention." in errors


def test_configs_of_all_brokers_and_of_one(address):
    run(address, "config", "set", "broker", "all", "log.retention.ms=7200000")
    (config,) = documents(address, "config", "describe", "broker", "1", "log.retention.ms")
    assert (config["value"], config["source"]) == ("7200000", "cluster default")
    run(address, "config", "set", "broker", "1", "log.retention.ms=3600000")
    (config,) = documents(address, "config", "describe", "broker", "1", "log.retention.ms")
    assert (config["value"], config["source"]) == ("3600000", "broker")
    run(address, "config", "reset", "broker", "1", "log.retention.ms")
    run(address, "config", "reset", "broker", "all", "log.retention.ms")
    # Kafka stores the size of the in-sync replicas when a cluster is formed.
    left = {each["name"] for each in documents(address, "config", "describe", "broker", "all")}
    assert left <= {"min.insync.replicas"}


def test_configs_of_a_group(address):
    run(address, "config", "set", "group", "billing", "consumer.session.timeout.ms=50000")
    (config,) = documents(address, "config", "describe", "group", "billing")
    assert (config["name"], config["value"], config["source"]) == ("consumer.session.timeout.ms", "50000", "group")
    run(address, "config", "reset", "group", "billing", "consumer.session.timeout.ms")


def test_partitions_and_replicas_are_shown_with_their_logs(address):
    run(address, "topic", "create", "placed", "--partitions", "2", "--wait", "20")
    producer = KafkaProducer(bootstrap_servers=address)
    producer.send("placed", b"value", partition=1).get(20)
    producer.close()
    _, second = documents(address, "partition", "list", "placed")
    assert (second["leader"], second["replicas"], second["lrs"]) == (1, [1], [1])
    assert (second["logStart"], second["logEnd"], second["resolution"]) == (0, 1, "Online")
    assert documents(address, "partition", "list", "placed", "--lagging") == []
    (described,) = documents(address, "partition", "describe", "placed/1")
    (replica,) = described["details"]
    assert (replica["spuId"], replica["lag"]) == (1, 0)
    assert replica["sizeBytes"] > 0
    held = documents(address, "replica", "list", "placed")
    assert [(each["partition"], each["role"], each["isLive"]) for each in held] == [
        (0, "leader", True),
        (1, "leader", True),
    ]


def test_brokers_are_listed(address):
    (broker,) = documents(address, "spu", "list")
    assert (broker["id"], broker["status"]) == (1, "Online")
    assert f"{broker['host']}:{broker['port']}" == address


def test_what_only_the_sc_can_do_is_refused_with_the_way_on(address):
    _, errors = run(address, "spu", "describe", "1", status=2)
    assert errors == (
        "tailrace spu describe: only the SC can answer this, and TAILRACE_BOOTSTRAP names brokers: name the SC of that "
        "cluster with --sc or TAILRACE_SC\n"
    )
    _, errors = run(address, "spu", "describe", "1", "--bootstrap", address, status=2)
    assert errors.startswith("tailrace spu describe: only the SC can answer this, and --bootstrap names brokers: ")
    _, errors = run(address, "topic", "list", "--bootstrap", address, "--sc", "127.0.0.1:1", status=2)
    assert "give only one of them" in errors
    assert "brokers at" in run(address, "status")[0]
    _, errors = run(address, "topic", "create", "x", "--ignore-racks", status=2)
    assert "--ignore-racks is only for the SC" in errors
