"""Produce on a whole SPU: what it stores, what it refuses, and when it responds."""

import gc
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hosts import request_of
from msgspec.structs import replace
from producing import BY_NAME, ask, bounds, request
from spus import RunningSpu, batch, newest, running_spu

from tailrace.broker.handlers.records import produce, produce_steps
from tailrace.broker.replicas.replica import Replica
from tailrace.protocol import error_codes
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.produced_batch import RECORDS_AT_ONCE
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from tailrace.server.fairness import large_requests
from tailrace.server.fairness.crowd import BUSY_SECONDS, Crowd
from tailrace.server.fairness.large_requests import STEP_SECONDS, LargeRequests

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


# heavy batches

MANY = RECORDS_AT_ONCE + 1


def heavy_batch(**attributes: int) -> bytes:
    """Returns a batch that takes many steps to check."""
    return batch(*[b"x"] * MANY, compression=Compression.GZIP, **attributes)


def at_each_step(
    monkeypatch: pytest.MonkeyPatch, clock: trio.testing.MockClock, call: Callable[[int], None] = lambda number: None
) -> list[int]:
    """Makes each step of a heavy batch take its time. Returns the list to which the number of each step is added."""
    check, taken = produce_steps.check_heavy_batch, list[int]()

    def check_slowly(*arguments: Any) -> Generator[None, None, Any]:
        steps = check(*arguments)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            call(len(taken))
            taken.append(len(taken))
            clock.jump(STEP_SECONDS)
            yield

    monkeypatch.setattr(produce, "check_heavy_batch", check_slowly)
    return taken


async def test_others_are_served_while_a_heavy_batch_is_checked(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = at_each_step(monkeypatch, autojump_clock)
    async with running_spu() as running:
        await running.create("t", 2)
        slow, quick = await running.client(), await running.client()
        await slow.send(slow.encode(ApiKey.PRODUCE, BY_NAME, request(None, heavy_batch())))
        served_after = []
        for _ in range(5):
            (answer,) = await ask(quick, request(batch(b"a")))
            assert answer.error_code == 0
            served_after.append(len(taken))
        assert served_after[0] < MANY // 500
        assert bounds(running, 1) == EMPTY, "the heavy batch is not checked yet"
        response = await slow.response()
        assert response.responses[0].partition_responses[1].base_offset == 0
        assert bounds(running, 1) == (0, MANY)
        assert running.spu.large_requests.held_bytes == 0


async def test_requests_behind_a_heavy_one_stay_behind_it(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer of the heavy request is overwritten by other clients meanwhile, and by its own client afterwards."""
    at_each_step(monkeypatch, autojump_clock)
    async with running_spu() as running:
        await running.create("t", 2)
        client, other = await running.client(), await running.client()
        sent = [
            heavy_batch(producer_id=7, producer_epoch=0, base_sequence=0),
            batch(b"a", producer_id=7, producer_epoch=0, base_sequence=MANY),
            heavy_batch(producer_id=7, producer_epoch=0, base_sequence=MANY + 1),
        ]
        await client.send(b"".join(client.encode(ApiKey.PRODUCE, BY_NAME, request(each)) for each in sent))
        await ask(other, request(None, batch(bytes(60_000))))
        offsets = [(await client.response()).responses[0].partition_responses[0].base_offset for _ in sent]
        assert offsets == [0, MANY, MANY + 1]
        assert stored(running)[61 : len(sent[0])] == sent[0][61:]


async def test_a_leader_that_lost_its_role_while_it_checked_a_heavy_batch_refuses_it(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        await running.create("t")
        client, replica = await running.client(), running.replica("t")

        def lose(number: int) -> None:
            replica.is_merging = True

        at_each_step(monkeypatch, autojump_clock, lose)
        (answer,) = await ask(client, request(heavy_batch()))
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert bounds(running) == EMPTY


async def test_the_heavy_requests_that_wait_are_bounded(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_each_step(monkeypatch, autojump_clock)
    monkeypatch.setattr(large_requests, "HELD_BYTES_MAX", 1)
    async with running_spu() as running:
        await running.create("t", 2)
        first, second = await running.client(), await running.client()
        await first.send(first.encode(ApiKey.PRODUCE, BY_NAME, request(heavy_batch(), heavy_batch())))
        while running.spu.large_requests.has_room:
            await trio.lowlevel.checkpoint()
        answers = await ask(second, request(heavy_batch(), batch(b"a")))
        assert [each.error_code for each in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
        answers = (await first.response()).responses[0].partition_responses
        assert [each.error_code for each in answers] == [0, 0]
        assert (await ask(second, request(heavy_batch())))[0].error_code == 0


async def test_a_request_that_waits_for_its_first_partition_responds_when_all_are_handled(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first partition is acknowledged while the second one is still checked."""
    taken = at_each_step(monkeypatch, autojump_clock)
    async with running_spu() as running:
        await running.create("t", 2, configs={"flush.messages": "1"})
        answers = await ask(await running.client(), request(batch(b"a"), heavy_batch()))
        assert taken
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 0)]
        assert bounds(running, 1) == (0, MANY)


async def test_a_long_request_of_many_partitions_lets_others_go_first(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[int] = []
    check = produce_steps.check_batch

    def check_slowly(replica: Replica, *arguments: Any) -> Any:
        order.append(replica.partition)
        autojump_clock.jump(BUSY_SECONDS)
        return check(replica, *arguments)

    monkeypatch.setattr(produce, "check_batch", check_slowly)
    async with running_spu() as running:
        await running.create("t", 9)
        slow, quick = await running.client(), await running.client()
        await slow.send(slow.encode(ApiKey.PRODUCE, BY_NAME, request(*[batch(b"a")] * 8)))
        quick_request = request(*[None] * 8, batch(b"b"))
        quick_request.topic_data[0].partition_data = quick_request.topic_data[0].partition_data[-1:]
        await ask(quick, quick_request)
        answers = (await slow.response()).responses[0].partition_responses
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0)] * 8
        assert 0 < order.index(8) < 8


async def test_a_transaction_may_begin_with_a_heavy_batch(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_each_step(monkeypatch, autojump_clock)
    async with running_spu(broker={"transaction.partition.verification.enable": "false"}) as running:
        await running.create("t")
        produced = request(heavy_batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))
        produced.transactional_id = "id"
        (answer,) = await ask(await running.client(), produced, 11)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert running.replica("t").log.producers.open_transaction(1) is not None
        assert len(running.spu.verifications) == 0


@pytest.mark.parametrize("steps", [0, 1])
async def test_the_time_of_a_request_that_waited_for_its_coordinator_is_measured(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    def work(*_: object) -> Generator[None, None, ProduceResponse]:
        for _step in range(steps):
            log.append("work")
            yield
        log.append("work")
        return ProduceResponse()

    class Confirmations:
        async def wait(self) -> None:
            log.append("wait")

        def end(self, host: object) -> None:
            pass

    class Meter:
        def resumed(self) -> None:
            log.append("resumed")

        def handled(self) -> None:
            log.append("handled")

    monkeypatch.setattr(produce, "_produce", work)
    host: Any = SimpleNamespace(large_requests=LargeRequests(Crowd()), end_turn=lambda: None)
    context, confirmations = request_of(ApiKey.PRODUCE, 11), Confirmations()
    meter: Any = Meter()
    context.meter = meter
    waiting: Any = produce._produce_confirmed
    assert await waiting(host, context, request(None), confirmations) == ProduceResponse()
    assert log == ["wait", *["resumed", "work", "handled"] * (1 + steps)]
