"""Tests reading with a whole SPU; and with scripted brokers for what an SPU shows only briefly."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from grouped_spu import GroupedSpu, grouped_spu
from scripted_brokers import scripted_brokers
from spus import ADDRESS

from tailrace.client.log_facts import Partition
from tailrace.pipeline.brokers.broker_reading import EARLIEST, LATEST, BrokerClient, BrokerRange
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.log_gaps import Gap
from tailrace.pipeline.segments.log_pieces import LogPiece
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.runtime.chance import RandomChance

ORDERS = Partition("orders", 0)


@asynccontextmanager
async def _client() -> AsyncIterator[tuple[BrokerClient, GroupedSpu]]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        client = BrokerClient(spu.network, [str(ADDRESS)], RandomChance(1))
        yield client, spu
        client.close()


async def _range(client: BrokerClient, start: int, end: int) -> BrokerRange:
    (topic,) = await client.topics(["orders"])
    return BrokerRange("orders", topic.id, 0, start, end)


async def _read(client: BrokerClient, wanted: BrokerRange) -> list[LogPiece]:
    return [each async for each in client.pieces(wanted)]


def _offsets(pieces: list[LogPiece]) -> list[int]:
    found = [piece.arrow(("offset",)) for piece in pieces]
    return [offset for each in found if each is not None for offset in each.column(0).to_pylist()]


async def test_a_range_is_read_without_the_records_around_it(autojump_clock: object) -> None:
    async with _client() as (client, spu):
        for _ in range(4):
            await spu.produce("orders", 0, 5)
        pieces = await _read(client, await _range(client, 3, 17))
        assert _offsets(pieces) == list(range(3, 17))
        assert (pieces[0].start, pieces[-1].end) == (3, 17)
        assert all(each.gaps == () for each in pieces)
        assert await client.offsets_at([ORDERS], EARLIEST) == {ORDERS: 0}
        assert await client.offsets_at([ORDERS], LATEST) == {ORDERS: 20}


async def test_topics_have_ids_and_partitions(autojump_clock: object) -> None:
    async with _client() as (client, _):
        (topic,) = await client.topics(None)
        assert (topic.name, topic.partitions, bool(topic.id.int)) == ("orders", (0, 1), True)
        with pytest.raises(JobError, match="topic nope does not exist: `tailrace topic list` shows the topics"):
            await client.topics(["orders", "nope"])


async def test_deleted_records_are_a_gap(autojump_clock: object) -> None:
    async with _client() as (client, spu):
        await spu.produce("orders", 0, 5)
        await spu.produce("orders", 0, 5)
        await spu.delete_records("orders", 0, 7)
        pieces = await _read(client, await _range(client, 2, 10))
        assert pieces[0].gaps == (Gap(2, 6, "deleted"),)
        assert _offsets(pieces) == [7, 8, 9]
        (only,) = await _read(client, await _range(client, 2, 5))
        assert (only.start, only.end, only.gaps) == (2, 5, (Gap(2, 4, "deleted"),))


async def test_a_topic_that_was_made_again_is_another(autojump_clock: object) -> None:
    async with _client() as (client, spu):
        await spu.produce("orders", 0, 5)
        with pytest.raises(JobError, match="topic orders was deleted and made again while the job read it"):
            await _read(client, BrokerRange("orders", UUID(int=7), 0, 0, 5))


async def test_an_end_that_no_leader_has_is_an_error(autojump_clock: object) -> None:
    async with _client() as (client, spu):
        await spu.produce("orders", 0, 5)
        with pytest.raises(JobError, match="orders/0 cannot be read: its leader has no records from offset 5 on"):
            await _read(client, await _range(client, 0, 6))


async def test_another_leader_goes_on_where_the_first_one_failed(autojump_clock: object) -> None:
    def answer(broker: Any, request: Any) -> Any:
        assert request.API_KEY == ApiKey.FETCH
        (wanted,) = request.topics[0].partitions
        if broker.id == 1 and wanted.fetch_offset == 2:
            cluster.leaders["orders"] = [2]
            return _fetched(PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        offset = wanted.fetch_offset
        records = build_batch([Record(each, 0, None, b"v") for each in (offset, offset + 1)], base_offset=offset)
        return _fetched(PartitionData(0, 0, 4, records=bytes(records)))

    async with scripted_brokers(answer, 1, 2) as cluster:
        cluster.leaders["orders"] = [1]
        client = BrokerClient(cluster.network, [str(each) for each in cluster.bootstrap], RandomChance(1))
        pieces = await _read(client, BrokerRange("orders", UUID(int=0), 0, 0, 4))
        assert _offsets(pieces) == [0, 1, 2, 3]
        client.close()


def _fetched(partition: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[partition])])


async def test_a_wrong_address_is_refused() -> None:
    with pytest.raises(JobError, match="--bootstrap"):
        BrokerClient(None, ["nowhere"], RandomChance(1))  # type: ignore[arg-type]
