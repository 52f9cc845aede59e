"""The shortcut compared with the ordinary path: it makes the same response, or none."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from uuid import UUID

import pytest
import trio
from simulation.client import WireClient
from spus import RunningSpu, batch, led_elsewhere, running_spu
from transactional_producing import end_transaction, inside, outside, with_coordinators

from tailrace.broker.handlers.records import produce_steps
from tailrace.broker.handlers.records.produce_shortcut import (
    LEARNED_BYTES_MAX,
    LEARNED_MAX,
    SIZES_MAX,
    TOGETHER_BYTES_MAX,
    ProduceShortcut,
)
from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import LOG_OVERHEAD, iterate
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.runtime.files import Buffer
from tailrace.server.inbox import Inbox, ReceiveBuffers
from tailrace.server.request_routes import JointResponse
from tailrace.storage.log.log import Log

BY_NAME, BY_ID = 12, 13
CLASSIC = 3
EMPTY = (0, 0)


@asynccontextmanager
async def _served(configs: dict[str, str | None] | None = None) -> AsyncIterator[RunningSpu]:
    async with running_spu() as running:
        await running.create("t", 2, configs)
        yield running


def _topic_id(running: RunningSpu) -> UUID:
    return running.spu.cluster.topics["t"].id


def _request(running: RunningSpu, records: bytes | None, partition: int = 0, acks: int = 1) -> ProduceRequest:
    topic = TopicProduceData("t", _topic_id(running), [PartitionProduceData(partition, records)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def _frame(request: ProduceRequest, version: int, correlation_id: int = 1, client_id: str | None = "c") -> memoryview:
    parts = encode_request(RequestHeader(ApiKey.PRODUCE, version, correlation_id, client_id), request)
    return memoryview(bytearray(b"".join(bytes(part) for part in parts if isinstance(part, bytes | memoryview)))[4:])


def _bounds(running: RunningSpu, partition: int = 0) -> tuple[int, int]:
    replica = running.replica("t", partition)
    return replica.log.log_start, replica.log.log_end


def _expect_nobody(*asked: object) -> NoReturn:
    raise AssertionError("nothing here has to wait")


def _alone(shortcut: ProduceShortcut, frame: memoryview, correlation_id: int = 1) -> object:
    """Returns what the shortcut makes of a single request that need not wait."""
    return shortcut(frame, correlation_id, _expect_nobody, Inbox(ReceiveBuffers(), 0))


def _learned(running: RunningSpu, version: int, acks: int = 1) -> ProduceShortcut:
    """Returns a shortcut that has learned the requests to the first partition."""
    shortcut = ProduceShortcut(running.spu, version)
    assert _alone(shortcut, _frame(_request(running, batch(b"x"), acks=acks), version)) is None
    assert _bounds(running) == EMPTY, "nothing has happened"
    return shortcut


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 14))
async def test_a_usual_request_gets_the_same_response_as_on_the_ordinary_path(
    autojump_clock: object, version: int, acks: int
) -> None:
    async with _served() as running:
        shortcut = _learned(running, version, acks)
        for size in (1, 100, 20_000):
            request = _request(running, batch(b"x" * size), acks=acks)
            ordinary: ProduceResponse = await (await running.client()).request(ApiKey.PRODUCE, version, request)
            answer = _alone(shortcut, _frame(request, version, 7 + size), 7 + size)
            assert isinstance(answer, bytes)
            assert int.from_bytes(answer[:4], "big") == len(answer) - 4
            correlation_id, response = decode_response(ApiKey.PRODUCE, version, answer[4:])
            assert correlation_id == 7 + size
            ordinary.responses[0].partition_responses[0].base_offset += 1
            assert response == ordinary
        assert _bounds(running) == (0, 6)
        running.spu.end_turn()


async def test_responses_have_the_current_append_time_and_log_start(autojump_clock: object) -> None:
    async with _served({"message.timestamp.type": "LogAppendTime"}) as running:
        shortcut, replica, clock = _learned(running, BY_NAME), running.replica("t"), running.world.clock
        expected = []
        answered = []
        for number in range(6):
            if number % 2:
                clock.time_ms += 5
            elif number:
                await replica.delete_records(number - 1)
            expected.append((number, clock.time_ms, replica.log.log_start))
            answer = _alone(shortcut, _frame(_request(running, batch(b"x")), BY_NAME))
            assert isinstance(answer, bytes)
            response: ProduceResponse = decode_response(ApiKey.PRODUCE, BY_NAME, answer[4:])[1]
            (told,) = response.responses[0].partition_responses
            answered.append((told.base_offset, told.log_append_time_ms, told.log_start_offset))
        assert answered == expected
        assert [log_start for _, _, log_start in expected] == [0, 0, 1, 1, 3, 3]
        running.spu.end_turn()


@pytest.mark.parametrize("version", [CLASSIC, BY_ID])
async def test_through_a_connection_too(autojump_clock: object, version: int) -> None:
    """Requests to two partitions alternate, behind requests on the ordinary path. Each response must have its place."""
    async with _served() as running:
        client = await running.client()
        for number in range(5):
            requests = [_request(running, batch(b"a", b"b"), partition) for partition in (0, 1, 2)]
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for request in requests))
            answers = [(await client.response()).responses[0].partition_responses[0] for _ in requests]
            assert [(each.index, each.base_offset) for each in answers] == [(0, 2 * number), (1, 2 * number), (2, -1)]
        assert running.spu.metrics.server.requests[ApiKey.PRODUCE, version, "unknown"].count == 15
        assert running.spu.metrics.produced_batches == 10


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_unusual_requests_take_the_ordinary_path(autojump_clock: object, version: int) -> None:
    async with _served() as running:
        good = batch(b"x")
        spoilt = bytearray(good)
        spoilt[-1] ^= 1
        usual = _request(running, good)
        several = ProduceRequest(acks=1, timeout_ms=1000, topic_data=usual.topic_data * 2)
        both = [PartitionProduceData(0, good), PartitionProduceData(1, good)]
        pair = TopicProduceData("t", _topic_id(running), both)
        frames = [
            _frame(_request(running, bytes(spoilt)), version),
            _frame(_request(running, None), version),
            _frame(_request(running, b""), version),
            _frame(_request(running, good, acks=0), version),
            _frame(_request(running, good, acks=2), version),
            _frame(_request(running, good, partition=2), version),
            _frame(several, version),
            _frame(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[pair]), version),
            memoryview(bytes(_frame(usual, version)) + b"x"),
            memoryview(bytes(_frame(usual, version))[:-1]),
        ]
        shortcut = _learned(running, version)
        for frame in frames:
            for _ in range(2):  # none of them is learned
                try:
                    assert _alone(shortcut, frame) is None
                except RemoteProtocolError:
                    assert frame is frames[-1], "a truncated request is handled as on the ordinary path"
        assert _bounds(running) == EMPTY
        assert running.spu.metrics.produce_errors == 0, "counted where it is answered"


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME])
async def test_any_truncation_of_a_usual_request_takes_the_ordinary_path(autojump_clock: object, version: int) -> None:
    async with _served() as running:
        shortcut = _learned(running, version)
        frame = _frame(_request(running, batch(b"x")), version)
        for number in range(LEARNED_MAX):  # the shortcut learns no more, and reads no further
            _alone(shortcut, _frame(_request(running, None), version, client_id=f"client-{number}"))
        assert [_alone(shortcut, frame[:length]) for length in range(8, len(frame))] == [None] * (len(frame) - 8)
        assert _bounds(running) == EMPTY
        assert _alone(shortcut, frame) is not None


async def test_requests_with_unknown_tags_take_the_ordinary_path(autojump_clock: object) -> None:
    async with _served() as running:
        frame = bytes(_frame(_request(running, batch(b"x")), BY_NAME))
        tagged = memoryview(frame[:-1] + b"\1\7\0")  # one tag of the request, without content
        shortcut = ProduceShortcut(running.spu, BY_NAME)
        assert [_alone(shortcut, tagged) for _ in range(2)] == [None, None]
        shortcut = _learned(running, BY_NAME)
        assert _alone(shortcut, tagged) is None
        assert _bounds(running) == EMPTY


@pytest.mark.parametrize("at", [-1, -2, -3])
async def test_requests_with_missing_tags_take_the_ordinary_path(autojump_clock: object, at: int) -> None:
    async with _served() as running:
        shortcut = _learned(running, BY_NAME)
        frame = _frame(_request(running, batch(b"x")), BY_NAME)
        frame[at] = 1
        assert _alone(shortcut, frame) is None
        assert _bounds(running) == EMPTY


@pytest.mark.parametrize("at", [-1, -2, -3])
async def test_missing_tags_are_refused_behind_a_good_request(autojump_clock: object, at: int) -> None:
    async with _served({"flush.messages": "1"}) as running, _unsynced(running, BY_NAME) as (client, replica):
        good = client.encode(ApiKey.PRODUCE, BY_NAME, _request(running, batch(b"x"), acks=-1))
        malformed = bytearray(good)
        malformed[at] = 1
        await client.send(good + malformed + good)
        await trio.testing.wait_all_tasks_blocked()
        assert replica.log.log_end == 3


async def _asked(client: WireClient, running: RunningSpu, version: int, acks: int, timeout_ms: int = 1000) -> None:
    topic = TopicProduceData("t", _topic_id(running), [PartitionProduceData(0, batch(b"x"))])
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
    await client.send(client.encode(ApiKey.PRODUCE, version, request))


async def _answer(client: WireClient) -> PartitionProduceResponse:
    response: ProduceResponse = await client.response()
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


def _waiting(running: RunningSpu) -> list[type]:
    replica = running.replica("t")
    queues = (replica.waiting_acknowledgements, replica.waiting_syncs)
    return [type(waiter) for queue in queues if queue is not None for _, waiter in queue.waiting]


@asynccontextmanager
async def _unsynced(
    running: RunningSpu, version: int, *, acks: int = -1, count: int = 2, timeout_ms: int = 1000
) -> AsyncIterator[tuple[WireClient, Replica]]:
    """Makes this many requests wait for a sync until the context ends. The first one took the ordinary path, and was
    learned."""
    client = await running.client()
    replica = running.replica("t")
    async with replica.log.disk.lock:  # while this is held, no sync can end
        for _ in range(count):
            await _asked(client, running, version, acks, timeout_ms)
        await trio.testing.wait_all_tasks_blocked()
        yield client, replica


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_a_waiting_request_gets_its_response_in_order_as_on_the_ordinary_path(
    autojump_clock: object, version: int, acks: int
) -> None:
    async with _served({"flush.messages": "1"}) as running:
        async with _unsynced(running, version, acks=acks, count=3) as (client, replica):
            assert len(set(_waiting(running))) == 2, "one of them as an object, two from their bytes"
            assert replica.high_watermark == 0
        answers = [await _answer(client) for _ in range(3)]
        assert [answer.base_offset for answer in answers] == [0, 1, 2]
        ordinary, *others = answers
        for answer in others:
            answer.base_offset = 0
            assert answer == ordinary
        assert running.spu.metrics.server.requests[ApiKey.PRODUCE, version, "unknown"].count == 3


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_a_batch_that_is_not_committed_in_time_is_refused_as_on_the_ordinary_path(
    autojump_clock: object, version: int
) -> None:
    async with _served({"flush.messages": "1"}) as running:
        async with _unsynced(running, version, timeout_ms=200) as (client, _):
            ordinary, answer = [await _answer(client) for _ in range(2)]
        assert answer == ordinary
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert _bounds(running) == (0, 2), "it was appended all the same"


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_a_waiting_producer_learns_that_another_replica_leads(autojump_clock: object, version: int) -> None:
    async with _served({"flush.messages": "1"}) as running:
        async with _unsynced(running, version) as (client, replica):
            led_elsewhere(replica)
            ordinary, answer = [await _answer(client) for _ in range(2)]
        assert answer == ordinary
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_client_that_disconnects_while_it_waits_is_forgotten(autojump_clock: object) -> None:
    async with _served({"flush.messages": "1"}) as running:
        async with _unsynced(running, BY_ID) as (client, replica):
            client.connection.close()
            await trio.testing.wait_all_tasks_blocked()
            assert [waiter.done for _, waiter in replica.waiting_acknowledgements.waiting] == [True, True]
        other = await running.client()
        await _asked(other, running, BY_ID, -1)
        assert (await _answer(other)).base_offset == 2


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_a_request_that_the_shortcut_passes_on_is_refused_as_usual(autojump_clock: object, version: int) -> None:
    """That is so in a topic with append times as well: their flag in a sent batch is itself a fault."""
    async with _served({"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}) as running:
        client = await running.client()

        async def error_code(records: bytes) -> int:
            await client.send(client.encode(ApiKey.PRODUCE, version, _request(running, records)))
            return (await _answer(client)).error_code

        first, gap = (batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 2))
        assert await error_code(first) == ErrorCode.NONE
        assert await error_code(gap) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        running.spu.storage_limit.use_size(1)
        assert await error_code(first) == ErrorCode.NONE
        assert await error_code(batch(b"x")) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_requests_to_a_replica_that_no_longer_leads_take_the_ordinary_path(autojump_clock: object) -> None:
    async with _served() as running:
        shortcut = _learned(running, BY_ID)
        replica = running.replica("t")
        led_elsewhere(replica)
        assert _alone(shortcut, _frame(_request(running, batch(b"x")), BY_ID)) is None
        assert _bounds(running) == EMPTY


async def test_the_shortcuts_memory_is_bounded(autojump_clock: object) -> None:
    async with _served() as running:
        shortcut = ProduceShortcut(running.spu, CLASSIC)

        def ask(number: int) -> object:
            return _alone(shortcut, _frame(_request(running, batch(b"x")), CLASSIC, client_id=f"client-{number}"))

        assert all(ask(number) is None for number in range(LEARNED_MAX + 10))
        answered = [ask(number) is not None for number in range(LEARNED_MAX + 10)]
        assert answered == [True] * LEARNED_MAX + [False] * 10
        running.spu.end_turn()


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME])
async def test_long_requests_are_not_remembered(autojump_clock: object, version: int) -> None:
    async with _served() as running:
        shortcut = ProduceShortcut(running.spu, version)
        for client_id, is_known in (("c" * (LEARNED_BYTES_MAX - 100), True), ("c" * LEARNED_BYTES_MAX, False)):
            frame = _frame(_request(running, batch(b"x")), version, client_id=client_id)
            assert _alone(shortcut, frame) is None
            assert (_alone(shortcut, frame) is not None) == is_known
        running.spu.end_turn()


@asynccontextmanager
async def _together(
    running: RunningSpu, version: int, requests: list[ProduceRequest]
) -> AsyncIterator[tuple[WireClient, Replica]]:
    """Sends requests together, behind two from which they were learned. They wait for a sync until the context ends."""
    async with _unsynced(running, version) as (client, replica):
        await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for request in requests))
        await trio.testing.wait_all_tasks_blocked()
        yield client, replica


def _writes(running: RunningSpu, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the sizes of the writes to the first partition's log from now on."""
    file = running.replica("t").log.segment_list.open.reader.log.get()
    sizes: list[int] = []
    append = file.append

    def noted(data: Buffer) -> None:
        sizes.append(len(data))
        append(data)

    monkeypatch.setattr(type(file), "append", lambda self, data: noted(data) if self is file else append(data))
    return sizes


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_batches_that_arrive_together_are_written_together_and_each_has_its_response(
    autojump_clock: object, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _served({"flush.messages": "1"}) as running:
        sent = [batch(*[b"%d" % number] * number) for number in (1, 2, 3)]
        requests = [_request(running, records, acks=-1) for records in sent]
        async with _unsynced(running, version) as (client, replica):
            writes = _writes(running, monkeypatch)
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for request in requests))
            await trio.testing.wait_all_tasks_blocked()
            assert writes == [sum(map(len, sent))]
            assert len(_waiting(running)) == 3, "one of them for all three"
            assert replica.log.log_end == 8
        answers = [await _answer(client) for _ in range(5)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 5)]
        assert running.spu.metrics.server.requests[ApiKey.PRODUCE, version, "unknown"].count == 5
        assert running.spu.metrics.produced_batches == 5
        stored = b"".join(part.read() for part in replica.log.read_batches(2, 8))
        for (position, header), as_sent, base in zip(iterate(stored), sent, (2, 3, 5), strict=True):
            assert (header.base_offset, header.leader_epoch) == (base, replica.spec.epoch)
            assert stored[position : position + header.size][LOG_OVERHEAD + 4 :] == as_sent[LOG_OVERHEAD + 4 :]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_batches_with_acks_1_are_written_together_and_their_responses_keep_the_order(
    autojump_clock: object, version: int, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _served() as running:
        client = await running.client()
        for base_offset in range(2):  # the second one is learned
            await _asked(client, running, version, acks)
            assert (await _answer(client)).base_offset == base_offset
        sent = [batch(*[b"%d" % number] * number) for number in (1, 2, 3)]
        requests = [_request(running, records, acks=acks) for records in (*sent, sent[0][:-1] + b"?", *sent)]
        writes = _writes(running, monkeypatch)
        await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for request in requests))
        answers = [await _answer(client) for _ in range(7)]
        assert writes == [sum(map(len, sent))] * 2
        assert [each.error_code or each.base_offset for each in answers] == [
            *(2, 3, 5),
            ErrorCode.CORRUPT_MESSAGE,
            *(8, 9, 11),
        ]
        assert running.spu.metrics.server.requests[ApiKey.PRODUCE, version, "unknown"].count == 9
        assert running.spu.metrics.produced_batches == 8


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME])
async def test_batches_of_all_sizes_are_written_together(
    autojump_clock: object, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more sizes than the shortcut remembers, and sizes of one byte and of two."""
    async with _served({"flush.messages": "1"}) as running:
        sent = [batch(b"x" * (1 + size)) for size in range(SIZES_MAX + 10)]
        assert len(sent[0]) < 0x7F < len(sent[-1])
        requests = [_request(running, records, acks=-1) for records in sent]
        async with _unsynced(running, version) as (client, _):
            writes = _writes(running, monkeypatch)
            for _ in range(2):
                await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for request in requests))
                await trio.testing.wait_all_tasks_blocked()
            assert writes == [sum(map(len, sent))] * 2
        answers = [await _answer(client) for _ in range(2 + 2 * len(sent))]
        assert [each.base_offset for each in answers] == list(range(len(answers)))


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_other_requests_between_similar_ones_are_handled_in_order(autojump_clock: object, version: int) -> None:
    """Only the batch at fault is refused."""
    async with _served({"flush.messages": "1"}) as running:
        good = batch(b"x")
        spoilt = bytearray(good)
        spoilt[-1] ^= 1
        repeated, with_gap, of_two_epochs = [
            [batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=base) for epoch, base in sent]
            for producer_id, sent in ((7, ((0, 0), (0, 1), (0, 1))), (8, ((0, 0), (0, 2))), (9, ((0, 0), (1, 1))))
        ]
        large = batch(b"x" * TOGETHER_BYTES_MAX)
        records = [good, good, bytes(spoilt), good, good, *repeated, *with_gap, *of_two_epochs, good, large, good, good]
        requests = [_request(running, each, acks=-1) for each in records]
        requests[4] = _request(running, good, partition=1, acks=-1)
        async with _together(running, version, requests) as (client, _):
            pass
        answers = [await _answer(client) for _ in (None, None, *requests)]
        corrupt, out_of_order = ErrorCode.CORRUPT_MESSAGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [each.base_offset if each.error_code == 0 else each.error_code for each in answers] == [
            *(0, 1),
            *(2, 3, corrupt, 4, 0),
            *(5, 6, 6),
            *(7, out_of_order),
            *(8, out_of_order),
            *(9, 10, 11, 12),
        ]
        assert [each.index for each in answers] == [*[0] * 6, 1, *[0] * 11]


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_batches_that_are_not_committed_in_time_are_each_refused(autojump_clock: object, version: int) -> None:
    async with _served({"flush.messages": "1"}) as running:
        requests = [_request(running, batch(b"x"), acks=-1) for _ in range(3)]
        async with _together(running, version, requests) as (client, replica):
            await trio.sleep(2)
            ordinary, *answers = [await _answer(client) for _ in range(5)]
        assert (ordinary.error_code, ordinary.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert answers == [ordinary] * 4
        assert replica.log.log_end == 5, "they were appended all the same"


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_a_full_disk_refuses_all_batches_that_arrived_together(autojump_clock: object, version: int) -> None:
    """The log has none of the batches, not even those for which there was room."""
    async with _served({"flush.messages": "1"}) as running:
        good = batch(b"x")
        requests = [_request(running, good, acks=-1) for _ in range(3)]
        async with _unsynced(running, version) as (client, replica):
            running.world.files.room_bytes = 2 * len(good)
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for request in requests))
            answers = [await _answer(client) for _ in range(5)]
            assert {each.error_code for each in answers} == {ErrorCode.KAFKA_STORAGE_ERROR}
            assert replica.log.log_end == 2
            assert replica.log.segments()[-1].size == 2 * len(good)


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_batches_without_room_together_are_appended_one_by_one(autojump_clock: object, version: int) -> None:
    value = b"x" * 300
    async with _served({"flush.messages": "1", "internal.segment.bytes": str(2 * len(batch(value)))}) as running:
        requests = [_request(running, batch(value), acks=-1) for _ in range(6)]
        async with _together(running, version, requests) as (client, _):
            pass
        assert [(await _answer(client)).base_offset for _ in range(8)] == list(range(8))


async def test_requests_before_an_impossible_one_are_carried_out(autojump_clock: object) -> None:
    async with _served({"flush.messages": "1"}) as running, _unsynced(running, BY_ID) as (client, replica):
        request = _request(running, batch(b"x"), acks=-1)
        both = [client.encode(ApiKey.PRODUCE, BY_ID, request) for _ in range(2)]
        await client.send(b"".join(both) + b"\xff" * 4)
        await trio.testing.wait_all_tasks_blocked()
        assert replica.log.log_end == 4
        assert running.spu.metrics.server.refused_requests == 1


async def test_requests_that_arrive_together_in_two_versions_get_responses_in_each(autojump_clock: object) -> None:
    """The requests do not differ in anything else."""
    versions = (BY_NAME - 1, BY_NAME)
    async with _served({"flush.messages": "1"}) as running:
        client, request = await running.client(), _request(running, batch(b"x"), acks=-1)
        for _ in range(3):
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, version, request) for version in versions * 2))
        assert [(await _answer(client)).base_offset for _ in range(12)] == list(range(12))
        counted = running.spu.metrics.server.requests
        assert [counted[ApiKey.PRODUCE, version, "unknown"].count for version in versions] == [6, 6]


async def test_batches_of_an_idempotent_producer_are_written_together_and_recognised_when_repeated(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated batches are checked twice, and not again for each batch behind them."""
    admitted = 0
    admit = produce_steps.check_batch

    def counted(*arguments: Any) -> Any:
        nonlocal admitted
        admitted += 1
        return admit(*arguments)

    monkeypatch.setattr(produce_steps, "check_batch", counted)
    async with _served({"flush.messages": "1"}) as running:
        sent = [batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=2 * number) for number in range(10)]
        requests = [_request(running, records, acks=-1) for records in sent]
        async with _unsynced(running, BY_ID) as (client, replica):
            writes = _writes(running, monkeypatch)
            for most in (10, 20):
                admitted = 0
                await client.send(b"".join(client.encode(ApiKey.PRODUCE, BY_ID, request) for request in requests))
                await trio.testing.wait_all_tasks_blocked()
                assert writes == [sum(map(len, sent))]
                assert admitted <= most
        answers = [await _answer(client) for _ in range(22)]
        assert [each.base_offset for each in answers] == [0, 1, *range(2, 22, 2), *range(2, 22, 2)]
        assert replica.log.producers.expected(7, 0) == 20


