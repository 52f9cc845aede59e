import errno
from collections.abc import Callable, Sequence
from typing import cast

import pytest
import trio
from held_replicas import ELSEWHERE, HERE, World, topic_of
from msgspec.structs import replace
from spus import batch

from tailrace.broker.replicas.replica import Replica, Replication
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Shelf
from tailrace.protocol.batches.record_batch import BatchHeader, iterate, read_header, stamp
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.runtime.files import Buffer
from tailrace.storage.directory.checkpoints import SavedHighWatermark
from tailrace.storage.log.log import Log


def _stamped(replica: Replica, offset: int, *values: bytes) -> bytearray:
    data = bytearray(batch(*values))
    stamp(data, 0, offset, replica.spec.epoch)
    return data


def _append(replica: Replica, *values: bytes) -> None:
    data = _stamped(replica, replica.log.log_end, *values)
    replica.append(data, read_header(data))


class _Waiter:
    def __init__(self) -> None:
        self.heard: list[object] = []
        self.done = False

    def on_acknowledged(self) -> None:
        self.heard.append("acknowledged")

    def on_advanced(self) -> None:
        self.heard.append("advanced")

    def on_refused(self, error: KafkaError) -> None:
        self.heard.append(error.code)


def test_without_flush_messages_appends_can_be_read_at_once() -> None:
    (replica,) = World().add(topic_of())
    _append(replica, b"a", b"b")
    assert replica.high_watermark == replica.readable_end == 2


async def test_with_a_flush_for_each_message_it_counts_once_it_is_on_the_disk() -> None:
    (replica,) = World().add(topic_of(), flush_messages="1")
    _append(replica, b"a", b"b")
    replica.on_advanced()
    assert replica.high_watermark == replica.readable_end == 0
    await replica.log.sync()
    replica.on_advanced()
    assert replica.high_watermark == 2


async def test_a_partition_of_which_old_segments_are_on_shelves_begins_there() -> None:
    (replica,) = World().add(topic_of())
    _append(replica, b"a", b"b", b"c", b"d")
    await replica.delete_records(2)
    assert replica.earliest == 2
    replica.use_spec(replace(replica.spec, shelved_from=1, shelves=(Shelf(0, 3, (ELSEWHERE,)),)))
    assert replica.earliest == 1
    await replica.delete_records(4)
    assert replica.earliest == 4


async def test_a_leader_can_wait_for_a_spec(autojump_clock: object) -> None:
    (replica,) = World().add(topic_of())

    async def wait() -> None:
        await replica.wait_for_spec(lambda spec: spec.shelved_from == 2, replica.spec.epoch)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for start in (1, 2):
            await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
            replica.use_spec(replace(replica.spec, shelved_from=start))
    replica.use_spec(replace(replica.spec, shelved_from=0))
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def wait_in_vain() -> None:
            with pytest.raises(KafkaError) as refused:
                await wait()
            assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

        await trio.testing.wait_all_tasks_blocked()
        replica.use_spec(replace(replica.spec, leader=ELSEWHERE, epoch=Epoch(6)))


@pytest.mark.parametrize(
    ("topic", "enabled", "shelved"),
    [("t", "true", (1, 1)), ("t", "false", (0, 0)), ("__consumer_offsets", "true", (0, 0))],
)
def test_topics_with_shelves_are_put_on_shelves_but_internal_ones_never(
    topic: str, enabled: str, shelved: tuple[int, int]
) -> None:
    (replica,) = World().add(topic_of(topic), remote_storage_enable=enabled)
    assert (replica.wants_more_shelves, replica.has_shelves) == shelved
    replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 3, (ELSEWHERE,)),)))
    assert (replica.wants_more_shelves, replica.has_shelves) == (shelved[0], True)


def test_uncommitted_reads_are_an_opt_in() -> None:
    (replica,) = World().add(topic_of(), flush_messages="1", consumer_consistency="uncommitted")
    _append(replica, b"a")
    assert (replica.high_watermark, replica.readable_end) == (0, 1)


