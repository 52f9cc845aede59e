"""Fetch on a whole SPU: what it returns, when it waits, and what sessions leave out."""

import gc
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from quota_samples import alter, quota
from simulation.client import WireClient
from spus import RunningSpu, batch, led_elsewhere, newest, running_spu
from transacting import write_data, write_marker

from tailrace.broker.handlers.records.fetch import NO_ROOM_SECONDS, READ_COMMITTED, Fetch, Reading
from tailrace.broker.handlers.records.fetch_room import FETCH_PLACES, PLACE_BYTES
from tailrace.broker.handlers.records.fetch_sessions import FetchedPartition
from tailrace.cluster.configs.broker_config_table import LEADER_SELECTOR
from tailrace.cluster.specs import NO_LEADER, SpuSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import DEBUGGING_REPLICA, REPAIRING_REPLICA, SpuId
from tailrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.server.outbox import SENDFILE_BYTES_MIN
from tailrace.storage.log.log import Log

BY_NAME = 12
MEGABYTE = 2**20


async def produce(client: WireClient, records: bytes, topic: str = "t", partition: int = 0) -> int:
    response = await client.request(
        ApiKey.PRODUCE,
        BY_NAME,
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, records)])],
        ),
    )
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == 0, answer
    offset: int = answer.base_offset
    return offset


def wanted(offset: int = 0, *, partition: int = 0, bytes_max: int = MEGABYTE, **more: int) -> FetchPartition:
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max, **more)


def fetch(*partitions: FetchPartition, wait_ms: int = 0, min_bytes: int = 1, **more: object) -> FetchRequest:
    topics = [FetchTopic(topic="t", partitions=list(partitions))] if partitions else []
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=topics, **more)  # type: ignore[arg-type]


def offsets(response: FetchResponse, partition: int = 0) -> list[int]:
    """Returns the base offsets of the batches that were returned for a partition."""
    (data,) = (each for topic in response.responses for each in topic.partitions if each.partition_index == partition)
    assert data.error_code == 0, data
    assert isinstance(data.records, bytes | memoryview)
    return [header.base_offset for _, header in iterate(data.records)]


async def ask(client: WireClient, request: FetchRequest, version: int = BY_NAME) -> FetchResponse:
    response: FetchResponse = await client.request(ApiKey.FETCH, version, request)
    return response


