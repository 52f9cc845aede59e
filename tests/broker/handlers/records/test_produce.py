"""Produce on a whole SPU: what it stores, what it refuses, and when it responds."""

import gc

import pytest
import trio
from msgspec.structs import replace
from producing import BY_NAME, ask, bounds, request
from spus import RunningSpu, batch, newest, running_spu

from tailrace.protocol import error_codes
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)

EMPTY = (0, 0)


def stored(running: RunningSpu) -> bytes:
    replica = running.replica("t")
    found = replica.log.read(0, 2**20, replica.log.log_end, at_least_one=True)
    assert found is not None
    return found.read()


@pytest.mark.parametrize("version", range(3, 13))
async def test_a_batch_is_stored_as_it_came_with_its_offset_and_epoch(autojump_clock: object, version: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        records = batch(b"a", b"b", compression=Compression.GZIP)
        assert [each.base_offset for each in await ask(client, request(records), version)] == [0]
        assert [each.base_offset for each in await ask(client, request(records, acks=1), version)] == [2]
        first = stored(running)[: len(records)]
        assert first[16:] == records[16:]
        assert (read_header(first).base_offset, read_header(first).leader_epoch) == (0, 0)


@pytest.mark.parametrize("acks", [-1, 2])
async def test_a_refused_request_is_not_kept_after_its_response(autojump_clock: object, acks: int) -> None:
    """The request must be freed before the next garbage collection, which may come after thousands of large
    requests."""
    async with running_spu() as running:
        client = await running.client()
        gc.collect()
        gc.disable()
        try:
            await ask(client, request(batch(b"a"), acks=acks))
            assert [kept for kept in gc.get_objects() if isinstance(kept, ProduceRequest)] == []
        finally:
            gc.enable()


async def test_one_refused_partition_leaves_the_others_alone(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        spoilt = bytearray(batch(b"a"))
        spoilt[-1] ^= 1
        answers = await ask(await running.client(), request(bytes(spoilt), batch(b"b"), batch(b"c")))
        assert [each.error_code for each in answers] == [
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert answers[0].base_offset == -1
        assert answers[0].error_message
        assert bounds(running, 0) == EMPTY
        assert bounds(running, 1) == (0, 1)
        assert running.spu.metrics.produce_errors == 2
        assert running.spu.metrics.produced_batches == 1


@pytest.mark.parametrize(
    ("produce", "error"),
    [
        (request(batch(b"a"), acks=2), ErrorCode.INVALID_REQUIRED_ACKS),
        (request(None), ErrorCode.INVALID_RECORD),
        (request(batch(b"a"), topic="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            request(batch(b"a", is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
    ids=["acks", "null records", "topic", "transactional"],
)
async def test_refused_batches_say_why(autojump_clock: object, produce: ProduceRequest, error: ErrorCode) -> None:
    async with running_spu() as running:
        await running.create("t")
        assert [each.error_code for each in await ask(await running.client(), produce)] == [error]
        assert bounds(running) == EMPTY


async def test_the_records_at_fault_are_named(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"cleanup.policy": "compact"})
        (answer,) = await ask(await running.client(), request(batch(b"a", b"b")))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == [0, 1]
        assert all(each.batch_index_error_message for each in answer.record_errors)
        assert bounds(running) == EMPTY


async def test_topics_are_named_by_id_in_newer_versions(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        produce = request(batch(b"a"))
        produce.topic_data[0].topic_id = topic.id
        response = await client.request(ApiKey.PRODUCE, newest(ApiKey.PRODUCE), produce)
        assert response.responses[0].topic_id == topic.id
        assert response.responses[0].partition_responses[0].error_code == 0
        await running.delete(topic)
        answers = await ask(client, produce, newest(ApiKey.PRODUCE))
        assert answers[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_topic_may_set_append_time_and_compression(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"})
        (answer,) = await ask(await running.client(), request(batch(b"a" * 100, timestamp=5)))
        assert answer.log_append_time_ms == running.world.clock.now_ms()
        kept = stored(running)
        assert read_header(kept).compression is Compression.ZSTD
        assert [(record.timestamp, record.value) for record in read_records(kept)] == [
            (running.world.clock.now_ms(), b"a" * 100)
        ]


async def test_without_acks_there_is_no_response_and_an_error_ends_the_connection(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await client.send(client.encode(ApiKey.PRODUCE, BY_NAME, request(batch(b"a"), acks=0)))
        client._sent.pop()
        (second,) = await ask(client, request(batch(b"b")))
        assert second.base_offset == 1, "the first was stored, and its response did not come"
        await client.send(client.encode(ApiKey.PRODUCE, BY_NAME, request(batch(b"c"), acks=0, topic="nowhere")))
        assert await client.at_end()


async def test_an_acknowledgement_that_takes_too_long_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs={"flush.messages": "1"})
        replica = running.replica("t")
        async with replica.log.disk.lock:  # while this is held, no sync can end
            (late,) = await ask(client, request(batch(b"a"), timeout_ms=200))
            assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert late.base_offset == -1
        (next_one,) = await ask(client, request(batch(b"b"), timeout_ms=200))
        assert (next_one.error_code, next_one.base_offset) == (0, 1)


async def test_acks_1_waits_for_the_leaders_disk_and_for_no_follower(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs={"flush.messages": "1"})
        replica = running.replica("t")
        both = SpuId(1), SpuId(2)
        replica.use_spec(replace(replica.spec, replicas=both, live_replicas=both, epoch=Epoch(5)))
        replica.begin_leading()
        replica.is_merging = False
        (answer,) = await ask(client, request(batch(b"a"), acks=1, timeout_ms=200))
        assert (answer.error_code, answer.base_offset, replica.log.synced_end) == (0, 0, 1)
        (answer,) = await ask(client, request(batch(b"b"), acks=-1, timeout_ms=200))
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        async with replica.log.disk.lock:  # while this is held, no sync can end
            (answer,) = await ask(client, request(batch(b"c"), acks=1, timeout_ms=200))
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_producer_that_disconnects_while_it_waits_is_forgotten(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs={"flush.messages": "1"})
        replica = running.replica("t")
        async with replica.log.disk.lock:
            await client.send(client.encode(ApiKey.PRODUCE, BY_NAME, request(batch(b"a"), timeout_ms=10_000)))
            await trio.testing.wait_all_tasks_blocked()
            client.connection.close()
            await trio.testing.wait_all_tasks_blocked()
        (other,) = await ask(await running.client(), request(batch(b"b")))
        assert other.base_offset == 1


async def test_a_response_may_contain_the_longest_possible_name(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        (answer,) = await ask(client, request(batch(b"a"), topic="x" * 32_767), version=8)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_response_that_its_version_cannot_express_closes_one_connection(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is so even if the replica finds out, while it acknowledges other requests as well."""
    monkeypatch.setattr(error_codes, "MESSAGE_CHARACTERS_MAX", 40_000)  # otherwise there is no such response
    async with running_spu() as running:
        await running.create("t", configs={"flush.messages": "1"})
        unlucky, client = await running.client(), await running.client()
        topics = request(batch(b"a")).topic_data + request(batch(b"b"), topic="x" * 32_767).topic_data
        async with running.replica("t").log.disk.lock:  # while this is held, no sync can end
            asked = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
            await unlucky.send(unlucky.encode(ApiKey.PRODUCE, 8, asked))
            await client.send(client.encode(ApiKey.PRODUCE, 8, request(batch(b"c"))))
            await trio.testing.wait_all_tasks_blocked()
        assert await unlucky.at_end()
        response: ProduceResponse = await client.response()
        assert response.responses[0].partition_responses[0].base_offset == 1
        assert running.spu.metrics.server.failed_requests == 1
