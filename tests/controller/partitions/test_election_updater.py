"""Questions to candidates, and how long elected leaders have to report."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import structlog
import trio
from msgspec.structs import replace
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    Topic,
    TopicSpec,
)
from tailrace.controller.partitions.election_updater import (
    BUSY_TIMES_MAX,
    MANY_PARTITIONS,
    RESPONSE_SECONDS_MAX,
    ElectionUpdater,
)
from tailrace.controller.state.actions import AskLogEnd, AwaitLeader, ElectionAction
from tailrace.controller.state.events import Event, LeaderSilent, LogEndsReported, Removed, SpuResponded, Stored
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.controller.state.object_codec import key_of
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.server.private_link import LinkClosed

ONE, TWO = SpuId(1), SpuId(2)
ORDERS, BILLS = TopicId(int=7), TopicId(int=8)
WAIT_SECONDS = 3.0
EPOCH = Epoch(5)
TOPIC = Topic("orders", ORDERS, TopicSpec(partitions=3), version=1)


@dataclass
class _World:
    """SPUs that respond at once with their log ends, and the resulting events."""

    log_ends: dict[SpuId, dict[PartitionKey, int | None]] = field(default_factory=dict)
    """None: the log cannot be read."""
    mute: set[SpuId] = field(default_factory=set)
    slowness: float = 0.0
    """How long they take to say it."""
    processes: dict[SpuId, str] = field(default_factory=lambda: {ONE: "first", TWO: "first"})
    busy: set[SpuId] = field(default_factory=set)
    asked: list[tuple[SpuId, int]] = field(default_factory=list)
    """Whom, and about how many partitions."""
    events: list[tuple[float, Event]] = field(default_factory=list)
    local: LocalStore = field(default_factory=LocalStore)
    version: int = TOPIC.version

    def __post_init__(self) -> None:
        self.local.apply(Stored(TOPIC))
        self.updater = ElectionUpdater(self, self.local, self._hear, lambda: WAIT_SECONDS, structlog.get_logger())

    async def _hear(self, event: Event) -> None:
        await trio.lowlevel.checkpoint()
        self.events.append((trio.current_time(), event))

    @property
    def answers(self) -> list[tuple[float, Event]]:
        """Returns the events, without those that only say that an SPU is busy."""
        return [each for each in self.events if not (isinstance(each[1], LogEndsReported) and each[1].is_busy)]

    async def ask_spu(self, spu: SpuId, message: DescribeReplicasRequest) -> DescribeReplicasResponse:
        await trio.lowlevel.checkpoint()
        keys = [(topic.topic_id, number) for topic in message.topics for number in topic.partitions]
        self.asked.append((spu, len(keys)))
        if spu not in self.processes:
            raise LinkClosed("it is gone")
        await trio.sleep(self.slowness)
        while spu in self.mute:
            await trio.sleep(0.1)
            if spu not in self.processes:
                raise LinkClosed("it has gone meanwhile")
        held = self.log_ends.get(spu, {})
        return DescribeReplicasResponse([_described(key, held[key]) for key in keys if key in held])

    def is_connected(self, spu: SpuId, incarnation: str) -> bool:
        return self.processes.get(spu) == incarnation

    def is_carrying_out_specs(self, spu: SpuId) -> bool:
        return spu in self.busy

    def owes_response(self, spu: SpuId) -> bool:
        return spu in self.mute

    def store(self, number: int, resolution: PartitionResolution, epoch: Epoch = EPOCH) -> None:
        self.version += 1
        status = PartitionStatus(resolution, ONE, epoch, "first", {ONE: "store"})
        spec = PartitionSpec(ONE, (ONE, TWO))
        self.local.apply(Stored(Partition("orders", ORDERS, number, spec, status, self.version)))

    @asynccontextmanager
    async def taking(self, *actions: ElectionAction) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.updater.run)
            for action in actions:
                self.updater.take(action)
            await wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()


def _described(key: PartitionKey, log_end: int | None) -> DescribedReplica:
    topic_id, number = key
    if log_end is None:
        return DescribedReplica(topic_id, number, error_message="bits have flipped")
    return DescribedReplica(topic_id, number, log_end=log_end)


def _ask(spu: SpuId, topic_id: TopicId = ORDERS, number: int = 0) -> AskLogEnd:
    return AskLogEnd(spu, "first", topic_id, number, EPOCH)


def _await(number: int = 0, epoch: Epoch = EPOCH) -> AwaitLeader:
    return AwaitLeader(ONE, "first", ORDERS, number, epoch)


async def test_each_spu_is_asked_in_one_message(autojump_clock: MockClock) -> None:
    keys = [(ORDERS, 0), (ORDERS, 1), (BILLS, 0)]
    world = _World({spu: {key: int(spu) * 10 + place for place, key in enumerate(keys)} for spu in (ONE, TWO)})
    async with world.taking(*(_ask(spu, *key) for spu in (ONE, TWO) for key in keys)):
        assert sorted(world.asked) == [(ONE, 3), (TWO, 3)]
    asked = dict.fromkeys(keys, EPOCH)
    assert sorted((event for _, event in world.events), key=lambda event: event.spu) == [
        LogEndsReported(ONE, "first", asked, dict(zip(keys, (10, 11, 12), strict=True))),
        LogEndsReported(TWO, "first", asked, dict(zip(keys, (20, 21, 22), strict=True))),
    ]


async def test_a_pending_question_is_not_repeated_but_a_finished_one_is(autojump_clock: MockClock) -> None:
    world = _World({ONE: {(ORDERS, 0): 4}})
    async with world.taking(_ask(ONE), _ask(ONE)):
        assert world.asked == [(ONE, 1)]
        world.updater.take(_ask(ONE))
        await wait_all_tasks_blocked()
        assert world.asked == [(ONE, 1)] * 2


async def test_a_replica_that_is_about_to_be_opened_is_asked_about_again(autojump_clock: MockClock) -> None:
    world = _World({ONE: {(ORDERS, 0): 4}})
    async with world.taking(_ask(ONE, number=0), _ask(ONE, number=1)):
        await trio.sleep(RESPONSE_SECONDS_MAX / 2)
        world.log_ends[ONE][ORDERS, 1] = 9
        await trio.sleep(RESPONSE_SECONDS_MAX)
    (first, one), (_, busy), (second, other) = world.events
    assert busy == LogEndsReported(ONE, "first", {(ORDERS, 1): EPOCH}, {}, is_busy=True)
    assert one == LogEndsReported(ONE, "first", {(ORDERS, 0): EPOCH}, {(ORDERS, 0): 4})
    assert other == LogEndsReported(ONE, "first", {(ORDERS, 1): EPOCH}, {(ORDERS, 1): 9})
    assert second - first < RESPONSE_SECONDS_MAX


@pytest.mark.parametrize("why", ["mute", "gone", "another process", "does not have it"])
async def test_a_late_response_counts_as_none(why: str, autojump_clock: MockClock) -> None:
    world = _World({ONE: {(ORDERS, 0): 4}})
    match why:
        case "mute":
            world.mute.add(ONE)
        case "gone":
            del world.processes[ONE]
        case "another process":
            world.processes[ONE] = "second"
        case _:
            world.log_ends.clear()
    with capture_logs() as logs:
        async with world.taking(_ask(ONE)):
            await trio.sleep(3 * RESPONSE_SECONDS_MAX)
    ((at, event),) = world.answers
    assert event == LogEndsReported(ONE, "first", {(ORDERS, 0): EPOCH}, {})
    assert at < 2 * RESPONSE_SECONDS_MAX
    is_there = why in ("mute", "does not have it")
    assert [each["event"] for each in logs] == ["candidate_without_log_end"] * is_there


async def test_an_spu_that_responds_too_late_can_be_asked_again(autojump_clock: MockClock) -> None:
    world = _World({ONE: {(ORDERS, 0): 4}}, mute={ONE})
    async with world.taking(_ask(ONE), _ask(ONE, number=1)):
        await trio.sleep(20 * RESPONSE_SECONDS_MAX)
        assert len(world.answers) == 1
        world.mute.clear()
        await trio.sleep(RESPONSE_SECONDS_MAX)
        assert [event for _, event in world.answers[1:]] == [SpuResponded(ONE)]
        world.updater.take(_ask(ONE))
        await trio.sleep(20 * RESPONSE_SECONDS_MAX)
    assert [event for _, event in world.answers[2:]] == [
        LogEndsReported(ONE, "first", {(ORDERS, 0): EPOCH}, {(ORDERS, 0): 4})
    ]


@pytest.mark.parametrize("slowness", [1.5, 3.9])
async def test_a_slow_spu_gets_the_time_that_it_needs(slowness: float, autojump_clock: MockClock) -> None:
    """Otherwise its response would be late each time."""
    world = _World({ONE: {(ORDERS, 0): 4}}, slowness=slowness)
    async with world.taking(_ask(ONE)):
        await trio.sleep(10)
        assert [event for _, event in world.answers[1:]] == [SpuResponded(ONE)]
        world.updater.take(_ask(ONE))
        await trio.sleep(10)
        assert [event for _, event in world.answers[2:]] == [
            LogEndsReported(ONE, "first", {(ORDERS, 0): EPOCH}, {(ORDERS, 0): 4})
        ]
        world.slowness = 0.0
        world.updater.take(_ask(ONE))
        await wait_all_tasks_blocked()
        world.mute.add(ONE)
        world.updater.take(_ask(ONE))
        before = trio.current_time()
        await trio.sleep(10)
    assert world.answers[-1][0] < before + 2 * RESPONSE_SECONDS_MAX, "it is fast again, and as patiently waited for"


async def test_a_lost_spu_is_not_waited_for_any_more(autojump_clock: MockClock) -> None:
    world = _World(mute={ONE})
    async with world.taking(_ask(ONE)):
        await trio.sleep(2 * RESPONSE_SECONDS_MAX)
        del world.processes[ONE]
        await trio.sleep(RESPONSE_SECONDS_MAX)
        asked = len(world.asked)
        world.mute.clear()
        await trio.sleep(20 * RESPONSE_SECONDS_MAX)
        assert len(world.asked) == asked
    assert len(world.answers) == 1


async def test_a_log_that_cannot_be_read_is_no_reason_to_wait(autojump_clock: MockClock) -> None:
    world = _World({ONE: {(ORDERS, 0): None}})
    async with world.taking(_ask(ONE)):
        pass
    assert [event for _, event in world.events] == [LogEndsReported(ONE, "first", {(ORDERS, 0): EPOCH}, {})]


async def test_an_spu_that_carries_out_specs_has_more_time_to_say_it(autojump_clock: MockClock) -> None:
    world = _World(busy={ONE})
    async with world.taking(_ask(ONE)):
        await trio.sleep(5 * RESPONSE_SECONDS_MAX)
        assert world.answers == []
        world.log_ends[ONE] = {(ORDERS, 0): 4}
        await trio.sleep(RESPONSE_SECONDS_MAX)
        assert len(world.answers) == 1


async def test_a_silent_leader_is_reported_once(autojump_clock: MockClock) -> None:
    world = _World()
    world.store(0, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(_await(), _await()):
        await trio.sleep(WAIT_SECONDS / 2)
        world.updater.take(_await())
        await trio.sleep(2 * WAIT_SECONDS)
    assert world.events == [(WAIT_SECONDS, LeaderSilent(ONE, "first", ORDERS, 0, EPOCH))]


async def test_a_leader_that_did_not_respond_can_be_elected_when_it_does(autojump_clock: MockClock) -> None:
    world = _World(mute={ONE})
    for number in range(2):
        world.store(number, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(_await(0), _await(1)):
        await trio.sleep(5 * WAIT_SECONDS)
        assert [type(event) for _, event in world.events] == [LeaderSilent, LeaderSilent]
        world.mute.clear()
        await trio.sleep(5 * WAIT_SECONDS)
    assert [event for _, event in world.events[2:]] == [SpuResponded(ONE)]


async def test_a_leader_that_reported_or_was_replaced_is_not_awaited(autojump_clock: MockClock) -> None:
    world = _World()
    for number in range(3):
        world.store(number, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(_await(0), _await(1), _await(2), _await(7)):
        await trio.sleep(WAIT_SECONDS / 2)
        world.store(0, PartitionResolution.ONLINE)
        world.store(1, PartitionResolution.CANDIDATE_FOUND, Epoch(6))
        newer = replace(_await(1), epoch=Epoch(6))
        world.updater.take(newer)
        await trio.sleep(2 * WAIT_SECONDS)
    assert world.events == [
        (WAIT_SECONDS, LeaderSilent(ONE, "first", ORDERS, 2, EPOCH)),
        (WAIT_SECONDS * 1.5, LeaderSilent(ONE, "first", ORDERS, 1, Epoch(6))),
    ]


async def test_a_leader_of_many_partitions_is_logged_as_silent_once(autojump_clock: MockClock) -> None:
    world = _World()
    for number in range(3):
        world.store(number, PartitionResolution.CANDIDATE_FOUND)
    with capture_logs() as logs:
        async with world.taking(*map(_await, range(3))):
            await trio.sleep(2 * WAIT_SECONDS)
    assert len(world.events) == 3
    assert [(each["event"], each["spu"], each["partitions"]) for each in logs] == [("leader_silent", ONE, 3)]


async def test_a_leader_that_reports_one_by_one_has_more_time_for_many(autojump_clock: MockClock) -> None:
    world = _World()
    numbers = range(MANY_PARTITIONS + 10)
    for number in numbers:
        world.store(number, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(*map(_await, numbers)):
        for number in range(11):
            await trio.sleep(WAIT_SECONDS / 4)
            world.store(number, PartitionResolution.ONLINE)
        await trio.sleep_until(3.5 * WAIT_SECONDS)
    assert {at for at, _ in world.events} == {3 * WAIT_SECONDS}, "before, there were enough of them left"
    assert len(world.events) == MANY_PARTITIONS - 1


async def test_a_leader_that_stops_reporting_has_no_more_time(autojump_clock: MockClock) -> None:
    world = _World()
    numbers = range(2 * MANY_PARTITIONS)
    for number in numbers:
        world.store(number, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(*map(_await, numbers)):
        await trio.sleep(WAIT_SECONDS / 2)
        world.store(0, PartitionResolution.ONLINE)
        await trio.sleep(5 * WAIT_SECONDS)
    assert {at for at, _ in world.events} == {2 * WAIT_SECONDS}


async def test_a_leader_that_is_late_with_many_has_twice_the_time_next(autojump_clock: MockClock) -> None:
    """Otherwise elections that are given up take the time that the SPU needs to lead."""
    world = _World()

    async def waited(epoch: int, numbers: range, resolution: PartitionResolution) -> float:
        began, heard = trio.current_time(), len(world.events)
        for number in numbers:
            world.store(number, PartitionResolution.CANDIDATE_FOUND, Epoch(epoch))
            world.updater.take(replace(_await(number), epoch=Epoch(epoch)))
        await trio.sleep(WAIT_SECONDS / 2)
        for number in numbers:
            world.store(number, resolution, Epoch(epoch))
        await trio.sleep(20 * WAIT_SECONDS)
        assert len({at for at, _ in world.events[heard:]}) <= 1
        return (world.events[-1][0] - began) / WAIT_SECONDS if len(world.events) > heard else 0

    many, few = range(MANY_PARTITIONS), range(MANY_PARTITIONS - 1)
    silent, leading = PartitionResolution.CANDIDATE_FOUND, PartitionResolution.ONLINE
    async with world.taking():
        assert [await waited(epoch, many, silent) for epoch in range(5, 10)] == [1, 2, 4, 8, 8]
        assert await waited(10, few, silent) == 1, "who has few to report does not lack time"
        assert await waited(11, many, leading) == 0
        assert await waited(12, many, silent) == 1


async def test_no_leader_of_a_deleted_topic_is_silent(autojump_clock: MockClock) -> None:
    world = _World()
    world.store(0, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(_await()):
        await trio.sleep(WAIT_SECONDS / 2)
        world.local.apply(Removed(key_of(TOPIC), world.version + 1))
        await trio.sleep(2 * WAIT_SECONDS)
    assert world.events == []


async def test_an_spu_that_carries_out_specs_has_more_time_to_lead_but_not_for_ever(autojump_clock: MockClock) -> None:
    world = _World(busy={ONE})
    world.store(0, PartitionResolution.CANDIDATE_FOUND)
    async with world.taking(_await()):
        await trio.sleep((BUSY_TIMES_MAX - 0.5) * WAIT_SECONDS)
        assert world.events == []
        await trio.sleep(WAIT_SECONDS)
        assert len(world.events) == 1
