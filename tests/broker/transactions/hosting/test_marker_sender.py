"""Markers reach the leaders of partitions, whatever happens to them."""

from collections.abc import Callable
from typing import Any

import structlog
import trio
import trio.testing
from clusters import ClusterOfSpus, cluster_of
from msgspec import Struct, field
from structlog.testing import capture_logs
from transaction_clients import TransactionalProducer, ends_of, find_coordinator

from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.marker_work import MarkerWork
from tailrace.broker.transactions.hosting.marker_lines import UNKNOWN_SECONDS_MIN
from tailrace.broker.transactions.hosting.marker_sender import FAILURES_TO_LOG, MarkerSender
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC
from tailrace.cluster.specs import PartitionSpec, TopicPartition, TopicSpec
from tailrace.protocol.apis import Api
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, PartitionState, TopicState
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tailrace.runtime.chance import RandomChance

HERE, THERE = SpuId(1), SpuId(2)


# with scripted SPUs


class _Owner(Struct, eq=False):
    """A coordinated partition, which notes the markers that were written."""

    is_over: bool = False
    written: list[TopicPartition] = field(default_factory=list)

    def tell(self, call: Callable[[Any, Moment], None]) -> bool:
        call(self, Moment(0.0, 0))
        return not self.is_over

    def on_markers_written(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: list[TopicPartition], moment: Moment
    ) -> None:
        assert (transactional_id, producer_id, epoch) == ("id", 7, 3)
        self.written += partitions


class _World(Struct):
    """A sender, and SPUs that answer with the codes that a test puts here."""

    sender: Any = None
    cluster: Cluster = field(default_factory=Cluster)
    owner: _Owner = field(default_factory=_Owner)
    here: list[ErrorCode] = field(default_factory=list)
    there: list[ErrorCode | OSError] = field(default_factory=list)
    sent: list[tuple[SpuId, WriteTxnMarkersRequest]] = field(default_factory=list)
    version: int = 2
    commits_at_once: bool = True
    uncommitted: list[Callable[[], None]] = field(default_factory=list)
    """What reports the markers here that are not committed yet."""

    def put_topic(self, name: str, *leaders: int) -> None:
        topic_id = TopicId(int=hash(name) & 0xFFFF)
        partitions = tuple(
            PartitionSpec(topic_id, name, number, SpuId(leader), Epoch(1), (HERE,), (HERE,))
            for number, leader in enumerate(leaders)
        )
        self.cluster.put_topic(TopicSpec(topic_id, name, {}, partitions))

    def write_here(
        self, markers: list[WritableTxnMarker], on_written: Callable[[WriteTxnMarkersResponse], None]
    ) -> None:
        self.sent.append((HERE, WriteTxnMarkersRequest(markers)))
        response = _response(WriteTxnMarkersRequest(markers), self.here.pop(0) if self.here else ErrorCode.NONE)
        if self.commits_at_once:
            on_written(response)
        else:
            self.uncommitted.append(lambda: on_written(response))

    async def send_to(self, spu: SpuId, api: Api, make: Callable[[int], Any], seconds: float) -> tuple[int, Any]:
        await trio.sleep(0.001)
        request = make(self.version)
        self.sent.append((spu, request))
        answer = self.there.pop(0) if self.there else ErrorCode.NONE
        if isinstance(answer, OSError):
            raise answer
        return self.version, _response(request, answer)

    def send(self, *partitions: TopicPartition) -> None:
        self.sender.send(self.owner, MarkerWork("id", 7, 3, True, 5, 2, frozenset(partitions)))


