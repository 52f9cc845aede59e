import errno
from collections.abc import Callable
from typing import cast
from uuid import UUID

import pytest
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import batch

from tailrace.broker.replicas import Replica, Replicas, Replication
from tailrace.broker.topic_settings import settings_of
from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId, TopicId
from tailrace.protocol.record_batch import BatchHeader, read_header, stamp
from tailrace.runtime.files import Buffer
from tailrace.storage.checkpoints import SavedHighWatermark
from tailrace.storage.log import Log

HERE, ELSEWHERE = SpuId(1), SpuId(2)
TOPIC_ID = TopicId(int=7)


def _topic(name: str = "t", topic_id: TopicId = TOPIC_ID, leader: SpuId = HERE, partitions: int = 1) -> TopicSpec:
    return TopicSpec(
        topic_id,
        name,
        {},
        tuple(
            PartitionSpec(
                topic_id, name, number, leader, Epoch(5), (HERE,) if leader == HERE else (HERE, ELSEWHERE), (leader,)
            )
            for number in range(partitions)
        ),
    )


class _World:
    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.cluster = Cluster()
        self.replicas = Replicas(HERE, self.cluster)

    def add(self, topic: TopicSpec, **configs: str) -> list[Replica]:
        self.cluster.put_topic(topic)
        settings = settings_of({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfigs({}))
        made = []
        for spec in topic.partitions:
            directory = f"/data/topics/{topic.name}/{topic.id}/{spec.partition}"
            log = log_at(self.files, directory, settings.log, clean=True)
            made.append(Replica(HERE, spec, log, settings, log.log_end))
            self.replicas.add(made[-1])
        return made

    def refusal(self, topic: str | UUID, partition: int = 0, epoch: int = -1) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.replicas.leading(topic, partition, epoch)
        return refused.value.code


def _append(replica: Replica, *values: bytes) -> None:
    data = bytearray(batch(*values))
    stamp(data, 0, replica.log.log_end, replica.spec.epoch)
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


def test_a_replica_is_found_by_name_and_by_id() -> None:
    world = _World()
    (replica,) = world.add(_topic())
    assert world.replicas.leading("t", 0) is replica
    assert world.replicas.leading(TOPIC_ID, 0) is replica
    assert world.replicas.leading("t", 0, epoch=5) is replica
    assert list(world.replicas) == [replica], "each is there once"


def test_who_asks_for_what_is_not_here_is_told_why() -> None:
    world = _World()
    world.add(_topic())
    assert world.refusal("missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal(UUID(int=99)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.refusal("t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal("t", -1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal(TOPIC_ID, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal("t", epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert world.refusal("t", epoch=6) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_partition_that_another_leads_sends_the_client_on() -> None:
    world = _World()
    world.add(_topic(leader=ELSEWHERE))
    world.cluster.put_topic(_topic("not-here", TopicId(int=8), leader=ELSEWHERE))
    assert world.refusal("t") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.refusal("not-here") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_whose_log_did_not_open_says_that_its_storage_failed() -> None:
    world = _World()
    topic = _topic()
    world.cluster.put_topic(topic)
    world.replicas.add_damaged(topic.partitions[0], "bits have flipped")
    assert world.refusal("t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.replicas.remove(topic.partitions[0]) is None
    assert world.refusal("t") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_removed_replica_is_gone_by_both_its_names() -> None:
    world = _World()
    topic = _topic(partitions=2)
    made = world.add(topic)
    other = world.add(_topic("other", TopicId(int=8)))
    assert [world.replicas.remove(spec) for spec in topic.partitions] == made
    assert world.replicas.find("t", 0) is None
    assert world.replicas.find(TOPIC_ID, 1) is None
    assert list(world.replicas) == other


def test_a_topic_that_goes_takes_none_with_it_that_has_its_name_by_now() -> None:
    world = _World()
    topic = _topic()
    world.add(topic)
    (other,) = world.add(_topic(topic_id=TopicId(int=8)))
    world.replicas.remove(topic.partitions[0])
    assert world.replicas.find(TOPIC_ID, 0) is None
    assert world.replicas.find("t", 0) is other
    assert list(world.replicas) == [other]


def test_what_is_appended_can_be_read_at_once_where_no_one_waits_for_the_disk() -> None:
    (replica,) = _World().add(_topic())
    _append(replica, b"a", b"b")
    assert replica.high_watermark == replica.readable_end == 2


async def test_with_a_flush_for_each_message_it_counts_once_it_is_on_the_disk() -> None:
    (replica,) = _World().add(_topic(), flush_messages="1")
    _append(replica, b"a", b"b")
    replica.on_advanced()
    assert replica.high_watermark == replica.readable_end == 0
    await replica.log.sync()
    replica.on_advanced()
    assert replica.high_watermark == 2


def test_uncommitted_reads_are_an_opt_in() -> None:
    (replica,) = _World().add(_topic(), flush_messages="1", consumer_consistency="uncommitted")
    _append(replica, b"a")
    assert (replica.high_watermark, replica.readable_end) == (0, 1)


def test_acknowledgements_go_as_far_as_the_high_watermark() -> None:
    (replica,) = _World().add(_topic())
    first, second = _Waiter(), _Waiter()
    replica.wait_until_committed(1, first)
    replica.wait_until_committed(3, second)
    _append(replica, b"a", b"b")
    replica.on_advanced()
    assert (first.heard, second.heard) == (["acknowledged"], [])
    _append(replica, b"c")
    replica.on_advanced()
    assert (first.heard, second.heard) == (["acknowledged"], ["acknowledged"])


async def test_who_waits_for_the_disk_does_not_wait_for_followers() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE), flush_messages="1")
    replica.begin_leading()
    gone, first, second, third = _Waiter(), _Waiter(), _Waiter(), _Waiter()
    gone.done = True
    replica.wait_until_synced(1, gone)
    _append(replica, b"a")
    replica.wait_until_synced(1, first)
    await replica.log.sync()
    _append(replica, b"b")
    replica.wait_until_synced(2, second)
    replica.wait_until_committed(2, third)
    replica.on_advanced()
    assert replica.high_watermark == 0
    assert (gone.heard, first.heard, second.heard, third.heard) == ([], ["acknowledged"], [], [])
    replica.end_leading()
    assert (second.heard, third.heard) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER],) * 2


def test_who_waits_for_the_disk_waits_no_more_when_nobody_has_to() -> None:
    """What was appended while a sync ran may get no other one for a long time."""
    (replica,) = _World().add(_topic(leader=ELSEWHERE), flush_messages="1")
    replica.begin_leading()
    waiter = _Waiter()
    _append(replica, b"a")
    replica.wait_until_synced(1, waiter)
    replica.use_settings(settings_of({}, BrokerConfigs({})))
    replica.on_advanced()
    assert waiter.heard == ["acknowledged"]


def test_who_gave_up_is_not_kept_for_as_long_as_nothing_is_committed() -> None:
    (replica,) = _World().add(_topic())
    for _ in range(1_000):
        waiter = _Waiter()
        replica.wait_until_committed(1, waiter)
        waiter.done = True
    patient = _Waiter()
    replica.wait_until_committed(1, patient)
    assert [waiter for _, waiter in replica.waiting_acknowledgements or ()] == [patient]


def test_replication_is_told_of_each_batch() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE))
    told: list[int] = []

    class Role:
        def on_batch(self, batch: Buffer, header: BatchHeader) -> None:
            assert read_header(batch) == header
            told.append(header.base_offset)

    replica.replication = cast(Replication, Role())
    _append(replica, b"a", b"b")
    _append(replica, b"c")
    assert told == [0, 2]


