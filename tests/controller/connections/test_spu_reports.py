from uuid import UUID

import pytest
import structlog
import trio
import trio.testing

from tailrace.controller.connections.event_queue import EventQueue
from tailrace.controller.connections.spec_cache import SpecCache
from tailrace.controller.connections.spu_reports import SpuReports
from tailrace.controller.connections.spu_stream import Registered
from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionSpec, PartitionStatus
from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.events import (
    Event,
    LiveReplicasReported,
    ReplicaFailed,
    ReplicaOpened,
    ShelvesReported,
    StorageReported,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest
from tailrace.protocol.internal.report_live_replicas import Member, ReportedPartition
from tailrace.protocol.internal.report_shelves import FilledShelf
from tailrace.protocol.internal.report_shelves import ReportedPartition as ReportedShelves

TOPIC = UUID(int=7)


def _partition(number: int, *replicas: int) -> Partition:
    """Returns a partition that the first replica leads."""
    spus = tuple(map(SpuId, replicas))
    status = PartitionStatus(PartitionResolution.ONLINE, spus[0], Epoch(3), "first", {spus[0]: "store"})
    return Partition("orders", TOPIC, number, PartitionSpec(spus[0], spus), status)


def _reported(
    number: int = 0, epoch: int = 3, members: tuple[int, ...] = (1,), *, has_taken_over: bool = False
) -> ReportedPartition:
    stores = [Member(spu, f"store of {spu}") for spu in members]
    return ReportedPartition(TOPIC, number, epoch, 5, stores, has_taken_over=has_taken_over)


def _failed(number: int = 0, epoch: int = 3) -> ReportedPartition:
    return ReportedPartition(TOPIC, number, epoch, has_failed=True)


async def _nobody_listens(_: Event) -> None:
    raise NotImplementedError


class _World:
    def __init__(self, *partitions: Partition) -> None:
        cache = SpecCache()
        for partition in partitions:
            cache.put_partition(partition)
        self.connected = {(SpuId(1), "first"), (SpuId(2), "first")}
        self.metrics = ScMetrics({})
        self.events = EventQueue(_nobody_listens)
        self.reports = SpuReports(
            cache, self.events, lambda *process: process in self.connected, self.metrics, structlog.get_logger()
        )

    @property
    def happened(self) -> list[Event]:
        return list(self.events._waiting)

    async def report(self, spu: int, *reported: ReportedPartition) -> int:
        answer = await self.reports.take_partitions(Registered(SpuId(spu), "first", "", 0), list(reported))
        return answer.error_code

    def renew(self, used_bytes: int, size_bytes: int, incarnation: str = "first") -> None:
        message = RenewLeaseRequest(used_bytes=used_bytes, size_bytes=size_bytes)
        self.reports.take_storage(Registered(SpuId(1), incarnation, "", 0), message)


async def test_live_replicas_are_reported_by_the_leader() -> None:
    world = _World(_partition(0, 1, 2), _partition(1, 1))
    assert await world.report(1, _reported(0, members=(1, 2)), _reported(1, members=(), has_taken_over=True)) == 0
    assert world.happened == [
        LiveReplicasReported(
            SpuId(1), "first", TOPIC, 0, Epoch(3), 5, ((SpuId(1), "store of 1"), (SpuId(2), "store of 2"))
        ),
        LiveReplicasReported(SpuId(1), "first", TOPIC, 1, Epoch(3), 5, (), has_taken_over=True),
    ]
    assert world.metrics.live_replica_reports == 2


@pytest.mark.parametrize(
    ("why", "reported"),
    [
        ("another epoch", _reported(epoch=2)),
        ("another leader", _reported(1)),
        ("no such partition", _reported(9)),
        ("a replica that is none", _reported(members=(1, 3))),
        ("without the leader itself", _reported(members=(2,))),
    ],
)
async def test_a_report_of_an_spu_that_does_not_lead_is_refused(why: str, reported: ReportedPartition) -> None:
    world = _World(_partition(0, 1, 2), _partition(1, 2, 1))
    assert await world.report(1, reported, _reported()) == ErrorCode.FENCED_LEADER_EPOCH
    assert len(world.happened) == 1
    assert (world.metrics.live_replica_reports, world.metrics.refused_live_replica_reports) == (1, 1)


async def test_a_replica_that_failed_is_known_for_as_long_as_its_process_is_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = _World(_partition(0, 1, 2), _partition(1, 1))
    failed = world.reports.failed
    assert await world.report(2, _failed()) == 0
    await trio.sleep(0.5)
    assert await world.report(2, _failed(0), _failed(1)) == 0
    assert failed(0.5) == {(TOPIC, 0, SpuId(2))}, "it does not hold the other one"
    assert failed(0.6) == frozenset()
    told = [ReplicaFailed(SpuId(2), "first", TOPIC, 0, Epoch(3))] * 2
    assert world.happened == told, "another SPU leads, and it might be elected next"
    assert await world.report(1, _failed(epoch=NO_EPOCH)) == 0
    assert (TOPIC, 0, SpuId(1)) in failed(0)
    assert world.happened == told, "it may be elected once more"
    assert await world.report(1, ReportedPartition(TOPIC, 0, NO_EPOCH)) == 0
    assert failed(0) == {(TOPIC, 0, SpuId(2))}, "it has opened"
    assert world.happened[len(told) :] == [ReplicaOpened(SpuId(1), "first", TOPIC, 0)]
    assert await world.report(1, _failed(epoch=NO_EPOCH)) == 0
    world.connected.remove((SpuId(2), "first"))
    assert failed(0) == {(TOPIC, 0, SpuId(1))}


async def test_a_leader_that_gives_up_is_heard() -> None:
    world = _World(_partition(0, 1, 2))
    assert await world.report(1, _failed()) == 0
    assert world.happened == [ReplicaFailed(SpuId(1), "first", TOPIC, 0, Epoch(3))]


def test_full_storage_is_reported_once_for_each_change() -> None:
    world = _World()
    for used_bytes, size_bytes in ((7, -1), (4, 5), (5, 5), (6, 5), (4, 5), (3, 5), (9, 9)):
        world.renew(used_bytes, size_bytes)
    assert world.happened == [
        StorageReported(SpuId(1), "first", is_full, used_bytes, size_bytes)
        for is_full, used_bytes, size_bytes in ((True, 5, 5), (False, 4, 5), (True, 9, 9))
    ]


def test_another_process_says_anew_that_its_storage_is_full() -> None:
    world = _World()
    for incarnation in ("first", "first", "second"):
        world.renew(5, 5, incarnation)
    assert [each.incarnation for each in world.happened if isinstance(each, StorageReported)] == ["first", "second"]


async def test_only_the_leader_may_report_shelves_in_its_epoch() -> None:
    world = _World(_partition(0, 1, 2), _partition(1, 2, 1))
    one = Registered(SpuId(1), "first", "", 0)
    reported = ReportedShelves(TOPIC, 0, 3, 7, [FilledShelf(5, 4, 90)], 100)
    answer = await world.reports.take_shelves(one, [reported, ReportedShelves(TOPIC, 0, 3)])
    assert answer.error_code == ErrorCode.NONE
    assert world.happened == [
        ShelvesReported(SpuId(1), "first", TOPIC, 0, Epoch(3), 7, ((5, SpuId(4), 90),), 100),
        ShelvesReported(SpuId(1), "first", TOPIC, 0, Epoch(3), 0),
    ]
    for number, epoch in ((0, 2), (0, 4), (1, 3), (2, 3)):
        answer = await world.reports.take_shelves(one, [ReportedShelves(TOPIC, number, epoch)])
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert len(world.happened) == 2
