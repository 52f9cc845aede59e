"""Partitions and replicas through SPUs in memory; compat_tests run the commands against Apache Kafka as well."""

import json

import pytest
import trio
from administered import administered, through_brokers

from tailrace.cli.administration.broker_partitions import BrokerPartition
from tailrace.client.admin_client import NewTopic
from tailrace.client.log_facts import Partition

Capture = pytest.CaptureFixture[str]


async def test_partitions_and_replicas_are_shown_with_their_logs(
    autojump_clock: trio.testing.MockClock, capsys: Capture
) -> None:
    async with administered(1, 2) as (cluster, admin):
        await admin.create_topic(NewTopic("orders", rows={0: [2, 1], 1: [1, 2]}))
        assert await cluster.produce(2, "orders", 0, b"value") == 0
        assert await through_brokers(cluster, "partition", "list", "orders") == 0
        assert capsys.readouterr().out == (
            "TOPIC   PARTITION  LEADER  IN SYNC  REPLICAS  OFFLINE  START  END  EPOCH  STATUS\n"
            "orders          0       2  [2, 1]   [2, 1]          -      0    1      0  Online\n"
            "orders          1       1  [1, 2]   [1, 2]          -      0    0      0  Online\n"
        )
        assert await through_brokers(cluster, "partition", "list", "--lagging", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == []
        assert await through_brokers(cluster, "partition", "describe", "orders/0", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert [(each["spuId"], each["lag"]) for each in document["details"]] == [(1, 0), (2, 0)]
        assert all(each["sizeBytes"] > 0 for each in document["details"])
        assert await through_brokers(cluster, "replica", "list", "orders", "--spu", "2", "--output", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert [(each["partition"], each["role"], each["isLive"]) for each in found] == [
            (0, "leader", True),
            (1, "follower", True),
        ]
        assert await through_brokers(cluster, "partition", "describe", "orders", "7") == 1
        assert capsys.readouterr().err == "tailrace partition describe: there is no partition orders/7\n"
        assert await through_brokers(cluster, "partition", "describe", "orders/0", "1") == 2


async def test_a_partition_without_a_leader_is_offline_and_waited_for_by_nobody(
    autojump_clock: trio.testing.MockClock, capsys: Capture
) -> None:
    async with administered(1, 2) as (cluster, admin):
        await admin.create_topic(NewTopic("single", rows={0: [2]}))
        await admin.create_topic(NewTopic("double", rows={0: [2, 1]}))
        await cluster.kill_spu(2)
        await trio.sleep(10)
        began = trio.current_time()
        assert await through_brokers(cluster, "partition", "list", "--lagging", "--output", "json") == 0
        assert trio.current_time() - began < 5
        double, single = json.loads(capsys.readouterr().out)
        assert (double["leader"], double["lrs"], double["offline"], double["logEnd"]) == (1, [1], [2], 0)
        assert (single["leader"], single["resolution"], single["logEnd"]) == (None, "Offline", None)
        assert await through_brokers(cluster, "partition", "describe", "double") == 0
        assert "     2  follower  no         -  -" in capsys.readouterr().out


def test_a_partition_lags_if_a_replica_is_missing_or_there_is_no_leader() -> None:
    name = Partition("orders", 0)
    assert not BrokerPartition(name, 1, 0, (1, 2), (1, 2), ()).is_lagging
    assert BrokerPartition(name, 1, 0, (1, 2), (1,), (2,)).is_lagging
    assert BrokerPartition(name, None, 0, (1,), (1,), ()).is_lagging