def test_all_answers_are_prepared_before_one_is_sent() -> None:
    (replica,) = _World().add(_topic())
    happened: list[str] = []

    class Producer:
        done = False

        def __init__(self, name: str) -> None:
            self.name = name

        def on_acknowledged(self) -> Callable[[], None]:
            happened.append(f"prepare {self.name}")
            return lambda: happened.append(f"send {self.name}")

        def on_refused(self, error: KafkaError) -> None: ...

    for end, name in ((1, "a"), (2, "b"), (3, "c")):
        replica.wait_until_committed(end, Producer(name))
    _append(replica, b"a", b"b")
    replica.on_advanced()
    assert happened == ["prepare a", "prepare b", "send a", "send b"]


def test_a_full_disk_takes_the_replica_offline_and_tells_all_who_wait() -> None:
    world = _World()
    (replica,) = world.add(_topic())
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
    world = _World()
    (replica,) = world.add(_topic())
    _append(replica, b"a")
    with monkeypatch.context() as now:
        now.setattr(Log, "read", _raising(OSError(number, "too many open files")))
        now.setattr(Log, "find_timestamp", _raising(OSError(number, "too many open files")))
        for ask in (lambda: replica.read(0, 100, 1, at_least_one=True), lambda: replica.find_timestamp(0)):
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
    (replica,) = _World().add(_topic(), flush_messages="1")
    replica.high_watermark = 5
    replica.on_advanced()
    assert replica.high_watermark == 5


