"""Markers on a whole SPU: where they are written, when they are acknowledged, and when they are refused."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from producing import ask, bounds, request
from spus import RunningSpu, batch, led_elsewhere, running_spu
from transactional_producing import PRODUCER, end_transaction, inside, transactional, with_coordinators

from tailrace.broker.transactions.markers.marker_writing import COMMIT_SECONDS_MAX, write_markers
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.transaction_markers import Marker, marker_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersResponse,
)
from tailrace.storage.log.log import Log


def _markers(running: RunningSpu, partition: int = 0) -> Iterator[tuple[int, int, Marker]]:
    """The offset, the producer epoch and the content of each marker in the log."""
    log = running.replica("t", partition).log
    found = log.read(log.log_start, 2**20, log.log_end, at_least_one=True)
    data = b"" if found is None else found.read()
    for position, header in iterate(data):
        marker = marker_of(header, data, position)
        if marker is not None:
            yield header.base_offset, header.producer_epoch, marker


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_marker_ends_the_transaction(autojump_clock: object, is_commit: bool) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0), inside(b"b", 0)))
        assert await end_transaction(client, 0, is_commit=is_commit, coordinator_epoch=5, partitions=(0, 1)) == [0, 0]
        for partition in (0, 1):
            assert list(_markers(running, partition)) == [(1, 0, Marker(is_commit, 5))]
            assert running.replica("t", partition).log.producers.open_transaction(PRODUCER) is None
            assert running.replica("t", partition).high_watermark == 2


async def test_transactions_that_nobody_reads_are_forgotten(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        for sequence in range(3):
            await ask(client, transactional(inside(b"a", sequence)))
            await end_transaction(client, 0)
        assert not running.replica("t").log.transactions.is_unsettled


async def test_a_marker_ends_a_transaction_without_records(autojump_clock: object) -> None:
    """The producer may have added the partition and sent nothing. A late batch is then refused."""
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        assert await end_transaction(client, 1, transaction_version=2) == [0]
        (late,) = await ask(client, transactional(inside(b"a", 0)))
        assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_marker_that_is_retried_at_the_same_epoch_is_acknowledged_and_does_not_hang(
    autojump_clock: object,
) -> None:
    """apache/kafka#21176: the second marker has the epoch that the first one has set."""
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)))
        for _ in range(3):
            assert await end_transaction(client, 1, transaction_version=2) == [0]
        assert list(_markers(running)) == [(1, 1, Marker(True, 0))]
        (answer,) = await ask(client, transactional(inside(b"b", 0, epoch=1)))
        assert answer.error_code == 0
        assert await end_transaction(client, 1, transaction_version=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert running.replica("t").log.producers.open_transaction(PRODUCER) == 2, "it is the next transaction"


async def test_coordinators_and_producers_that_are_over_are_fenced(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        assert await end_transaction(client, 3, coordinator_epoch=5) == [0]
        assert await end_transaction(client, 3, coordinator_epoch=4) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        assert await end_transaction(client, 2, coordinator_epoch=5) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await end_transaction(client, 3, coordinator_epoch=6) == [0]


def _follow(running: RunningSpu) -> None:
    led_elsewhere(running.replica("t"))


def _merge(running: RunningSpu) -> None:
    running.replica("t").is_merging = True


def _lack_replicas(running: RunningSpu) -> None:
    running.replica("t").replicas_min = 2


def _go_offline(running: RunningSpu) -> None:
    running.replica("t").go_offline("a test")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_follow, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_merge, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_lack_replicas, ErrorCode.NOT_ENOUGH_REPLICAS),
        (_go_offline, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_a_replica_that_takes_no_records_takes_no_markers(
    autojump_clock: object, spoil: Callable[[RunningSpu], None], code: ErrorCode
) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client = await running.client()
        spoil(running)
        assert await end_transaction(client, 0, partitions=(0, 1)) == [code, 0]
        assert bounds(running) == (0, 0)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_partitions_that_do_not_exist_take_no_markers(
    autojump_clock: object, topic: str, code: ErrorCode
) -> None:
    async with running_spu() as running:
        assert await end_transaction(await running.client(), 0, topic=topic) == [code]


async def test_a_marker_is_acknowledged_when_it_is_committed(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        await running.create("t", configs={"flush.messages": "1"})
        client = await running.client()
        replica = running.replica("t")
        running.world.files.sync_seconds = lambda: 1.0
        began = trio.current_time()
        assert await end_transaction(client, 0) == [0]
        assert trio.current_time() - began >= 1
        assert replica.high_watermark == 1


async def test_a_marker_that_is_not_committed_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client = await running.client()
        replica = running.replica("t")
        replica.is_alone = False  # nothing commits
        replica._commits_at_append = False
        began = trio.current_time()
        for _ in range(2):
            codes = await end_transaction(client, 1, partitions=(0, 1), transaction_version=2)
            assert codes == [ErrorCode.REQUEST_TIMED_OUT, 0]
        assert trio.current_time() - began == 2 * COMMIT_SECONDS_MAX
        assert [len(list(_markers(running, partition))) for partition in (0, 1)] == [1, 1]


async def test_markers_that_wait_are_refused_when_the_leader_is_deposed(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        replica.is_alone = False
        replica._commits_at_append = False
        responses: list[WriteTxnMarkersResponse] = []
        marker = WritableTxnMarker(PRODUCER, 0, True, [WritableTxnMarkerTopic("t", [0])], 0, 1)
        write_markers(running.spu, [marker], responses.append)
        assert responses == []
        replica.end_leading()
        (response,) = responses
        assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        running.spu.end_turn()


async def test_a_disk_that_fails_between_two_markers_causes_one_response(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure refuses the first marker, which waits for its commit, before the second one is part of the
    response."""
    async with running_spu() as running:
        await running.create("t")
        replica = running.replica("t")
        replica.is_alone = False  # nothing commits
        replica._commits_at_append = False
        append = replica.log.append

        def append_once(*args: Any) -> None:
            if list(_markers(running)):
                raise OSError("a test")
            append(*args)

        monkeypatch.setattr(Log, "append", lambda _, *args: append_once(*args))
        responses: list[WriteTxnMarkersResponse] = []
        markers = [
            WritableTxnMarker(producer, 0, True, [WritableTxnMarkerTopic("t", [0])], 0, 1) for producer in (7, 8)
        ]
        write_markers(running.spu, markers, responses.append)
        running.spu.end_turn()
        (response,) = responses
        assert [(each.producer_id, each.topics[0].partitions[0].error_code) for each in response.markers] == [
            (7, ErrorCode.KAFKA_STORAGE_ERROR),
            (8, ErrorCode.KAFKA_STORAGE_ERROR),
        ]


async def test_results_are_merged_by_producer_as_in_kafka(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        responses: list[WriteTxnMarkersResponse] = []
        markers = [
            WritableTxnMarker(producer, 0, True, [WritableTxnMarkerTopic("t", [partition])], 0, 1)
            for producer, partition in ((7, 0), (8, 0), (7, 1))
        ]
        write_markers(running.spu, markers, responses.append)
        running.spu.end_turn()
        (response,) = responses
        assert [
            (each.producer_id, [partition.partition_index for topic in each.topics for partition in topic.partitions])
            for each in response.markers
        ] == [(7, [0, 1]), (8, [0])]


async def test_a_request_without_markers_gets_a_response(autojump_clock: object) -> None:
    async with running_spu() as running:
        responses: list[WriteTxnMarkersResponse] = []
        write_markers(running.spu, [], responses.append)
        assert responses == [WriteTxnMarkersResponse()]


async def test_readers_see_records_behind_a_marker(autojump_clock: object) -> None:
    """A marker has an offset like a record."""
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)))
        await end_transaction(client, 0)
        (answer,) = await ask(client, request(batch(b"b")))
        assert answer.base_offset == 2


async def test_the_groups_of_a_partition_learn_of_its_markers(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        client = await running.client()
        await client.request(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g"))
        await trio.testing.wait_all_tasks_blocked()
        told: list[tuple[int, int, int, bool]] = []
        monkeypatch.setattr(
            type(running.spu.groups), "on_marker", lambda _, replica, *marker: told.append((replica.partition, *marker))
        )
        replica = next(each for each in running.spu.replicas if each.topic == GROUPS_TOPIC)
        partition = replica.partition
        assert await end_transaction(client, 0, topic=GROUPS_TOPIC, partitions=(partition,)) == [0]
        assert told == [(partition, PRODUCER, 0, True)]