async def test_batches_that_arrive_together_behind_a_refused_one_are_refused_as_well(autojump_clock: object) -> None:
    async with _served({"flush.messages": "1"}) as running:
        sent = [batch(b"x", producer_id=7, producer_epoch=0, base_sequence=number) for number in range(5)]
        requests = [_request(running, records, acks=-1) for records in sent]
        async with _unsynced(running, BY_ID) as (client, _):
            await client.send(client.encode(ApiKey.PRODUCE, BY_ID, requests[0]))
            await trio.testing.wait_all_tasks_blocked()
            refused = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not yet")
            running.spu.refused_batches.on_refused(_topic_id(running), 0, sent[1], refused, trio.current_time())
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, BY_ID, request) for request in requests[2:]))
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, BY_ID, request) for request in requests[1:]))
            await trio.testing.wait_all_tasks_blocked()
        answers = [await _answer(client) for _ in range(10)]
        not_yet = ErrorCode.NOT_LEADER_OR_FOLLOWER
        codes = [each.base_offset if each.error_code == 0 else each.error_code for each in answers]
        assert codes == [0, 1, 2, not_yet, not_yet, not_yet, 3, 4, 5, 6]
        assert not running.spu.refused_batches, "all came again"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("config", [("flush.messages", "1"), ("message.timestamp.type", "LogAppendTime")])
