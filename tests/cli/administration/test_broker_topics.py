"""Topics through SPUs in memory; compat_tests run the commands against Apache Kafka as well."""

import json
from pathlib import Path

import pytest
import trio
from administered import administered, through_brokers

Capture = pytest.CaptureFixture[str]


async def test_topics_are_created_from_options_and_files(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "topic.yaml"
    path.write_text("{kind: topic, name: filed, spec: {replicaMap: {0: [1], 1: [1]}, configs: {retention.ms: 5000}}}")
    async with administered(1) as (cluster, _):
        given = ("given", "--partitions", "3", "--replication-factor", "1", "--wait", "5")
        assert await through_brokers(cluster, "topic", "create", *given) == 0
        assert await through_brokers(cluster, "topic", "create", "--file", str(path)) == 0
        assert capsys.readouterr().out == "created topic given\ncreated topic filed\n"
        assert await through_brokers(cluster, "topic", "list", "--output", "json") == 0
        filed, listed = json.loads(capsys.readouterr().out)
        assert (filed["name"], filed["spec"]["configs"]) == ("filed", {"retention.ms": "5000"})
        assert listed["spec"] == {"partitions": 3, "replicationFactor": 1}
        assert await through_brokers(cluster, "topic", "describe", "filed") == 0
        assert "Config retention.ms: 5000" in capsys.readouterr().out
        assert await through_brokers(cluster, "topic", "delete", "given") == 0


async def test_a_document_of_a_broker_creates_the_topic_again(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "topic.json"
    async with administered(1, 2) as (cluster, admin):
        created = ("--partitions", "2", "--replication-factor", "2", "--config", "retention.ms=1000")
        assert await through_brokers(cluster, "topic", "create", "orders", *created) == 0
        capsys.readouterr()
        assert await through_brokers(cluster, "topic", "describe", "orders", "--output", "json") == 0
        path.write_text(capsys.readouterr().out)
        assert await through_brokers(cluster, "topic", "delete", "orders") == 0
        assert await through_brokers(cluster, "topic", "create", "--file", str(path)) == 0
        (topic,) = await admin.topics()
        assert [len(each.replica_nodes) for each in topic.partitions] == [2, 2]


async def test_a_partition_without_a_leader_is_the_reason_of_a_topic(
    autojump_clock: trio.testing.MockClock, capsys: Capture
) -> None:
    async with administered(1, 2) as (cluster, _):
        assert await cluster.create(1, "orders", 2, 1) == 0
        await cluster.kill_spu(2)
        await trio.sleep(10)
        assert await through_brokers(cluster, "topic", "list", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert document["status"]["reason"] == "1 of 2 partitions have no leader"


async def test_what_a_broker_cannot_do_is_wrong_usage(autojump_clock: trio.testing.MockClock, capsys: Capture) -> None:
    async with administered(1) as (cluster, _):
        assert await through_brokers(cluster, "topic", "list", "--deleted") == 2
        assert "--deleted is only for the SC: name it with --sc instead of --bootstrap" in capsys.readouterr().err
        assert await through_brokers(cluster, "topic", "create") == 2
        assert await through_brokers(cluster, "topic", "create", "orders", "--partitions", "0") == 2
        assert "partitions: 0 is not a whole number from 1 to" in capsys.readouterr().err
        assert await through_brokers(cluster, "topic", "create", "--file", "topics.yaml", "--partitions", "2") == 2
        assert "--file: write partitions" in capsys.readouterr().err
        assert await through_brokers(cluster, "topic", "describe", "missing") == 1
        assert capsys.readouterr().err.endswith("tailrace topic describe: there is no topic 'missing'\n")
        assert await through_brokers(cluster, "topic", "undelete", "orders") == 2
        assert capsys.readouterr().err == (
            "tailrace topic undelete: only the SC can answer this, and --bootstrap names brokers: name the SC of that "
            "cluster with --sc or TAILRACE_SC\n"
        )