def test_what_is_replicated_is_committed_when_replication_says_so() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE))
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


def test_who_has_a_partition_to_itself_does_not_say_when_what_was_committed() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE))
    replica.on_committed(0, Epoch(3))
    assert replica.saved_high_watermark == SavedHighWatermark(0, Epoch(3))
    replica.use_spec(replace(replica.spec, leader=HERE, replicas=(HERE,), epoch=Epoch(6)))
    assert replica.saved_high_watermark == SavedHighWatermark(0, NO_EPOCH), "others may have replicated it since"
    replica.on_committed(0, Epoch(3))
    assert replica.saved_high_watermark == SavedHighWatermark(0, NO_EPOCH)


def test_no_third_segment_begins_before_the_first_is_committed() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE))
    replica.use_spec(replace(replica.spec, leader=HERE, epoch=Epoch(6)))
    replica.begin_leading()
    replica.log.use_config(replace(replica.log.config, segment_bytes_max=1))
    for value in (b"a", b"b", b"c"):
        _append(replica, value)
    assert [(segment.base, segment.end) for segment in replica.log.segments()] == [(0, 1), (1, 3)]
    replica.on_committed(1, Epoch(1))
    _append(replica, b"d")
    assert [(segment.base, segment.end) for segment in replica.log.segments()] == [(0, 1), (1, 3), (3, 4)]


def test_who_waits_for_a_leader_that_is_none_any_more_is_told_so() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE))
    replica.begin_leading()
    producer = _Waiter()
    replica.wait_until_committed(1, producer)
    replica.end_leading()
    assert (replica.is_leader, producer.heard) == (False, [ErrorCode.NOT_LEADER_OR_FOLLOWER])


def test_who_waits_for_a_replica_that_leads_no_more_is_told_so() -> None:
    world = _World()
    (replica,) = world.add(_topic())
    producer, consumer = _Waiter(), _Waiter()
    replica.wait_until_committed(9, producer)
    replica.waiting_fetches[consumer] = None
    replica.use_spec(replace(replica.spec, leader=ELSEWHERE, epoch=Epoch(6), live_replicas=(ELSEWHERE,)))
    assert producer.heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert consumer.heard == ["advanced"]
    assert world.refusal("t", epoch=6) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_waits_in_an_epoch_looks_again_when_the_next_begins() -> None:
    world = _World()
    (replica,) = world.add(_topic())
    consumer = _Waiter()
    replica.waiting_fetches[consumer] = None
    replica.use_spec(replace(replica.spec, epoch=Epoch(6)))
    assert consumer.heard == ["advanced"]
    assert world.refusal("t", epoch=5) == ErrorCode.FENCED_LEADER_EPOCH
    _append(replica, b"a")
    assert replica.log.epochs.latest == 6, "what it stamps is the new epoch"


def test_settings_leave_the_leadership_as_it_is() -> None:
    (replica,) = _World().add(_topic(leader=ELSEWHERE))
    replica.begin_leading()
    replica.use_settings(replica.settings)
    assert replica.is_leader
    _append(replica, b"a")
    assert replica.high_watermark == 0
