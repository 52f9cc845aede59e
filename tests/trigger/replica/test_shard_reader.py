"""Tests reads of a shard from a real SPU on a simulated network, and from scripted leaders that move."""

import pytest
import structlog
import trio
from clusters import address_of, cluster_of
from grouped_spu import grouped_spu
from scripted_brokers import ScriptedBroker, scripted_brokers
from simulation.network import MemoryNetwork
from spus import ADDRESS, batch
from structlog.testing import capture_logs

from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.trigger.replica.shard_reader import OutOfRangeError, ShardReader
from tailrace.trigger.work import Output, Shard

SHARD = Shard("orders", 0)


def _reader(network: MemoryNetwork, *addresses: Address) -> ShardReader:
    spus = SpuClient(network, addresses, BOOTSTRAP)
    return ShardReader(spus, SHARD, RandomChance(1), structlog.get_logger())


async def test_a_read_returns_whole_batches_and_the_bounds_of_the_log(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders")
        await spu.produce("orders", 0, 3)
        await spu.produce("orders", 0, 2)
        reader = _reader(spu.network, ADDRESS)
        found = await reader.read(0)
        assert [(header.base_offset, header.next_offset) for _, header in iterate(found.records)] == [(0, 3), (3, 5)]
        assert found.end == 5
        reader.close()


async def test_a_read_without_records_waits_at_the_leader(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders")
        reader = _reader(spu.network, ADDRESS)
        began = trio.current_time()
        assert not (await reader.read(0, wait_seconds=2.0)).records
        assert trio.current_time() - began == pytest.approx(2.0, abs=0.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spu.produce, "orders", 0, 1)
            assert (await reader.read(0, wait_seconds=1000.0)).end == 1
        assert trio.current_time() - began < 10
        reader.close()


async def test_only_committed_records_are_read(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders")
        await spu.produce("orders", 0, 1)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        producer = TransactionalProducer(spus, "id", spu.clock, RandomChance(1))
        reader = _reader(spu.network, ADDRESS)
        await producer.initialize()
        await producer.send([Output("orders", None, b"open")])
        await spu.produce("orders", 0, 1)
        found = await reader.read(0)
        assert ([header.base_offset for _, header in iterate(found.records)], found.end) == ([0], 1)
        assert reader.held_back == 2
        await producer.abort()
        found = await reader.read(1)
        assert [header.base_offset for _, header in iterate(found.records)] == [1, 2, 3], "the last one is the marker"
        assert ([first_offset for _, first_offset in found.aborted], found.end, reader.held_back) == ([1], 4, 0)
        producer.close()
        reader.close()
        spus.close()


async def test_an_offset_that_the_log_does_not_have(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders")
        await spu.produce("orders", 0, 3)
        await spu.delete_records("orders", 0, 2)
        reader = _reader(spu.network, ADDRESS)
        for lost in (1, 4):
            with pytest.raises(OutOfRangeError, match=f"shard orders/0 has no offset {lost}"):
                await reader.read(lost)
        assert (await reader.read(2)).end == 3
        reader.close()


def _answer(code: int = 0, records: bytes | None = None) -> FetchResponse:
    partitions = [PartitionData(0, code, high_watermark=1, log_start_offset=0, records=records)]
    return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=partitions)])


async def test_a_reader_follows_the_leader(autojump_clock: object) -> None:
    def script(broker: ScriptedBroker, _: object) -> FetchResponse:
        if broker.id == 2:
            return _answer(records=batch(b"v"))
        cluster.leaders["orders"] = [2]
        return _answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async with scripted_brokers(script, 1, 2) as cluster:
        cluster.leaders["orders"] = [1]
        reader = _reader(cluster.network, *cluster.bootstrap)
        with capture_logs() as logged:
            assert (await reader.read(0)).records == batch(b"v")
        assert logged == []
        reader.close()


async def test_a_reader_looks_for_another_leader_if_one_is_frozen(autojump_clock: object) -> None:
    async with scripted_brokers(lambda broker, _: _answer(records=batch(b"v")), 1, 2, 3) as cluster:
        cluster.leaders["orders"] = [2]
        cluster.brokers[2].is_frozen = True
        reader = _reader(cluster.network, *cluster.bootstrap)
        async with trio.open_nursery() as nursery:

            async def move() -> None:
                await trio.sleep(1.0)
                cluster.leaders["orders"] = [3]

            nursery.start_soon(move)
            assert (await reader.read(0)).records == batch(b"v")
        assert [each.API_KEY for each in cluster.brokers[3].heard] == [ApiKey.FETCH]
        reader.close()


async def test_a_shard_without_a_leader_is_reported_once(autojump_clock: object) -> None:
    async with scripted_brokers(lambda broker, _: _answer(records=batch(b"v")), 1) as cluster:
        cluster.leaders["orders"] = [-1]
        reader = _reader(cluster.network, *cluster.bootstrap)
        with capture_logs() as logged:
            async with trio.open_nursery() as nursery:

                async def come() -> None:
                    await trio.sleep(60.0)
                    assert reader.problem == "the partition has no leader at the moment"
                    cluster.leaders["orders"] = [1]

                nursery.start_soon(come)
                await reader.read(0)
                reader.confirm()
        assert [each["event"] for each in logged] == ["shard_unreadable", "shard_readable_again"]
        assert reader.problem == ""
        reader.close()


async def test_what_makes_no_sense_is_read_again(autojump_clock: object) -> None:
    async with scripted_brokers(lambda broker, _: _answer(records=batch(b"v")), 1) as cluster:
        cluster.leaders["orders"] = [1]
        reader = _reader(cluster.network, *cluster.bootstrap)
        with capture_logs() as logged:
            for _ in range(3):
                await reader.read(0)
                await reader.pause_after("the batch is corrupt")
            assert reader.problem == "the batch is corrupt"
            await reader.read(0)
            reader.confirm()
            reader.confirm()
        assert [each["event"] for each in logged] == ["shard_unreadable", "shard_readable_again"]
        reader.close()


async def test_a_reader_goes_on_when_the_leader_is_killed(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        assert await cluster.create(1, "orders", 1, 2, min_insync_replicas="1") == 0
        leader = (await cluster.leaders(1, "orders"))[0][0]
        other = 3 - leader
        assert await cluster.produce(leader, "orders", 0, b"a") == 0
        reader = _reader(cluster.world.network, address_of(1), address_of(2))
        assert (await reader.read(0)).end == 1
        await cluster.kill_spu(leader)
        async with trio.open_nursery() as nursery:

            async def produce() -> None:
                while await cluster.produce(other, "orders", 0, b"b"):
                    pass

            nursery.start_soon(produce)
            while not (found := await reader.read(1)).records:
                pass
        assert found.end >= 2
        reader.close()