async def test_a_fetch_returns_whole_batches_from_the_one_that_holds_the_offset(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a", b"b", b"c"))
        await produce(client, batch(b"d"))
        assert offsets(await ask(client, fetch(wanted(1)))) == [0, 3]
        assert offsets(await ask(client, fetch(wanted(3)))) == [3]
        assert offsets(await ask(client, fetch(wanted(4)))) == []


async def test_the_first_batch_is_returned_even_if_it_exceeds_every_limit(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", 2)
        for partition in (0, 1):
            await produce(client, batch(b"x" * 1000), partition=partition)
            await produce(client, batch(b"y"), partition=partition)
        response = await ask(client, fetch(wanted(bytes_max=1), wanted(partition=1, bytes_max=1), max_bytes=1))
        assert offsets(response, 0) == [0]
        assert offsets(response, 1) == []


async def test_a_large_response_leaves_from_the_page_cache_and_a_small_one_is_copied(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", 2)
        small, large = batch(b"a"), batch(b"x" * SENDFILE_BYTES_MIN)
        await produce(client, small)
        await produce(client, large, partition=1)
        sent = running.spu.metrics.server.sent_records
        await ask(client, fetch(wanted()))
        assert (sent.uncopied_record_bytes, sent.copied_record_bytes) == (0, len(small))
        await ask(client, fetch(wanted(partition=1)))
        assert sent.uncopied_record_bytes > 0
        assert sent.uncopied_record_bytes + sent.copied_record_bytes == len(small) + len(large)


@pytest.mark.parametrize("offset", [-1, 3])
async def test_an_offset_outside_the_log_is_an_error_without_waiting(autojump_clock: object, offset: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a", b"b"))
        response = await ask(client, fetch(wanted(offset), wait_ms=10_000_000))
        assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_fetch_waits_until_there_are_enough_bytes(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        consumer, producer = await running.client(), await running.client()
        await running.create("t")
        small = batch(b"a")
        started = trio.current_time()
        await consumer.send(
            consumer.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=600_000, min_bytes=2 * len(small)))
        )
        await produce(producer, small)
        with trio.move_on_after(60) as waiting:
            await consumer.frame()
        assert waiting.cancelled_caught, "one batch is less than was asked for"
        await produce(producer, small)
        assert offsets(await consumer.response()) == [0, 1]
        assert trio.current_time() - started < 600


async def test_a_fetch_that_waited_in_vain_is_empty_at_its_deadline(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        started = trio.current_time()
        assert offsets(await ask(client, fetch(wanted(), wait_ms=500))) == []
        assert trio.current_time() - started == pytest.approx(0.5)


async def test_a_finished_fetch_is_not_kept_until_its_deadline(autojump_clock: object) -> None:
    """Neither its partitions nor the open files of its response are kept."""
    async with running_spu() as running:
        consumer, producer = await running.client(), await running.client()
        await running.create("t")
        for offset in range(3):
            await consumer.send(consumer.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(offset), wait_ms=600_000)))
            await produce(producer, batch(b"a"))
            assert offsets(await consumer.response()) == [offset]
        gc.collect()
        assert [kept for kept in gc.get_objects() if isinstance(kept, Fetch | FetchedPartition)] == []


async def opened_session(client: WireClient) -> int:
    """Returns a session that reads one partition."""
    response = await client.request(ApiKey.FETCH, BY_NAME, fetch(wanted(), session_id=0, session_epoch=0))
    session: int = response.session_id
    return session


async def test_the_time_from_append_to_consumer_is_counted_when_the_record_is_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_spu() as running:
        client, other = await running.client(), await running.client()
        await running.create("t")
        deliveries = running.spu.metrics.deliveries
        answers: list[FetchResponse] = []

        async def follow(min_bytes: int) -> None:
            answers.append(await ask(client, fetch(wanted(), wait_ms=2000, min_bytes=min_bytes)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, 10_000)  # it reads the record at once, and is sent it at its deadline
            await trio.sleep(0.5)
            await produce(other, batch(b"a"))
            assert sum(deliveries.buckets) == 0
        assert offsets(answers[0]) == [0]
        assert sum(deliveries.buckets) == 1
        assert deliveries.seconds == pytest.approx(1.5)
        await ask(client, fetch(wanted(), replica_id=DEBUGGING_REPLICA))
        await ask(client, fetch(wanted(1)))
        assert sum(deliveries.buckets) == 1, "neither a tool nor a fetch behind the record counts"
        text = await running.scraped()
        assert 'tailrace_produce_to_consume_seconds_bucket{le="2.5"} 1.0\n' in text
        assert 'tailrace_produce_to_consume_seconds_bucket{le="1.0"} 0.0\n' in text


async def test_a_fetch_far_from_the_end_counts_no_delivery(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"x" * 700))
        await produce(client, batch(b"y" * 700))
        assert offsets(await ask(client, fetch(wanted(bytes_max=1000)))) == [0]
        assert sum(running.spu.metrics.deliveries.buckets) == 0


async def test_a_fetch_of_nothing_has_nothing_to_wait_for(autojump_clock: trio.testing.MockClock) -> None:
    """A consumer sends this when it closes its session while all its partitions are paused."""
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        session = await opened_session(client)
        began = trio.current_time()
        ended = await client.request(ApiKey.FETCH, BY_NAME, fetch(wait_ms=5000, session_id=session, session_epoch=-1))
        assert (trio.current_time(), ended.session_id, ended.responses) == (began, 0, [])


async def test_forgetting_all_partitions_closes_a_session(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        session = await opened_session(client)
        began = trio.current_time()
        forgetting = fetch(
            wait_ms=5000,
            session_id=session,
            session_epoch=1,
            forgotten_topics_data=[ForgottenTopic("t", partitions=[0])],
        )
        assert (await client.request(ApiKey.FETCH, BY_NAME, forgetting)).session_id == 0
        assert trio.current_time() == began
        more = fetch(wanted(), session_id=session, session_epoch=2)
        assert (await client.request(ApiKey.FETCH, BY_NAME, more)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_fetch_does_not_wait_for_more_bytes_than_a_response_may_hold(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        for number in range(3):
            await produce(client, batch(b"%d" % number * 500))
        began = trio.current_time()
        found = await client.request(
            ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=5000, min_bytes=2000, max_bytes=1000)
        )
        assert (offsets(found), trio.current_time()) == ([0], began)


async def test_requests_behind_a_waiting_fetch_are_handled_but_their_responses_wait(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        produced = ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch(b"a"))])],
        )
        await client.send(
            client.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=600_000))
            + client.encode(ApiKey.PRODUCE, BY_NAME, produced)
        )
        assert offsets(await client.response()) == [0], "the produce behind it woke the fetch"
        assert (await client.response()).responses[0].partition_responses[0].base_offset == 0