def test_acknowledgements_go_as_far_as_the_high_watermark() -> None:
    (replica,) = World().add(topic_of())
    first, second = _Waiter(), _Waiter()
    replica.wait_until_committed(1, first)
    replica.wait_until_committed(3, second)
    _append(replica, b"a", b"b")
    replica.on_advanced()
    assert (first.heard, second.heard) == (["acknowledged"], [])
    _append(replica, b"c")
    replica.on_advanced()
    assert (first.heard, second.heard) == (["acknowledged"], ["acknowledged"])


def test_a_retried_batch_is_acknowledged_with_the_original() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    replica.begin_leading()
    _append(replica, b"a", b"b", b"c")
    last, again = _Waiter(), _Waiter()
    replica.wait_until_committed(3, last)
    replica.wait_until_committed(1, again)
    replica.on_committed(1, replica.spec.epoch)
    assert (last.heard, again.heard) == ([], ["acknowledged"])


async def test_a_request_that_waits_for_the_disk_does_not_wait_for_followers() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE), flush_messages="1")
    replica.begin_leading()
    first, second, third = _Waiter(), _Waiter(), _Waiter()
    _append(replica, b"a")
    replica.wait_until_synced(1, first)
    await replica.log.sync()
    _append(replica, b"b")
    replica.wait_until_synced(2, second)
    replica.wait_until_committed(2, third)
    replica.on_advanced()
    assert replica.high_watermark == 0
    assert (first.heard, second.heard, third.heard) == (["acknowledged"], [], [])
    replica.end_leading()
    assert (second.heard, third.heard) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER],) * 2


def test_requests_stop_waiting_for_the_disk_when_flush_messages_changes() -> None:
    """Records appended during a sync may not be synced again for a long time."""
    (replica,) = World().add(topic_of(leader=ELSEWHERE), flush_messages="1")
    replica.begin_leading()
    waiter = _Waiter()
    _append(replica, b"a")
    replica.wait_until_synced(1, waiter)
    replica.use_settings(settings_of({}, BrokerConfigs({})))
    replica.on_advanced()
    assert waiter.heard == ["acknowledged"]


def test_replication_learns_of_all_batches() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    told: list[int] = []

    class Role:
        def on_batches(self, batches: Buffer, headers: Sequence[BatchHeader]) -> None:
            assert [header for _, header in iterate(batches)] == list(headers)
            told.extend(header.base_offset for header in headers)

    replica.replication = cast(Replication, Role())
    _append(replica, b"a", b"b")
    _append(replica, b"c")
    together = b"".join([_stamped(replica, 3, b"d"), _stamped(replica, 4, b"e", b"f")])
    assert replica.append_together(together, [header for _, header in iterate(together)])
    assert told == [0, 2, 3, 4]


def test_how_many_replicas_are_to_be_live_is_as_the_newest_spec_and_the_newest_settings_say() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE), min_insync_replicas="3")
    assert replica.replicas_min == 2, "all that there are"
    replica.use_spec(replace(replica.spec, replicas=(HERE, ELSEWHERE, SpuId(7))))
    assert replica.replicas_min == 3
    replica.use_settings(settings_of({"min.insync.replicas": "1"}, BrokerConfigs({})))
    assert replica.replicas_min == 1


def test_a_full_disk_takes_the_replica_offline_and_refuses_waiting_requests() -> None:
    world = World()
    (replica,) = world.add(topic_of())
    producer, consumer = _Waiter(), _Waiter()
    replica.wait_until_committed(9, producer)
    replica.waiting_fetches[consumer] = None
    world.files.room_bytes = 10
    with pytest.raises(KafkaError) as refused:
        _append(replica, b"a")
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.offline_reason is not None
    assert replica.offline_reason.startswith("append failed: ")
    assert producer.heard == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert consumer.heard == ["advanced"]
    assert world.refusal("t") == ErrorCode.KAFKA_STORAGE_ERROR
    replica.go_offline("something later")
    assert replica.offline_reason.startswith("append failed: "), "the first reason is the reason"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_nothing_is_wrong_with_a_disk_where_no_more_files_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    world = World()
    (replica,) = world.add(topic_of())
    _append(replica, b"a")
    with monkeypatch.context() as now:
        now.setattr(Log, "read", _raising(OSError(number, "too many open files")))
        now.setattr(Log, "find_timestamp", _raising(OSError(number, "too many open files")))
        for ask in (lambda: replica.read(0, 100, 1, at_least_one=True), lambda: replica.find_timestamp(0, 1)):
            with pytest.raises(KafkaError) as refused:
                ask()
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        now.setattr(Log, "append", _raising(OSError(number, "too many open files")))
        with pytest.raises(KafkaError) as refused:
            _append(replica, b"b")
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.offline_reason is None
    assert replica.read(0, 100, 1, at_least_one=True) is not None
    _append(replica, b"b")
    assert replica.high_watermark == 2


