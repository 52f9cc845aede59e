"""Records that the cluster writes itself, to partitions that this SPU or another one leads."""

from typing import Any

import pytest
import trio
import trio.testing
from clusters import cluster_of
from spus import RunningSpu, running_spu

from tailrace.broker.handlers.records.own_records import append_own
from tailrace.protocol.batches.records import read_records


async def _never(*_: Any) -> Any:
    raise AssertionError("this SPU leads the partition")


def _stored(running: RunningSpu) -> list[tuple[bytes | None, bytes | None]]:
    replica = running.replica("audit")
    found = replica.log.read(0, 2**20, replica.log.log_end, at_least_one=True)
    assert found is not None
    return [(each.key, each.value) for each in read_records(found.read())]


async def test_a_missing_topic_is_created(autojump_clock: object) -> None:
    async with running_spu() as running:
        await append_own(running.spu, _never, "audit", b"spu-1", [b"a", b"b"])
        assert _stored(running) == [(b"spu-1", b"a"), (b"spu-1", b"b")]
        assert len(running.spu.cluster.topics["audit"].partitions) == 1


async def test_a_refusal_says_why(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("audit", configs={"max.message.bytes": "1"})
        with pytest.raises(OSError, match="the leader of partition 0 of the topic audit refuses the records: "):
            await append_own(running.spu, _never, "audit", b"spu-1", [b"a"])
        with pytest.raises(OSError, match="the topic a:b cannot be created: "):
            await append_own(running.spu, _never, "a:b", b"spu-1", [b"a"])


async def test_an_audit_log_is_copied_to_its_topic(autojump_clock: object) -> None:
    broker = {"audit.log.enable": "true", "audit.log.topic": "audit"}
    async with running_spu(broker=broker) as running:
        await running.create("orders")
        await trio.sleep(5)
        lines = [value or b"" for key, value in _stored(running) if (key or b"").startswith(b"sc-")]
        assert any(b'"operation":"CreateTopics","resource":"TOPIC:orders"' in line for line in lines)
        assert "\ntailrace_missed_audit_topic_lines_total 0" in await running.scraped()


async def test_the_leader_may_be_another_spu(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of(1, 2, is_encrypted=True) as cluster:
        assert await cluster.create(1, "audit", 1, 2, min_insync_replicas="2") == 0
        for spu in (1, 2):
            await cluster.spus[spu].spu._append_audit("audit", b"k", [b"from %d" % spu])
        ((leader, _),) = (await cluster.leaders(1, "audit")).values()
        replica = cluster.spus[leader].spu.replicas.find("audit", 0)
        assert replica is not None and replica.log.log_end == replica.readable_end == 2