async def test_all_batches_are_refused_for_now_when_no_more_files_can_be_opened(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, config: tuple[str, str], count: int
) -> None:
    def refuse(*arguments: object) -> NoReturn:
        raise OSError(errno.EMFILE, "too many open files")

    async with _served(dict([config])) as running:
        client = await running.client()

        async def codes() -> list[int]:
            request = _request(running, batch(b"x"), acks=-1)
            await client.send(b"".join(client.encode(ApiKey.PRODUCE, BY_ID, request) for _ in range(count)))
            return [(await _answer(client)).error_code for _ in range(count)]

        for _ in range(3):
            assert await codes() == [ErrorCode.NONE] * count
        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", refuse)
            patch.setattr(Log, "append_together", refuse)
            assert await codes() == [ErrorCode.KAFKA_STORAGE_ERROR] * count
        assert await codes() == [ErrorCode.NONE] * count


def _of_transaction(
    running: RunningSpu, sequence: int, *, inside_it: bool = True, version: int = BY_NAME
) -> memoryview:
    records = inside(b"a", sequence) if inside_it else outside(b"a", sequence)
    request = _request(running, records)
    request.transactional_id = "id"
    return _frame(request, version, sequence)


@pytest.mark.parametrize("version", [CLASSIC, BY_NAME, BY_ID])
async def test_batches_of_an_open_transaction_need_no_other_path(autojump_clock: object, version: int) -> None:
    async with _served() as running:
        coordinators = with_coordinators(running)
        shortcut = ProduceShortcut(running.spu, version)
        first = _of_transaction(running, 0, version=version)
        for _ in range(2):
            assert _alone(shortcut, first) is None, "its coordinator has to confirm the transaction"
        assert _bounds(running) == EMPTY
        request = _request(running, inside(b"a", 0))
        request.transactional_id = "id"
        await (await running.client()).request(ApiKey.PRODUCE, version, request)
        for sequence in (1, 2):
            assert isinstance(_alone(shortcut, _of_transaction(running, sequence, version=version), sequence), bytes)
        assert len(coordinators.asked) == 1
        assert isinstance(_alone(shortcut, first, 0), bytes), "it is stored already"
        await end_transaction(await running.client(), 1, transaction_version=2)
        assert _alone(shortcut, _of_transaction(running, 3, version=version)) is None
        assert _bounds(running) == (0, 4)


async def test_batches_inside_and_outside_of_a_transaction_are_not_appended_together(autojump_clock: object) -> None:
    async with _served() as running:
        with_coordinators(running)
        client = await running.client()
        request = _request(running, inside(b"a", 0))
        request.transactional_id = "id"
        await client.request(ApiKey.PRODUCE, BY_NAME, request)
        shortcut = ProduceShortcut(running.spu, BY_NAME)
        assert _alone(shortcut, _of_transaction(running, 1)) is None
        following = Inbox(ReceiveBuffers(), 10_000)
        frames = [_of_transaction(running, 2), _of_transaction(running, 3, inside_it=False)]
        data = b"".join(len(frame).to_bytes(4, "big") + bytes(frame) for frame in frames)
        following.room()[: len(data)] = data
        following.received(len(data))
        answer = shortcut(_of_transaction(running, 1), 1, _expect_nobody, following)
        assert isinstance(answer, JointResponse)
        assert answer.request_count == 2
        last = following.next_request()
        assert last is not None
        assert _alone(shortcut, last) is None, "the ordinary path refuses it"
        assert _bounds(running) == (0, 3)
