"""The steps of a produce request, on a whole SPU: batches that are repeated, early or unwelcome."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec.structs import replace
from producing import ask, bounds, request
from simulation.client import WireClient
from spus import RunningSpu, batch, running_spu

from tailrace.broker.handlers.records.refused_batches import BEHIND_SECONDS_MAX
from tailrace.protocol.error_codes import ErrorCode
from tailrace.storage.log import log


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
async def test_a_batch_behind_a_refused_one_is_refused_with_the_same_error(
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


async def test_later_batches_are_refused_until_the_first_one_arrives(autojump_clock: object) -> None:
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


async def test_a_producer_continues_in_a_topic_that_was_deleted_and_created_again(autojump_clock: object) -> None:
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


async def test_a_leader_without_a_lease_does_not_report_a_gap_as_a_loss(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        first, gap = (batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 3))
        await ask(client, request(first))
        running.spu.replicas.leading("t", 0).is_alone = False
        running.spu.lease.end = trio.current_time()
        (refused,) = await ask(client, request(gap))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        running.spu.lease.end = trio.current_time() + 1
        (refused,) = await ask(client, request(gap))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@asynccontextmanager
async def _just_elected(*sent_before: bytes) -> AsyncIterator[tuple[RunningSpu, WireClient]]:
    """An SPU that was just elected leader of a log with these batches and one of another producer, and a client."""
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for records in (batch(b"of another producer"), *sent_before):
            await ask(client, request(records))
        running.spu.replicas.leading("t", 0).end_merging(trio.current_time())
        yield running, client


@pytest.mark.parametrize("sent_before", [0, 1])
async def test_a_new_leader_waits_for_batches_refused_by_the_earlier_one(
    autojump_clock: object, sent_before: int
) -> None:
    """The producer sends them again, but perhaps after later batches."""
    batches = _in_order(4)
    async with _just_elected(*batches[:sent_before]) as (running, client):
        for records in batches[sent_before + 1 :]:
            (refused,) = await ask(client, request(records))
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for records in batches[sent_before:]:
            (answer,) = await ask(client, request(records))
            assert answer.error_code == 0
        (refused,) = await ask(client, request(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=9)))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "this one is lost"
        assert bounds(running) == (0, 5)


async def test_a_new_leader_reports_no_gap_where_it_refused_the_missing_batch(autojump_clock: object) -> None:
    first, second, third = _in_order(3)
    async with _just_elected() as (running, client):
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
async def test_a_new_leader_soon_stops_waiting(autojump_clock: object, sent_before: int, code: int) -> None:
    batches = _in_order(3)
    async with _just_elected(*batches[:sent_before]) as (_, client):
        (refused,) = await ask(client, request(batches[2]))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await trio.sleep(BEHIND_SECONDS_MAX)
        (answer,) = await ask(client, request(batches[2]))
        assert answer.error_code == code


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


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_clients_cannot_write_to_internal_topics(autojump_clock: object, topic: str) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create(topic)
        (answer,) = await ask(client, request(batch(b"a"), topic=topic))
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        replica = running.replica(topic)
        assert replica.log.log_end == 0


async def test_nothing_is_appended_while_two_overgrown_segments_are_not_committed(
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
