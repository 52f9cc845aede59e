"""Tests requests to leaders about logs; `test_consume_command.py` tests the output."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grouped_spu import grouped_spu
from scripted_brokers import Script, ScriptedBroker, ScriptedBrokers, scripted_brokers
from spus import ADDRESS, batch

from tailrace.client.log_client import EARLIEST, LATEST, Fetched, LogClient, ProducerName
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.init_producer_id import InitProducerIdResponse
from tailrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.work import Output

HERE, THERE = Partition("orders", 0), Partition("orders", 1)


async def test_pages_are_read_between_the_bounds_also_if_records_were_deleted(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        for _ in range(3):
            await spu.produce("orders", 0, 4, timestamp=1_000)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = LogClient(spus)
        found = [page async for page in client.pages({HERE: LogEnds(2, 9), THERE: LogEnds(0, 0)})]
        assert [(page.first, page.end) for page in found] == [(2, 4), (4, 8), (8, 9)]
        assert [record.offset for page in found for record in page.records] == list(range(2, 9))
        await spu.delete_records("orders", 0, 5)
        found = [page async for page in client.pages({HERE: LogEnds(0, 12)})]
        assert [record.offset for page in found for record in page.records] == list(range(5, 12))
        spus.close()


async def test_pages_have_committed_records_only(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client, producer = LogClient(spus), TransactionalProducer(spus, "id", spu.clock, RandomChance(1))
        for value in (b"lost", b"kept"):
            await producer.initialize()
            await producer.send([Output("orders", None, value)])
            await (producer.commit("any", {}) if value == b"kept" else producer.abort())
        found = [page async for page in client.pages({HERE: LogEnds(0, 4)})]
        assert [record.value for page in found for record in page.records] == [b"kept"]
        assert found[-1].end == 4
        producer.close()
        spus.close()


async def test_where_logs_begin_and_end(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 0, 5, timestamp=1_000)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = LogClient(spus)
        nowhere = Partition("nope", 0)
        found = await client.ends([HERE, THERE, nowhere])
        assert (found[HERE], found[THERE]) == (LogEnds(0, 5), LogEnds(0, 0))
        assert isinstance(found[nowhere], RefusedError)
        assert await client.offsets_at([HERE, THERE], 1_002) == {HERE: 2, THERE: -1}
        assert await client.offsets_at([HERE], EARLIEST) == {HERE: 0}
        assert await client.offsets_at([HERE], LATEST) == {HERE: 5}
        # Beyond the end, and of what is not there, nobody can tell the time.
        assert await client.timestamps({HERE: 3, THERE: 9, nowhere: 0}) == {HERE: 1_003, THERE: None, nowhere: None}
        partitions = await client.partitions(["orders", "nope"])
        assert partitions["orders"] == [HERE, THERE]
        assert isinstance(partitions["nope"], RefusedError)
        spus.close()


@asynccontextmanager
async def _scripted(script: Script, *ids: int) -> AsyncIterator[tuple[LogClient, ScriptedBrokers]]:
    async with scripted_brokers(script, *ids) as cluster:
        cluster.leaders["orders"] = list(ids or (1,))
        spus = SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)
        yield LogClient(spus), cluster
        spus.close()


def _appended(code: int = 0, offset: int = -1) -> ProduceResponse:
    partitions = [PartitionProduceResponse(0, code, offset)]
    return ProduceResponse([TopicProduceResponse("orders", partition_responses=partitions)])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
async def test_a_batch_that_was_not_taken_for_now_is_sent_again(autojump_clock: object, code: ErrorCode) -> None:
    answers = [_appended(code), _appended(code), _appended(0, 7)]
    async with _scripted(lambda broker, request: answers.pop(0)) as (client, cluster):
        assert await client.append({HERE: batch(b"v")}, -1) == {HERE: 7}
        sent = [each for each in cluster.brokers[1].heard if each.API_KEY == ApiKey.PRODUCE]
        assert [bytes(each.topic_data[0].partition_data[0].records) for each in sent] == [batch(b"v")] * 3
        assert {each.acks for each in sent} == {-1}


async def test_a_batch_that_was_there_already_is_there() -> None:
    answer = _appended(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    async with _scripted(lambda broker, request: answer) as (client, _):
        assert await client.append({HERE: batch(b"v")}, -1) == {HERE: None}


async def test_a_batch_that_nobody_will_take_is_refused_at_once() -> None:
    async with _scripted(lambda broker, request: _appended(ErrorCode.INVALID_RECORD)) as (client, _):
        (answer,) = (await client.append({HERE: batch(b"v")}, 1)).values()
        assert isinstance(answer, RefusedError)
        assert answer.code == ErrorCode.INVALID_RECORD


async def test_every_leader_is_asked_for_its_partitions(autojump_clock: object) -> None:
    def script(broker: ScriptedBroker, request: Any) -> FetchResponse:
        (wanted,) = request.topics[0].partitions
        data = PartitionData(wanted.partition, high_watermark=9, records=b"from %d" % wanted.fetch_offset)
        return FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[data])])

    async with _scripted(script, 1, 2) as (client, _):
        found = await client.fetch({HERE: 5, THERE: 6})
        assert found == {HERE: Fetched(b"from 5", 9), THERE: Fetched(b"from 6", 9)}


async def test_a_producer_has_a_name(autojump_clock: object) -> None:
    loading = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answers = [loading, InitProducerIdResponse(producer_id=7, producer_epoch=2)]
    async with _scripted(lambda broker, request: answers.pop(0)) as (client, _):
        assert await client.producer_name() == ProducerName(7, 2)


async def test_who_would_not_show_what_is_uncommitted_is_not_asked(autojump_clock: object) -> None:
    def hang_up(broker: ScriptedBroker, request: Any) -> None:
        broker.connections[-1].close()

    async with _scripted(hang_up, 1) as (client, _):
        with pytest.raises(
            RefusedError, match="the leader of orders/0 closed the connection; only SPUs of Tailrace send"
        ):
            await client.check_shows_uncommitted([HERE])