async def test_a_waiting_fetch_ends_when_a_find_coordinator_request_waits_behind_it(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        started = trio.current_time()
        await client.send(client.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=600_000)))
        await trio.testing.wait_all_tasks_blocked()
        await client.send(client.encode(ApiKey.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t")])))
        await trio.testing.wait_all_tasks_blocked()
        replica = running.replica(topic.id)
        assert replica.waiting_fetches, "for others it goes on"
        await client.send(client.encode(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g")))
        assert offsets(await client.response()) == []
        assert [each.name for each in (await client.response()).topics] == ["t"]
        await client.response()
        assert trio.current_time() - started < 1
        assert not replica.waiting_fetches


async def test_a_client_that_disconnects_leaves_no_waiting_fetch_behind(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        await client.send(client.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=2**31 - 1)))
        await trio.testing.wait_all_tasks_blocked()
        replica = running.replica(topic.id)
        assert len(replica.waiting_fetches) == 1
        client.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert not replica.waiting_fetches


async def test_a_fetch_for_which_there_is_no_room_waits_only_a_moment(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu(broker={"queued.max.request.bytes": str(1000 * PLACE_BYTES)}) as running:
        greedy, modest = await running.client(), await running.client()
        await running.create("t", 200)
        many = fetch(*(wanted(partition=number) for number in range(200)), wait_ms=600_000)
        await greedy.send(greedy.encode(ApiKey.FETCH, BY_NAME, many) + greedy.encode(ApiKey.FETCH, BY_NAME, many))
        await trio.testing.wait_all_tasks_blocked()
        room = running.spu.fetch_room
        assert room.taken == 2 * (200 + FETCH_PLACES)
        for wait_ms, seconds in ((600_000, NO_ROOM_SECONDS), (20, 0.02)):
            started = trio.current_time()
            await modest.send(modest.encode(ApiKey.FETCH, BY_NAME, replace(many, max_wait_ms=wait_ms)))
            await trio.testing.wait_all_tasks_blocked()
            assert room.taken == 2 * (200 + FETCH_PLACES), "it waits for no records"
            assert offsets(await modest.response()) == []
            assert trio.current_time() == pytest.approx(started + seconds)
        await modest.send(modest.encode(ApiKey.FETCH, BY_NAME, many))
        await produce(await running.client(), batch(b"a"))
        assert offsets(await modest.response()) == [0], "it reads once more"
        for _ in range(2):
            assert offsets(await greedy.response()) == [0]
        assert room.taken == 0
        await modest.send(modest.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(1), wait_ms=600_000)))
        await trio.testing.wait_all_tasks_blocked()
        assert room.taken == 1 + FETCH_PLACES
        modest.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert room.taken == 0


async def test_a_waiting_fetch_learns_that_its_topic_was_deleted(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        await client.send(client.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=600_000)))
        await trio.testing.wait_all_tasks_blocked()
        await running.delete(topic)
        response = await client.response()
        # The replica is removed before the mirror knows the reason, which the consumer will find in the metadata.
        assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_session_names_only_what_is_new(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t", 3)
        await produce(client, batch(b"a"), partition=1)
        full = await ask(client, fetch(*(wanted(partition=each) for each in range(3)), session_epoch=0))
        assert [each.partition_index for each in full.responses[0].partitions] == [0, 1, 2]
        assert offsets(full, 1) == [0]
        session = full.session_id
        assert session != 0

        quiet = await ask(client, fetch(wanted(1, partition=1), session_id=session, session_epoch=1))
        assert quiet.responses == []
        await produce(client, batch(b"b"), partition=2)
        news = await ask(client, fetch(session_id=session, session_epoch=2))
        assert [each.partition_index for each in news.responses[0].partitions] == [2]
        assert offsets(news, 2) == [0]

        forgotten = [ForgottenTopic(topic="t", partitions=[2])]
        gone = await ask(client, fetch(session_id=session, session_epoch=3, forgotten_topics_data=forgotten))
        assert gone.responses == []

        wrong = await ask(client, fetch(session_id=session, session_epoch=9))
        assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        unknown = await ask(client, fetch(session_id=session + 1, session_epoch=1))
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_throttled_fetch_gets_no_records_and_its_client_gets_them_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for _ in range(3):
            await produce(client, batch(bytes(900)))
        await alter(client, quota({"consumer_byte_rate": 150.0}, client_id="test"))
        one = wanted(0, bytes_max=100)
        full = await ask(client, fetch(one, session_epoch=0))
        assert offsets(full) == [0]
        assert full.throttle_time_ms == 0
        held = await ask(client, fetch(wanted(1, bytes_max=100), session_id=full.session_id, session_epoch=1))
        assert (held.responses, held.session_id) == ([], full.session_id)
        assert held.throttle_time_ms > 0
        # The session did not tell the client anything, so that it tells it when the first batch has left the window.
        epoch = 1
        while held.throttle_time_ms:
            assert not held.responses
            began, epoch = trio.current_time(), epoch + 1
            again = await ask(client, fetch(session_id=full.session_id, session_epoch=epoch))
            assert trio.current_time() - began == pytest.approx(held.throttle_time_ms / 1000)
            held = again
        assert offsets(held) == [1]


async def test_a_throttled_fetch_begins_no_session(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(bytes(900)))
        await alter(client, quota({"consumer_byte_rate": 1.0}, client_id="test"))
        before = len(running.spu.fetch_sessions)
        held = await ask(client, fetch(wanted(), session_epoch=0))
        assert (held.responses, held.session_id) == ([], 0)
        assert held.throttle_time_ms > 0
        assert len(running.spu.fetch_sessions) == before


async def test_a_fetch_returns_no_more_than_its_quota_allows(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for _ in range(4):
            await produce(client, batch(bytes(900)))
        await alter(client, quota({"consumer_byte_rate": 250.0}, client_id="test"))
        response = await ask(client, fetch(wanted()))
        assert offsets(response) == [0, 1]
        assert response.throttle_time_ms == 0


async def test_topics_are_named_by_id_in_newer_versions(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        await produce(client, batch(b"a"))
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic.id, partitions=[wanted()])]
        )
        response = await ask(client, request, newest(ApiKey.FETCH))
        assert offsets(response) == [0]
        assert response.responses[0].topic_id == topic.id
        await running.delete(topic)
        await running.create("t")
        stale = await ask(client, request, newest(ApiKey.FETCH))
        assert stale.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (0, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)], ids=["unasked", "current", "future"]
)
async def test_a_consumer_of_another_epoch_is_told(autojump_clock: object, epoch: int, error: int) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        response = await ask(client, fetch(wanted(current_leader_epoch=epoch)))
        assert response.responses[0].partitions[0].error_code == error