def _raising(error: OSError) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def test_the_high_watermark_never_falls() -> None:
    (replica,) = World().add(topic_of(), flush_messages="1")
    replica.high_watermark = 5
    replica.on_advanced()
    assert replica.high_watermark == 5


def test_replicated_records_are_committed_when_replication_says_so() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    replica.use_spec(replace(replica.spec, leader=HERE, epoch=Epoch(6)))
    assert not replica.is_leader
    replica.begin_leading()
    producer = _Waiter()
    _append(replica, b"a")
    replica.wait_until_committed(1, producer)
    replica.on_advanced()
    assert (replica.log.log_end, replica.high_watermark, producer.heard) == (1, 0, [])
    replica.on_committed(1, Epoch(6))
    assert (replica.high_watermark, producer.heard) == (1, ["acknowledged"])
    assert replica.saved_high_watermark == SavedHighWatermark(1, Epoch(6))


def test_a_single_replica_names_no_commit_epoch() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    replica.on_committed(0, Epoch(3))
    assert replica.saved_high_watermark == SavedHighWatermark(0, Epoch(3))
    replica.use_spec(replace(replica.spec, leader=HERE, replicas=(HERE,), epoch=Epoch(6)))
    assert replica.saved_high_watermark == SavedHighWatermark(0, NO_EPOCH), "others may have replicated it since"
    replica.on_committed(0, Epoch(3))
    assert replica.saved_high_watermark == SavedHighWatermark(0, NO_EPOCH)


def test_no_third_segment_begins_before_the_first_is_committed() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    replica.use_spec(replace(replica.spec, leader=HERE, epoch=Epoch(6)))
    replica.begin_leading()
    replica.log.use_config(replace(replica.log.config, segment_bytes_max=1))
    for value in (b"a", b"b", b"c"):
        _append(replica, value)
    assert [(segment.base, segment.end) for segment in replica.log.segments()] == [(0, 1), (1, 3)]
    replica.on_committed(1, Epoch(1))
    _append(replica, b"d")
    assert [(segment.base, segment.end) for segment in replica.log.segments()] == [(0, 1), (1, 3), (3, 4)]


def test_requests_that_wait_for_a_deposed_leader_are_refused() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    replica.begin_leading()
    producer = _Waiter()
    replica.wait_until_committed(1, producer)
    replica.end_leading()
    assert (replica.is_leader, producer.heard) == (False, [ErrorCode.NOT_LEADER_OR_FOLLOWER])


def test_tasks_that_wait_for_a_deposed_leader_are_refused() -> None:
    world = World()
    (replica,) = world.add(topic_of())
    producer, consumer = _Waiter(), _Waiter()
    replica.wait_until_committed(9, producer)
    replica.waiting_fetches[consumer] = None
    replica.use_spec(replace(replica.spec, leader=ELSEWHERE, epoch=Epoch(6), live_replicas=(ELSEWHERE,)))
    assert producer.heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert consumer.heard == ["advanced"]
    assert world.refusal("t", epoch=6) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_waits_in_an_epoch_looks_again_when_the_next_begins() -> None:
    world = World()
    (replica,) = world.add(topic_of())
    consumer = _Waiter()
    replica.waiting_fetches[consumer] = None
    replica.use_spec(replace(replica.spec, epoch=Epoch(6)))
    assert consumer.heard == ["advanced"]
    assert world.refusal("t", epoch=5) == ErrorCode.FENCED_LEADER_EPOCH
    _append(replica, b"a")
    assert replica.log.epochs.latest == 6, "what it stamps is the new epoch"


def test_settings_leave_the_leadership_as_it_is() -> None:
    (replica,) = World().add(topic_of(leader=ELSEWHERE))
    replica.begin_leading()
    replica.use_settings(replica.settings)
    assert replica.is_leader
    _append(replica, b"a")
    assert replica.high_watermark == 0
