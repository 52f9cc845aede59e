"""Produce against a whole SPU: what is stored, what is refused, and when a producer hears of it."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec.structs import replace
from simulation.client import WireClient
from spus import RunningSpu, batch, newest, running_spu

from tailrace.broker.handlers.records.refused_batches import BEHIND_SECONDS_MAX
from tailrace.protocol import error_codes
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.storage.log import log

BY_NAME = 12
EMPTY = (0, 0)


def request(*records: bytes | None, acks: int = -1, topic: str = "t", timeout_ms: int = 1000) -> ProduceRequest:
    """Each goes to the partition of its place in line."""
    data = [PartitionProduceData(partition, each) for partition, each in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


async def ask(client: WireClient, produce: ProduceRequest, version: int = BY_NAME) -> list[PartitionProduceResponse]:
    response: ProduceResponse = await client.request(ApiKey.PRODUCE, version, produce)
    return response.responses[0].partition_responses


def bounds(running: RunningSpu, partition: int = 0) -> tuple[int, int]:
    """Where the log of a partition starts and ends."""
    replica = running.replica("t", partition)
    return replica.log.log_start, replica.log.log_end


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
async def test_a_refused_request_is_gone_when_it_is_answered(autojump_clock: object, acks: int) -> None:
    """Not only when garbage is collected: that may be after thousands, of megabytes each."""
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
            ErrorCode.INVALID_TXN_STATE,
        ),
    ],
    ids=["acks", "null records", "topic", "transactional"],
)
async def test_what_cannot_be_stored_says_why(
    autojump_clock: object, produce: ProduceRequest, error: ErrorCode
) -> None:
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


async def test_a_repeated_batch_gets_its_first_offset_and_is_stored_once(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        first, second, gap = (
            batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1, 3)
        )
        for records in (first, second):
            await ask(client, request(records))
        (again,) = await ask(client, request(first))
        assert (again.error_code, again.base_offset) == (0, 0)
        (refused,) = await ask(client, request(gap))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert bounds(running) == (0, 2)


@pytest.mark.parametrize("stored_before", [0, 1])
async def test_what_was_sent_right_behind_a_refused_batch_is_refused_like_it(
    autojump_clock: object, stored_before: int
) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        batches = [batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in range(3)]
        for records in batches[:stored_before]:
            await ask(client, request(records))
        first, second = batches[stored_before : stored_before + 2]
        replica = running.spu.replicas.leading("t", 0)
        replica.is_merging = True
        (refused,) = await ask(client, request(first))
        replica.is_merging = False
        (behind,) = await ask(client, request(second))
        assert behind == refused
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for records in (first, second):
            (answer,) = await ask(client, request(records))
            assert answer.error_code == 0
        assert bounds(running) == (0, stored_before + 2)


def _in_order(count: int) -> list[bytes]:
    return [batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in range(count)]


async def test_nothing_is_stored_in_place_of_a_first_batch_that_is_yet_to_come(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for records in _in_order(3)[1:]:
            (refused,) = await ask(client, request(records))
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for records in _in_order(3):
            (answer,) = await ask(client, request(records))
            assert answer.error_code == 0
        assert bounds(running) == (0, 3)


async def test_a_producer_goes_on_in_a_topic_that_was_created_anew(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        behind = _in_order(3)[1:]
        (refused,) = await ask(client, request(behind[0]))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for records in behind:
            (answer,) = await ask(client, request(records))
            assert answer.error_code == 0
        assert bounds(running) == (0, 2)


async def test_a_leader_without_a_lease_takes_no_gap_for_a_loss(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        first, gap = (batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 3))
        await ask(client, request(first))
        running.spu.replicas.leading("t", 0).is_alone = False
        running.spu.sc.lease_end = trio.current_time()
        (refused,) = await ask(client, request(gap))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        running.spu.sc.lease_end = trio.current_time() + 1
        (refused,) = await ask(client, request(gap))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@asynccontextmanager
async def _leading_anew(*sent_before: bytes) -> AsyncIterator[tuple[RunningSpu, WireClient]]:
    """An SPU that has just begun to lead a partition with these batches, and one of another producer; and a client."""
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for records in (batch(b"of another producer"), *sent_before):
            await ask(client, request(records))
        running.spu.replicas.leading("t", 0).end_merging(trio.current_time())
        yield running, client


@pytest.mark.parametrize("sent_before", [0, 1])
async def test_a_new_leader_waits_for_what_the_one_before_refused(autojump_clock: object, sent_before: int) -> None:
    """It comes again, but perhaps after what was sent behind it."""
    batches = _in_order(4)
    async with _leading_anew(*batches[:sent_before]) as (running, client):
        for records in batches[sent_before + 1 :]:
            (refused,) = await ask(client, request(records))
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for records in batches[sent_before:]:
            (answer,) = await ask(client, request(records))
            assert answer.error_code == 0
        (refused,) = await ask(client, request(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=9)))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "this one is lost"
        assert bounds(running) == (0, 5)


async def test_a_new_leader_tells_of_no_gap_where_it_has_refused_what_is_missing(autojump_clock: object) -> None:
    first, second, third = _in_order(3)
    async with _leading_anew() as (running, client):
        for records, code in (
            (second, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (first, 0),
            (third, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (second, 0),
            (third, 0),
        ):
            (answer,) = await ask(client, request(records))
            assert answer.error_code == code
        assert bounds(running) == (0, 4)


@pytest.mark.parametrize(("sent_before", "code"), [(0, 0), (1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
async def test_a_new_leader_does_not_wait_for_long(autojump_clock: object, sent_before: int, code: int) -> None:
    batches = _in_order(3)
    async with _leading_anew(*batches[:sent_before]) as (_, client):
        (refused,) = await ask(client, request(batches[2]))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await trio.sleep(BEHIND_SECONDS_MAX)
        (answer,) = await ask(client, request(batches[2]))
        assert answer.error_code == code


async def test_a_topic_may_give_its_own_time_and_compression(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"})
        (answer,) = await ask(await running.client(), request(batch(b"a" * 100, timestamp=5)))
        assert answer.log_append_time_ms == running.world.clock.now_ms()
        kept = stored(running)
        assert read_header(kept).compression is Compression.ZSTD
        assert [(record.timestamp, record.value) for record in read_records(kept)] == [
            (running.world.clock.now_ms(), b"a" * 100)
        ]


async def test_a_repeated_batch_gets_the_time_of_its_first_append(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"message.timestamp.type": "LogAppendTime"})
        client = await running.client()
        first, second = (
            batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 2)
        )
        times = []
        for records in (first, second, first):
            (answer,) = await ask(client, request(records))
            times.append(answer.log_append_time_ms)
            running.world.clock.time_ms += 1000
        assert times == [times[0], times[0] + 1000, times[0]]
        await running.replica("t").delete_records(2)
        (answer,) = await ask(client, request(first))
        assert (answer.error_code, answer.log_append_time_ms) == (0, times[0] + 3000), "nobody knows any more"


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
        async with replica.log._lock:  # as long as it is held no sync can end
            (late,) = await ask(client, request(batch(b"a"), timeout_ms=200))
            assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert late.base_offset == -1
        (next_one,) = await ask(client, request(batch(b"b"), timeout_ms=200))
        assert (next_one.error_code, next_one.base_offset) == (0, 1)


async def test_who_asks_the_leader_alone_waits_for_its_disk_and_for_no_follower(autojump_clock: object) -> None:
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
        async with replica.log._lock:  # as long as it is held no sync can end
            (answer,) = await ask(client, request(batch(b"c"), acks=1, timeout_ms=200))
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_producer_that_goes_while_it_waits_is_forgotten(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", configs={"flush.messages": "1"})
        replica = running.replica("t")
        async with replica.log._lock:
            await client.send(client.encode(ApiKey.PRODUCE, BY_NAME, request(batch(b"a"), timeout_ms=10_000)))
            await trio.testing.wait_all_tasks_blocked()
            client.connection.close()
            await trio.testing.wait_all_tasks_blocked()
        (other,) = await ask(await running.client(), request(batch(b"b")))
        assert other.base_offset == 1


async def test_the_longest_of_names_is_answered_also_where_the_answer_names_it(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        (answer,) = await ask(client, request(batch(b"a"), topic="x" * 32_767), version=8)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_answer_that_its_version_has_no_room_for_costs_one_client_its_connection(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is the replica that finds out, when it acknowledges what others wait for as well."""
    monkeypatch.setattr(error_codes, "MESSAGE_CHARACTERS_MAX", 40_000)  # else there is no such answer
    async with running_spu() as running:
        await running.create("t", configs={"flush.messages": "1"})
        unlucky, client = await running.client(), await running.client()
        topics = request(batch(b"a")).topic_data + request(batch(b"b"), topic="x" * 32_767).topic_data
        async with running.replica("t").log._lock:  # as long as it is held no sync can end
            asked = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
            await unlucky.send(unlucky.encode(ApiKey.PRODUCE, 8, asked))
            await client.send(client.encode(ApiKey.PRODUCE, 8, request(batch(b"c"))))
            await trio.testing.wait_all_tasks_blocked()
        assert await unlucky.at_end()
        response: ProduceResponse = await client.response()
        assert response.responses[0].partition_responses[0].base_offset == 1
        assert running.spu.metrics.server.failed_requests == 1


async def test_nobody_writes_what_brokers_keep_for_themselves(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("__consumer_offsets")
        (answer,) = await ask(client, request(batch(b"a"), topic="__consumer_offsets"))
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        replica = running.replica("__consumer_offsets")
        assert replica.log.log_end == 0


async def test_while_two_segments_wait_to_be_committed_and_cannot_grow_nothing_is_taken(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "OVERGROWTH_BYTES_MIN", 0)
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        replica.log.use_config(replace(replica.log.config, segment_bytes_max=len(batch(b"a" * 20))))
        replica.log.may_roll = lambda base: False
        client = await running.client()
        answers = [(await ask(client, request(batch(b"a" * 20), acks=1)))[0] for _ in range(4)]
        assert [answer.error_code for answer in answers] == [0, 0, 0, ErrorCode.NOT_ENOUGH_REPLICAS]
        assert bounds(running) == (0, 3)
        replica.log.may_roll = lambda base: True
        (answer,) = await ask(client, request(batch(b"a" * 20)))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 3)