def only(response: FetchResponse) -> PartitionData:
    (data,) = response.responses[0].partitions
    return data


async def test_a_follower_serves_what_it_knows_to_be_committed(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for value in (b"a", b"b", b"c"):
            await produce(client, batch(value))
        replica = running.spu.replicas.leading("t", 0)
        led_elsewhere(replica)
        replica.high_watermark = 2
        response = await ask(client, fetch(wanted(1)), version=11)
        assert offsets(response) == [1]
        assert (only(response).high_watermark, only(response).preferred_read_replica) == (2, -1)
        assert offsets(await ask(client, fetch(wanted(3)), version=11)) == []
        sent_here = await ask(client, fetch(wanted(4), rack_id="near"), version=11)
        assert only(sent_here).error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "it asks the leader next"
        assert only(await ask(client, fetch(wanted(4)), version=11)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert only(await ask(client, fetch(wanted(1)), version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("version", "named"),
    [
        (BY_NAME, {"replica_id": DEBUGGING_REPLICA}),
        (newest(ApiKey.FETCH), {"replica_state": ReplicaState(DEBUGGING_REPLICA)}),
    ],
)
async def test_debugging_clients_read_uncommitted_records_from_the_leader(
    autojump_clock: object, version: int, named: dict[str, Any]
) -> None:
    async with running_spu() as running:
        client = await running.client()
        topic = await running.create("t")
        for value in (b"a", b"b", b"c"):
            await produce(client, batch(value))
        replica = running.spu.replicas.leading("t", 0)
        replica.high_watermark = 1

        def fetched(**more: Any) -> FetchRequest:
            request = fetch(wanted(0), **more)
            request.topics[0].topic_id = topic.id
            return request

        assert offsets(await ask(client, fetched(), version)) == [0]
        response = await ask(client, fetched(**named), version)
        assert (offsets(response), only(response).high_watermark) == ([0, 1, 2], 1)
        led_elsewhere(replica)
        assert only(await ask(client, fetched(**named), version)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_spu_that_repairs_its_log_reads_everything_from_any_replica(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        for value in (b"a", b"b", b"c"):
            await produce(client, batch(value))
        replica = running.spu.replicas.leading("t", 0)
        replica.high_watermark = 1
        mending = fetch(wanted(2), replica_id=REPAIRING_REPLICA)
        assert offsets(await ask(client, mending)) == [2]
        replica.is_merging = True
        assert offsets(await ask(client, mending)) == [2]
        led_elsewhere(replica)
        assert offsets(await ask(client, mending)) == [2]
        beyond = fetch(wanted(4), replica_id=REPAIRING_REPLICA)
        assert only(await ask(client, beyond)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "it has nothing there"
        replica.use_spec(replace(replica.spec, leader=NO_LEADER))
        assert offsets(await ask(client, mending)) == [2]


@pytest.mark.parametrize("leader", [NO_LEADER, SpuId(1)])
async def test_a_replica_without_a_leader_is_no_follower(autojump_clock: object, leader: SpuId) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        replica = running.spu.replicas.leading("t", 0)
        replica.use_spec(replace(replica.spec, leader=leader))
        replica.is_leader, replica.high_watermark = False, 0
        answer = only(await ask(client, fetch(wanted(0)), version=11))
        assert (answer.error_code, answer.high_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_consumer_that_read_an_epoch_that_never_was_resets_its_position(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        for offset in (0, 1, 2):
            answer = only(await ask(client, fetch(wanted(offset, last_fetched_epoch=1))))
            assert (answer.error_code, answer.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


async def test_a_follower_does_not_take_what_it_lacks_for_truncated(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        ahead = fetch(wanted(3, last_fetched_epoch=0), rack_id="near")
        assert only(await ask(client, ahead)).diverging_epoch is not None
        led_elsewhere(running.spu.replicas.leading("t", 0))
        answer = only(await ask(client, ahead))
        assert (answer.error_code, answer.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


async def test_a_consumer_continues_after_its_epoch_was_recovered_in_a_later_one(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        await produce(client, batch(b"b"))
        replica = running.spu.replicas.leading("t", 0)
        replica.use_spec(replace(replica.spec, epoch=8))
        answer = only(await ask(client, fetch(wanted(1, last_fetched_epoch=7))))
        assert answer.diverging_epoch is None
        assert len(answer.records) > 0


async def test_a_fetch_waits_for_what_a_follower_learns_is_committed(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        replica = running.spu.replicas.leading("t", 0)
        led_elsewhere(replica)
        replica.high_watermark = 0
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def learn() -> None:
                await trio.sleep(1)
                replica.high_watermark = 1
                replica.on_advanced()

            assert offsets(await ask(client, fetch(wanted(0), wait_ms=9000))) == [0]
        assert trio.current_time() - begun == 1


class Looks:
    """Counts how often a fetch reads its partitions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._read = Fetch.read
        monkeypatch.setattr(Fetch, "read", lambda fetch: self._count(fetch))

    def _count(self, fetch: Fetch) -> Reading:
        self.count += 1
        return self._read(fetch)


async def test_a_fetch_of_many_partitions_does_not_read_all_for_each_of_them(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        producer, consumer = await running.client(), await running.client()
        await running.create("t", 100)
        small = batch(b"a")
        waiting = fetch(*(wanted(partition=each) for each in range(100)), wait_ms=60_000, min_bytes=150 * len(small))
        looks, begun = Looks(monkeypatch), trio.current_time()
        await consumer.send(consumer.encode(ApiKey.FETCH, BY_NAME, waiting))
        await trio.testing.wait_all_tasks_blocked()
        to_each = [PartitionProduceData(each, small) for each in range(100)]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=to_each)]
        )
        for _ in range(2):
            await producer.request(ApiKey.PRODUCE, BY_NAME, request)
        answer = await consumer.response()
        assert sum(len(data.records) for topic in answer.responses for data in topic.partitions) >= 150 * len(small)
        assert looks.count <= 4
        assert trio.current_time() - begun < 0.1


async def test_a_fetch_does_not_read_again_when_readable_records_are_synced(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        producer, consumer = await running.client(), await running.client()
        await running.create("t", configs={"flush.ms": "10"})
        looks = Looks(monkeypatch)
        waiting = fetch(wanted(), wait_ms=60_000, min_bytes=1_000_000)
        await consumer.send(consumer.encode(ApiKey.FETCH, BY_NAME, waiting))
        await trio.testing.wait_all_tasks_blocked()
        await produce(producer, batch(b"a"))
        await trio.sleep(1)
        log = running.spu.replicas.leading("t", 0).log
        assert (log.synced_end, looks.count) == (1, 2)


async def test_a_fetch_does_not_look_for_records_that_are_not_committed(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        producer, consumer = await running.client(), await running.client()
        await running.create("t", configs={"flush.messages": "1"})
        looks = Looks(monkeypatch)
        await consumer.send(consumer.encode(ApiKey.FETCH, BY_NAME, fetch(wanted(), wait_ms=60_000)))
        await trio.testing.wait_all_tasks_blocked()
        await produce(producer, batch(b"a"))
        assert offsets(await consumer.response()) == [0]
        assert looks.count == 2


@pytest.mark.parametrize(
    ("version", "rack", "selector", "preferred"),
    [
        (11, "b", None, 2),
        (12, "b", None, 2),
        (12, "a", None, -1),
        (12, "", None, -1),
        (10, "b", None, -1),
        (12, "b", LEADER_SELECTOR, -1),
    ],
    ids=["oldest", "newer", "other rack", "no rack", "too old", "leaders only"],
)
async def test_a_consumer_is_told_of_a_replica_in_its_rack(
    autojump_clock: object, version: int, rack: str, selector: str | None, preferred: int
) -> None:
    broker = {} if selector is None else {"replica.selector.class": selector}
    async with running_spu(broker=broker) as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        _add_follower_in_rack_b(running)
        begun = trio.current_time()
        more = {"rack_id": rack} if version >= 11 else {}
        response = await ask(client, fetch(wanted(0), wait_ms=9000, **more), version)
        assert only(response).preferred_read_replica == preferred
        assert offsets(response) == ([] if preferred == 2 else [0])
        assert trio.current_time() == begun, "it is told at once"


async def test_every_fetch_of_a_session_names_it(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        _add_follower_in_rack_b(running)
        full = await ask(client, fetch(wanted(0), session_epoch=0, rack_id="b"))
        assert only(full).preferred_read_replica == 2
        again = await ask(client, fetch(session_id=full.session_id, session_epoch=1, rack_id="b", wait_ms=9000))
        assert only(again).preferred_read_replica == 2
        here = await ask(client, fetch(session_id=full.session_id, session_epoch=2, rack_id="a"))
        assert here.responses == []


async def test_a_merging_leader_does_not_tell_where_an_epoch_ended(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        monkeypatch.setattr(
            Log, "epoch_end", lambda log, epoch: (epoch, 0)
        )  # as it may be for a moment during recovery
        asked = fetch(wanted(1, last_fetched_epoch=0))
        assert only(await ask(client, asked)).diverging_epoch is not None
        running.spu.replicas.leading("t", 0).is_merging = True
        assert only(await ask(client, asked)).diverging_epoch is None


async def test_no_consumer_is_beyond_the_end_of_a_merging_leader(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        replica = running.spu.replicas.leading("t", 0)
        replica.is_merging = True
        assert offsets(await ask(client, fetch(wanted(0)))) == [0]
        assert offsets(await ask(client, fetch(wanted(1)))) == []
        assert only(await ask(client, fetch(wanted(2)))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def _add_follower_in_rack_b(running: RunningSpu) -> None:
    replica = running.spu.replicas.leading("t", 0)
    replica.use_spec(replace(replica.spec, live_replicas=(SpuId(1), SpuId(2))))
    replica.follower_matched_end = {SpuId(2): replica.log.log_end}.get
    running.spu.cluster.put_spu(SpuSpec(SpuId(2), "b"))


@pytest.mark.parametrize("last_fetched_epoch", [-1, 0, 7])
async def test_a_leader_without_a_lease_makes_no_consumer_reset_its_position(
    autojump_clock: object, last_fetched_epoch: int
) -> None:
    async with running_spu() as running:
        client = await running.client()
        await running.create("t")
        await produce(client, batch(b"a"))
        ahead = fetch(wanted(3, last_fetched_epoch=last_fetched_epoch))
        running.spu.replicas.leading("t", 0).is_alone = False
        running.spu.lease.end = trio.current_time()
        assert only(await ask(client, ahead)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        running.spu.lease.end = trio.current_time() + 1
        answer = only(await ask(client, ahead))
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or answer.diverging_epoch is not None


async def _two_segments(running: RunningSpu) -> WireClient:
    """Appends three batches. The first two are in a sealed segment, so that finding them reads from the disk."""
    client = await running.client()
    await running.create("t", configs={"internal.segment.bytes": "150"})
    for value in (b"a", b"b", b"c"):
        await produce(client, batch(value))
    assert len(running.spu.replicas.leading("t", 0).log.segments()) == 2
    return client


async def test_reads_that_search_a_batch_are_counted(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await _two_segments(running)
        lookups = running.spu.metrics.lookups
        before = lookups.index_lookups
        await ask(client, fetch(wanted(0)))
        assert lookups.index_lookups > before
        assert lookups.index_lookup_bytes > 0


async def test_a_disk_that_cannot_be_read_takes_the_replica_offline(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await _two_segments(running)
        running.world.files.reads_fail = True
        assert only(await ask(client, fetch(wanted(1)))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        running.world.files.reads_fail = False
        assert only(await ask(client, fetch(wanted(1)))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("size", [100, SENDFILE_BYTES_MIN])
async def test_a_disk_that_fails_while_records_are_sent_takes_the_replica_offline(
    autojump_clock: object, size: int
) -> None:
    async with running_spu() as running:
        client = await running.client()
        for name in ("t", "other"):
            await running.create(name)
            await produce(client, batch(bytes(size)), name)
        running.world.files.reads_fail = True
        with pytest.raises(AssertionError, match="closed the connection"):
            await ask(client, fetch(wanted(0)))
        running.world.files.reads_fail = False
        client = await running.client()
        assert only(await ask(client, fetch(wanted(0)))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await produce(client, batch(b"x"), "other")


async def test_a_waiting_fetch_learns_that_the_disk_cannot_be_read(autojump_clock: object) -> None:
    async with running_spu() as running:
        client, other = await _two_segments(running), await running.client()
        waiting = fetch(wanted(1), wait_ms=500, min_bytes=1_000_000)
        for each in (client, other):
            await each.send(each.encode(ApiKey.FETCH, BY_NAME, waiting))
        await trio.testing.wait_all_tasks_blocked()
        running.world.files.reads_fail = True
        for each in (client, other):
            assert only(await each.response()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        running.world.files.reads_fail = False


async def test_a_producer_does_not_learn_that_consumers_cannot_be_served(autojump_clock: object) -> None:
    async with running_spu() as running:
        client, consumer = await _two_segments(running), await running.client()
        waiting = fetch(wanted(1), wait_ms=60_000, min_bytes=1_000_000)
        await consumer.send(consumer.encode(ApiKey.FETCH, BY_NAME, waiting))
        await trio.testing.wait_all_tasks_blocked()
        running.world.files.reads_fail = True
        await produce(client, batch(b"d"))
        assert only(await consumer.response()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        running.world.files.reads_fail = False


# committed transactions


def aborted(response: FetchResponse) -> list[tuple[int, int]] | None:
    found = only(response).aborted_transactions
    return None if found is None else [(each.producer_id, each.first_offset) for each in found]


async def test_a_committed_reader_stops_before_an_open_transaction(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t")).name)
        write_data(replica, -1, b"a")
        write_data(replica, 7, b"b")
        write_data(replica, -1, b"c")
        uncommitted = await ask(client, fetch(wanted()))
        assert (offsets(uncommitted), aborted(uncommitted)) == ([0, 1, 2], None)
        assert only(uncommitted).last_stable_offset == 1
        committed = await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED))
        assert (offsets(committed), only(committed).last_stable_offset, aborted(committed)) == ([0], 1, [])
        assert only(committed).high_watermark == 3
        assert offsets(await ask(client, fetch(wanted(2), isolation_level=READ_COMMITTED))) == []
        write_marker(replica, 7)
        committed = await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED))
        assert (offsets(committed), only(committed).last_stable_offset, aborted(committed)) == (
            [0, 1, 2, 3],
            4,
            [(7, 1)],
        )


async def test_a_committed_reader_waits_until_the_marker_is_committed(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t")).name)
        write_data(replica, 7, b"a")
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def end_it() -> None:
                await trio.sleep(1)
                marker = write_marker(replica, 7, is_commit=True)
                replica.high_watermark = marker
                await trio.sleep(1)
                replica.on_advanced()

            response = await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED, wait_ms=9000))
        assert (offsets(response), aborted(response), trio.current_time() - begun) == ([0, 1], [], 2)


async def test_redpanda_the_aborted_transactions_of_a_response_are_sorted(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t")).name)
        for producer in (9, 7, 8):
            write_data(replica, producer, b"a")
        for producer in (7, 8, 9):
            write_marker(replica, producer)
        response = await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED))
        assert aborted(response) == [(9, 0), (7, 1), (8, 2)]


async def test_automq_754_each_response_lists_the_transactions_of_its_own_records(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t")).name)
        firsts = []
        for producer in range(20):
            firsts.append(write_data(replica, producer, b"x" * 100))
            write_marker(replica, producer)
            if producer % 6 == 5:
                await replica.log.end_segment()
        for producer, first in enumerate(firsts):
            one = fetch(wanted(first, bytes_max=1), isolation_level=READ_COMMITTED)
            assert aborted(await ask(client, one)) == [(producer, first)]
        whole = await ask(client, fetch(wanted(firsts[6]), isolation_level=READ_COMMITTED))
        assert aborted(whole) == [(producer, firsts[producer]) for producer in range(6, 12)]
        marker = fetch(wanted(firsts[6] + 1, bytes_max=1), isolation_level=READ_COMMITTED)
        assert aborted(await ask(client, marker)) == [(6, firsts[6])]


async def test_a_follower_serves_committed_readers_as_a_leader_does(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t")).name)
        led_elsewhere(replica)
        write_data(replica, 7, b"a")
        write_marker(replica, 7)
        write_data(replica, -1, b"b")
        write_data(replica, 8, b"c")
        replica.high_watermark = 1
        response = await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED), version=11)
        assert (offsets(response), only(response).last_stable_offset) == ([], 0), "it does not know of the commit"
        replica.high_watermark = 4
        response = await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED), version=11)
        assert (offsets(response), aborted(response), only(response).last_stable_offset) == ([0, 1, 2], [(7, 0)], 3)


async def test_a_committed_reader_of_a_topic_with_uncommitted_reads_stops_as_well(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t", configs={"consumer.consistency": "uncommitted"})).name)
        write_data(replica, -1, b"a")
        write_data(replica, 7, b"b")
        replica.high_watermark = 1
        assert offsets(await ask(client, fetch(wanted()))) == [0, 1]
        assert offsets(await ask(client, fetch(wanted(), isolation_level=READ_COMMITTED))) == [0]


async def test_deleted_records_of_an_open_transaction_do_not_hide_the_log_start(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        replica = running.replica((await running.create("t")).name)
        write_data(replica, 7, b"a")
        write_data(replica, -1, b"b")
        await replica.delete_records(2)
        write_data(replica, -1, b"c")
        response = await ask(client, fetch(wanted(2), isolation_level=READ_COMMITTED))
        assert (offsets(response), only(response).last_stable_offset, only(response).log_start_offset) == ([], 2, 2)
        write_marker(replica, 7)
        response = await ask(client, fetch(wanted(2), isolation_level=READ_COMMITTED))
        assert (offsets(response), only(response).last_stable_offset) == ([2, 3], 4)
