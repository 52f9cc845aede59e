"""How a leader moves segments to shelves, with a scripted Streaming Controller and scripted stores."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from held_replicas import ELSEWHERE, HERE, World, topic_of
from msgspec import Struct, field
from msgspec.structs import replace
from scripted_brokers import ScriptedBroker, ScriptedBrokers, scripted_brokers
from spus import SteadyClock, batch, spu_requests_from
from structlog import get_logger
from structlog.testing import capture_logs

from tailrace.broker.controller_link.sc_connection import ScUnreachableError
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.shelves.offloading import FILL_SECONDS_MAX, REPORT_SECONDS_MAX, Offloading
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.shelf_lookup import shelved_end
from tailrace.cluster.specs import Endpoint, PartitionSpec, Shelf, SpuSpec
from tailrace.protocol.apis import Api
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse, ShelvedSegment
from tailrace.protocol.internal.report_shelves import (
    ReportedPartition,
    ReportShelvesRequest,
    ReportShelvesResponse,
)

ONE, TWO = STORES = SpuId(3), SpuId(4)
ROUND_SECONDS = 300.0
SHELVED = {"remote_storage_enable": "true", "internal_segment_bytes": "1", "retention_ms": "-1"}
"""Configs with which each batch becomes a segment."""

Store = Callable[[FillShelfRequest], FillShelfResponse | None]


class LeaderBench(Struct):
    """A leader with partitions, and the stores of their shelves."""

    world: World
    brokers: ScriptedBrokers
    offloading: Offloading
    clock: SteadyClock
    stores: dict[int, Store]
    """The stores that do not simply fill what the leader asks."""
    reported: list[ReportedPartition] = field(default_factory=list)
    filled_here: list[tuple[int, int]] = field(default_factory=list)

    async def fill_here(self, api: Api, version: int, request: FillShelfRequest) -> FillShelfResponse:
        self.filled_here.append((request.base, request.end))
        await trio.lowlevel.checkpoint()
        return with_all(request)

    def lead(self, topic: str = "t", number: int = 7, batches: int = 0, **configs: str) -> Replica:
        (replica,) = self.world.add(topic_of(topic, TopicId(int=number)), **{**SHELVED, **configs})
        for _ in range(batches):
            data = bytearray(batch(b"x"))
            stamp(data, 0, replica.log.log_end, replica.spec.epoch)
            replica.append(data, read_header(data))
        return replica

    def asked(self, spu: SpuId) -> list[tuple[int, int]]:
        return [(each.base, each.end) for each in self.brokers.brokers[spu].heard]


def with_all(request: FillShelfRequest, end: int | None = None) -> FillShelfResponse:
    end = request.end if end is None else end
    times = 1_700_000_000_000, 1_700_000_000_000
    segments = [ShelvedSegment(base, base + 1, 100, *times) for base in range(request.base, end)]
    return FillShelfResponse(end=end, segments=segments)


def refused(code: ErrorCode) -> FillShelfResponse:
    return FillShelfResponse(code, "it is so")


def shown(spec: PartitionSpec, report: ReportedPartition) -> PartitionSpec:
    """Returns the spec that the Streaming Controller makes of a report."""
    shelves, start = spec.shelves, max(spec.shelved_from, report.shelved_from)
    if report.next_base >= 0:
        start = start if shelves else report.next_base
        shelves += (Shelf(report.next_base, report.next_base, STORES),)
    for filled in report.filled:
        shelves = tuple(replace(each, end=filled.end) if each.base == filled.base else each for each in shelves)
    left = tuple(each for each in shelves if each.base >= start or each.end > start)
    return replace(spec, shelved_from=start, shelves=left)


@asynccontextmanager
async def shelves(controller: Callable[[Any], Awaitable[Any]] | None = None) -> AsyncIterator[LeaderBench]:
    stores: dict[int, Store] = {}

    def script(broker: ScriptedBroker, request: FillShelfRequest) -> FillShelfResponse | None:
        assert request.leader_id == HERE
        return stores.get(broker.id, with_all)(request)

    async def report(request: ReportShelvesRequest) -> ReportShelvesResponse:
        (reported,) = request.partitions
        if controller is not None:
            await controller(reported)
        made.reported.append(reported)
        replica = world.replicas.find(reported.topic_id, reported.partition)
        assert replica is not None
        if reported.epoch != replica.spec.epoch:
            return ReportShelvesResponse(ErrorCode.FENCED_LEADER_EPOCH)
        replica.use_spec(shown(replica.spec, reported))
        return ReportShelvesResponse()

    async with scripted_brokers(script, *STORES) as brokers:
        world, clock = World(), SteadyClock()
        for spu in STORES:
            address = brokers.brokers[spu].address
            world.cluster.put_spu(SpuSpec(spu, endpoints=(Endpoint("PUBLIC", address.host, address.port),)))
        configs = BrokerConfigs({"log.retention.check.interval.ms": str(int(ROUND_SECONDS * 1000))})

        async def fill_here(*question: Any) -> FillShelfResponse:
            return await made.fill_here(*question)

        spus = spu_requests_from(HERE, world.cluster, brokers.network, fill_here)
        offloading = Offloading(spus, world.replicas, configs, clock, report, get_logger())
        made = LeaderBench(world, brokers, offloading, clock, stores)
        yield made


async def test_a_leader_that_is_also_a_store_asks_itself(autojump_clock: object) -> None:
    async with shelves() as made:
        replica = made.lead(batches=3)
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 2, (HERE, STORES[0])),)))
        await made.offloading.offload(replica)
        assert made.filled_here == made.asked(STORES[0]) == [(0, 2)]


async def test_old_segments_move_to_shelves_and_are_deleted_from_the_log(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=5, local_retention_bytes="75")
        await replica.log.sync()
        with capture_logs() as logged:
            assert not await given.offloading.offload(replica)
        assert replica.spec.shelves == (Shelf(0, 4, STORES),), "the open segment does not move"
        assert (replica.earliest, replica.log.log_start) == (0, 3)
        assert given.asked(ONE) == given.asked(TWO) == [(0, 1), (0, 2), (0, 3), (0, 4)]
        events = [(each["event"], each.get("end", each.get("log_start"))) for each in logged]
        assert events[:2] == [("shelf_added", None), ("segments_shelved", 1)]
        assert ("local_segments_removed", 3) in events


async def test_all_stores_are_asked_in_each_round_what_they_have(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=2)
        await replica.log.sync()
        for _ in range(2):
            await given.offloading.offload(replica)
        assert given.asked(ONE) == given.asked(TWO) == [(0, 1), (0, 1)]
        await given.offloading.offload(replica, asks_stores=False)
        assert len(given.asked(ONE)) == 2
        replica.use_spec(replace(replica.spec, epoch=Epoch(6)))
        await given.offloading.offload(replica, asks_stores=False)
        assert len(given.asked(ONE)) == 3, "confirmations to an earlier epoch do not count"


async def test_a_partition_without_shelves_asks_nobody(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=5, remote_storage_enable="false")
        await replica.log.sync()
        assert not replica.has_shelves
        assert not await given.offloading.offload(replica)
        assert given.reported == []


async def test_a_store_that_lacks_the_specs_is_asked_again(autojump_clock: object) -> None:
    async with shelves() as given:
        answers = [refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 2
        given.stores[ONE] = lambda request: answers.pop() if answers else with_all(request)
        replica = given.lead(batches=2)
        await replica.log.sync()
        await given.offloading.offload(replica)
        assert replica.spec.shelves == (Shelf(0, 1, STORES),)


async def test_a_store_may_fill_a_shelf_in_several_requests(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=6)
        await replica.log.sync()
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 5, (ONE,), (TWO,)),)))
        ends = iter(range(6))
        given.stores[TWO] = lambda request: with_all(request, next(ends))
        await given.offloading.offload(replica)
        assert given.asked(TWO) == [(0, 5)] * 6
        assert [(each.spu_id, each.end) for each in given.reported[0].filled] == [(TWO, 5)]


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: None,
        lambda request: refused(ErrorCode.KAFKA_STORAGE_ERROR),
        lambda request: refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        lambda request: with_all(request, 0),
    ],
    ids=["silent", "refuses", "knows nothing", "gets nowhere"],
)
async def test_the_log_keeps_segments_that_a_store_does_not_confirm(autojump_clock: object, answer: Store) -> None:
    async with shelves() as given:
        given.stores[ONE] = answer
        replica = given.lead(batches=5, local_retention_bytes="0")
        await replica.log.sync()
        began = trio.current_time()
        assert not await given.offloading.offload(replica)
        assert trio.current_time() - began <= FILL_SECONDS_MAX
        assert (replica.log.log_start, replica.spec.shelves) == (0, (Shelf(0, 0, STORES),))
        del given.stores[ONE]
        await given.offloading.offload(replica)
        assert replica.log.log_start == 4


async def test_a_lost_copy_is_filled_again_before_the_log_is_deleted(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=5)
        await replica.log.sync()
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 4, STORES),)))
        replica.use_settings(replace(replica.settings, local_retention_bytes=0))
        starts = []

        def anew(request: FillShelfRequest) -> FillShelfResponse:
            starts.append(replica.log.log_start)
            return with_all(request, len(starts))

        given.stores[ONE] = anew
        await given.offloading.offload(replica)
        assert starts == [0, 0, 0, 0]
        assert replica.log.log_start == 4


async def test_without_a_streaming_controller_only_retention_continues(autojump_clock: object) -> None:
    async def away(reported: object) -> None:
        raise ScUnreachableError("it is away")

    async with shelves(away) as given:
        replica = given.lead(batches=5, retention_bytes="300")
        await replica.log.sync()
        size = replica.log.size_bytes // 5
        replica.use_settings(replace(replica.settings, log=replace(replica.settings.log, retention_bytes=3 * size)))
        with capture_logs() as logged:
            assert not await given.offloading.offload(replica)
        assert [each["event"] for each in logged] == ["segments_removed", "shelves_not_reported"]
        assert (replica.log.log_start, replica.spec.shelves) == (2, ())


async def test_local_retention_continues_while_the_streaming_controller_is_offline(autojump_clock: object) -> None:
    async def away(reported: object) -> None:
        raise ScUnreachableError("it is away")

    async with shelves(away) as given:
        replica = given.lead(batches=5, local_retention_bytes="0")
        await replica.log.sync()
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 3, (ONE,), (TWO,)),)))
        assert not await given.offloading.offload(replica)
        assert replica.log.log_start == 3


async def test_a_report_without_effect_times_out(autojump_clock: object) -> None:
    async def silent(reported: object) -> None:
        await trio.sleep_forever()

    async with shelves(silent) as given:
        replica = given.lead(batches=5)
        await replica.log.sync()
        began = trio.current_time()
        assert not await given.offloading.offload(replica)
        assert trio.current_time() - began == REPORT_SECONDS_MAX


async def test_total_retention_deletes_from_shelves(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=5, local_retention_bytes="0")
        await replica.log.sync()
        await given.offloading.offload(replica)
        assert (replica.earliest, replica.log.log_start) == (0, 4)
        replica.use_settings(replace(replica.settings, log=replace(replica.settings.log, retention_ms=1000)))
        given.clock.time_ms += 1001
        with capture_logs() as logged:
            await given.offloading.offload(replica)
        assert [each["event"] for each in logged] == ["segments_removed", "shelved_segments_removed"]
        assert (replica.spec.shelves, replica.earliest, replica.log.log_start) == ((), 5, 5)


async def test_nothing_is_reported_or_deleted_after_an_election(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=5)
        await replica.log.sync()
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 0, STORES),)))

        def deposed(request: FillShelfRequest) -> FillShelfResponse:
            replica.use_spec(replace(replica.spec, epoch=Epoch(6)))
            return with_all(request)

        given.stores[ONE] = deposed
        assert not await given.offloading.offload(replica)
        assert given.reported == []
        replica.use_spec(replace(replica.spec, leader=ELSEWHERE, epoch=Epoch(7)))
        assert not await given.offloading.offload(replica)
        assert given.reported == []


async def test_a_disk_that_fails_ends_the_turn(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=5, local_retention_bytes="0")
        await replica.log.sync()
        given.world.files.syncs_fail = True
        assert not await given.offloading.offload(replica)
        assert "deleting records failed" in (replica.offline_reason or "")


# rounds


async def test_a_partition_with_slow_stores_does_not_delay_the_others(autojump_clock: object) -> None:
    async with shelves() as given, trio.open_nursery() as nursery:
        given.stores[ONE] = lambda request: None
        slow = [given.lead(f"slow-{number}", number, batches=2) for number in range(10, 16)]
        quick = given.lead("quick", 20, batches=2)
        quick.use_spec(replace(quick.spec, shelves=(Shelf(0, 0, (TWO,)),)))
        for replica in (*slow, quick):
            await replica.log.sync()
        nursery.start_soon(given.offloading.run)
        await trio.sleep(ROUND_SECONDS + FILL_SECONDS_MAX + 1)
        assert quick.spec.shelves == (Shelf(0, 1, (TWO,)),)
        nursery.cancel_scope.cancel()


async def test_long_work_continues_before_the_next_round(autojump_clock: object) -> None:
    async def slow(reported: object) -> None:
        await trio.sleep(4)

    async with shelves(slow) as given, trio.open_nursery() as nursery:
        replica = given.lead(batches=102)
        await replica.log.sync()
        assert await given.offloading.offload(replica)
        assert 10 < shelved_end(replica.spec) < 20
        nursery.start_soon(given.offloading.run)
        await trio.sleep(2 * ROUND_SECONDS - 1)
        assert shelved_end(replica.spec) > 60
        nursery.cancel_scope.cancel()


async def test_what_is_known_of_stores_is_forgotten_when_another_replica_leads(autojump_clock: object) -> None:
    async with shelves() as given:
        replica = given.lead(batches=2)
        await replica.log.sync()
        await given.offloading.offload(replica)
        assert given.offloading.known_count == 1
        given.offloading.begin_round()
        assert given.offloading.known_count == 1
        replica.use_spec(replace(replica.spec, leader=ELSEWHERE, epoch=Epoch(6)))
        given.offloading.begin_round()
        assert given.offloading.known_count == 0


# deleting records


async def test_records_on_shelves_are_deleted_when_the_streaming_controller_says_so(autojump_clock: object) -> None:
    async def slow(reported: object) -> None:
        await trio.sleep(1)

    async with shelves(slow) as given:
        replica = given.lead(batches=5)
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 4, STORES),)))
        given.offloading.request_deletion(replica, 3)
        began = trio.current_time()
        await given.offloading.wait_until_deleted(replica, 3, replica.spec.epoch)
        assert (trio.current_time() - began, replica.spec.shelved_from) == (1, 3)
        await given.offloading.wait_until_deleted(replica, 3, replica.spec.epoch)
        assert len(given.reported) == 1


async def test_waiting_for_a_deletion_fails_if_another_replica_leads(autojump_clock: object) -> None:
    async def deposes(reported: object) -> None:
        replica.use_spec(replace(replica.spec, leader=ELSEWHERE, epoch=Epoch(6)))

    async with shelves(deposes) as given:
        replica = given.lead(batches=5)
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 4, STORES),)))
        with pytest.raises(KafkaError) as refused_with:
            await given.offloading.wait_until_deleted(replica, 3, replica.spec.epoch)
        assert refused_with.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_deletion_whose_client_timed_out_is_done_in_the_next_round(autojump_clock: object) -> None:
    is_away = True

    async def away(reported: object) -> None:
        if is_away:
            raise ScUnreachableError("it is away")

    async with shelves(away) as given:
        replica = given.lead(batches=5)
        await replica.log.sync()
        replica.use_spec(replace(replica.spec, shelves=(Shelf(0, 4, STORES),)))
        await replica.delete_records(3)
        given.offloading.request_deletion(replica, 3)
        with trio.move_on_after(60) as waiting:
            await given.offloading.wait_until_deleted(replica, 3, replica.spec.epoch)
        assert waiting.cancelled_caught
        assert replica.earliest == 0
        is_away = False
        await given.offloading.offload(replica)
        assert (replica.earliest, replica.spec.shelves) == (3, (Shelf(0, 4, STORES),))