def _response(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name, [WritableTxnMarkerPartitionResult(each, code) for each in topic.partition_indexes]
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _world(nursery: trio.Nursery) -> _World:
    world = _World()
    world.put_topic(TRANSACTIONS_TOPIC, HERE)
    world.sender = MarkerSender(
        HERE,
        world.cluster,
        world.send_to,
        world.write_here,  # type: ignore[arg-type]
        lambda: None,
        RandomChance(1),
        nursery,
        structlog.get_logger(),
    )
    return world


T = [TopicPartition("t", number) for number in range(4)]


async def test_each_leader_gets_one_request(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", HERE, THERE, HERE, THERE)
        world.send(*T)
        await trio.sleep(1)
        assert sorted(world.owner.written) == T
        assert sorted(spu for spu, _ in world.sent) == [HERE, THERE]
        assert world.sender.waiting == 0


async def test_a_marker_here_is_reported_as_soon_as_it_is_committed(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", HERE, HERE, HERE)
        world.commits_at_once = False
        for each in T[:2]:
            world.send(each)
            await trio.testing.wait_all_tasks_blocked()
        assert world.owner.written == []
        for report in world.uncommitted:
            report()
        assert world.owner.written == [], "the caller is in the middle of its work"
        await trio.testing.wait_all_tasks_blocked()
        assert world.owner.written == T[:2]
        world.commits_at_once = True
        world.send(T[2])
        await trio.testing.wait_all_tasks_blocked()
        assert world.owner.written == T[:3]


async def test_a_marker_is_sent_again_until_a_leader_has_written_it(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", HERE, THERE)
        world.here += [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
        world.there += [OSError("gone"), ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        world.send(*T[:2])
        await trio.sleep(5)
        assert sorted(world.owner.written) == T[:2]
        assert sorted(spu for spu, _ in world.sent) == [HERE] * 4 + [THERE] * 4


async def test_a_marker_follows_its_partition_to_another_leader(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", -1)
        world.send(T[0])
        await trio.sleep(1)
        assert world.sent == []
        world.put_topic("t", THERE)
        await trio.sleep(2)
        assert [spu for spu, _ in world.sent] == [THERE]
        assert world.owner.written == [T[0]]


async def test_a_deleted_partition_needs_no_marker(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.send(T[0])
        await trio.sleep(UNKNOWN_SECONDS_MIN / 2)
        assert world.owner.written == [], "a new coordinator may not know all topics yet"
        await trio.sleep(UNKNOWN_SECONDS_MIN * 2)
        assert world.owner.written == [T[0]]
        assert world.sent == []


async def test_a_marker_waits_for_a_topic_that_the_controller_hides(autojump_clock: object) -> None:
    """This SPU restarts, so that its mirror is empty, and the Streaming Controller tells of the topic late."""
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        states = TopicState(TopicId(int=1), TRANSACTIONS_TOPIC, is_internal=True, partitions=[PartitionState(0, HERE)])
        mirror = MirrorUpdater(world.cluster, HERE)
        mirror.apply(ApplyMetadataRequest(True, 1, topics=[states], hidden_topics=[TopicId(int=2)]))
        world.send(T[0])
        await trio.sleep(60)
        assert (world.owner.written, world.sent) == ([], [])
        shown = TopicState(TopicId(int=2), "t", partitions=[PartitionState(0, THERE)])
        mirror.apply(ApplyMetadataRequest(False, 2, topics=[shown]))
        await trio.sleep(5)
        assert (world.owner.written, [spu for spu, _ in world.sent]) == ([T[0]], [THERE])


async def test_a_fenced_coordinator_sends_nothing_more(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", THERE)
        world.there += [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        with capture_logs() as logged:
            world.send(T[0])
            await trio.sleep(60)
        assert [each["event"] for each in logged] == ["transaction_marker_refused"]
        assert (len(world.sent), world.owner.written, world.sender.waiting) == (1, [], 0)


async def test_a_partition_that_knows_a_newer_epoch_of_the_producer_needs_no_marker(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", THERE)
        world.there += [ErrorCode.INVALID_PRODUCER_EPOCH]
        world.send(T[0])
        await trio.sleep(1)
        assert (len(world.sent), world.owner.written) == (1, [T[0]])


async def test_a_coordinator_that_has_ended_sends_nothing_more(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", -1, THERE)
        world.send(*T[:2])
        world.owner.is_over = True
        world.sender.forget_ended()
        world.put_topic("t", HERE, THERE)
        await trio.sleep(10)
        assert world.sent == []
        assert world.sender.waiting == 0


async def test_the_log_says_once_that_a_marker_waits(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", THERE)
        world.there += [OSError("gone")] * (FAILURES_TO_LOG + 5)
        with capture_logs() as logged:
            world.send(T[0])
            await trio.sleep(60)
        assert [(each["event"], each["partition"], each["reason"]) for each in logged] == [
            ("transaction_marker_waits", 0, "gone")
        ]
        assert world.owner.written == [T[0]]


async def test_markers_are_sent_in_a_version_that_the_other_spu_serves_kafka_20322(autojump_clock: object) -> None:
    """Apache Kafka sent the newest version to brokers that did not know it yet."""
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.version = 1
        world.put_topic("t", THERE)
        world.send(T[0])
        await trio.sleep(1)
        ((_, request),) = world.sent
        assert request.markers[0].transaction_version == 0
        assert world.owner.written == [T[0]]


async def test_markers_that_wait_for_the_same_spu_share_a_request(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        world = _world(nursery)
        world.put_topic("t", THERE, THERE, THERE, THERE)
        for each in T:
            world.send(each)
        await trio.sleep(1)
        assert [len(request.markers[0].topics[0].partition_indexes) for _, request in world.sent] == [4]


# with whole SPUs


async def _producer(cluster: ClusterOfSpus, leader: int) -> tuple[TransactionalProducer, int]:
    node = await find_coordinator(await cluster.client_of(1), "id")
    await trio.sleep(2)  # until the coordinators are loaded
    producer = TransactionalProducer(await cluster.client_of(node), "id", await cluster.client_of(leader))
    assert (await producer.init()).error_code == 0
    return producer, node


async def test_all_replicas_get_markers_from_a_coordinator_on_any_spu(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        assert await cluster.create(1, "t", 3, 3) == 0
        leaders = {partition: leader for partition, (leader, _) in (await cluster.leaders(1, "t")).items()}
        assert sorted(leaders.values()) == [1, 2, 3]
        producer, _ = await _producer(cluster, leaders[0])
        for commit in (True, False):
            assert await producer.add("t", 0, 1, 2) == [0, 0, 0]
            assert await producer.produce("t", 0, b"a") == 0
            assert (await producer.end(commit=commit)).error_code == 0
        await trio.sleep(1)
        for spu in cluster.spus.values():
            replicas = [spu.spu.replicas.find("t", partition) for partition in range(3)]
            assert [ends_of(each) for each in replicas if each is not None] == [[True, False]] * 3


async def test_a_new_coordinator_sends_the_markers_that_the_one_before_did_not(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        assert await cluster.create(1, "t", 3, 3) == 0
        leaders = {partition: leader for partition, (leader, _) in (await cluster.leaders(1, "t")).items()}
        producer, node = await _producer(cluster, leaders[0])
        (partition,) = [each for each, leader in leaders.items() if leader not in (node, leaders[0])] or [
            next(each for each, leader in leaders.items() if leader != node)
        ]
        assert await producer.add("t", partition) == [0]
        for spu in cluster.spus.values():
            spu.spu._transaction_kind._send = lambda owner, work: None  # type: ignore[method-assign]
        assert (await producer.end(commit=True)).error_code == 0
        for spu in cluster.spus.values():
            del spu.spu._transaction_kind._send
        await cluster.kill_spu(node)
        await trio.sleep(60)
        replicas = [spu.spu.replicas.find("t", partition) for spu in cluster.spus.values()]
        assert [ends_of(each) for each in replicas if each is not None] == [[True]] * 2
