from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, pairwise

import pytest
import structlog
import trio
from member_owners import RecordingOwner
from stream_states import StateInMemory
from structlog.testing import capture_logs

from tailrace.cluster.stream_state.rebalance_causes import RebalanceCause
from tailrace.cluster.stream_state.stream_state import GroupState, StreamRead, member_documents
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.membership.member import MembershipConfig
from tailrace.trigger.replica.membership_task import Membership
from tailrace.trigger.replica.state_store import StateConflictError, StateUnavailableError

_SEEDS = count(1)
WALL_MS = 1_769_860_800_000


class _WallClock:
    def now_ms(self) -> int:
        return WALL_MS + int(trio.current_time() * 1000)


class _Store:
    """The state in memory, behind a network that takes its time."""

    def __init__(self, state: StateInMemory, seconds: float = 0.01) -> None:
        self.state = state
        self.seconds = seconds
        self.problem = ""
        self.is_silent = False
        self.reconnects = 0
        self.reads: list[float] = []

    async def read(self) -> StreamRead:
        self.reads.append(trio.current_time())
        await self._pass()
        read = self.state.read(trio.current_time())
        await self._pass()
        return read

    async def write(self, state: GroupState, expected_version: int) -> int:
        await self._pass()
        version = self.state.write(state, expected_version, trio.current_time())
        await self._pass()
        if version is None:
            raise StateConflictError
        return version

    def reconnect(self) -> None:
        self.reconnects += 1

    async def _pass(self) -> None:
        await trio.sleep(self.seconds)
        if self.problem:
            raise StateUnavailableError(self.problem)
        if self.is_silent:
            await trio.sleep_forever()


class _Replica:
    def __init__(self, state: StateInMemory, number: int, replicas: int = 3, *, releases_at_once: bool = True) -> None:
        self.store = _Store(state)
        self.owner = RecordingOwner(releases_at_once=releases_at_once)
        config = MembershipConfig(member_id=f"replica{number}", replicas=replicas)
        logger = structlog.get_logger()
        chance = RandomChance(next(_SEEDS))
        self.membership = Membership(config, self.store, self.owner, _WallClock(), chance, logger)
        self.owner.membership = self.membership


@asynccontextmanager
async def _running(*replicas: _Replica) -> AsyncIterator[trio.Nursery]:
    """Runs the replicas, one second apart."""
    async with trio.open_nursery() as nursery:
        for replica in replicas:
            nursery.start_soon(replica.membership.run)
            await trio.sleep(1)
        yield nursery
        nursery.cancel_scope.cancel()


def _shards(state: StateInMemory) -> dict[str, str]:
    return {each["member_id"]: each["shards"] for each in member_documents(state.state)}


async def test_three_replicas_divide_twelve_shards_and_keep_them(autojump_clock: object) -> None:
    state = StateInMemory(12)
    replicas = [_Replica(state, number) for number in (1, 2, 3)]
    async with _running(*replicas):
        await trio.sleep(100)
        assert _shards(state) == {"replica1": "0-3", "replica2": "4-7", "replica3": "8-11"}
        assert [len(each.owner.calls) for each in replicas] == [1, 1, 1]
        assert replicas[0].owner.epochs == replicas[0].membership.shards == dict.fromkeys(range(4), 1)
        assert replicas[0].membership.waiting_for == "", "it has its share"
        assert replicas[0].store.reads[-1] - replicas[0].store.reads[-2] == pytest.approx(3.02, abs=0.01)
        assert replicas[0].owner.lease is not None
        assert [each.cause for each in replicas[0].owner.rebalances] == [RebalanceCause.JOINED]


async def test_a_replica_that_leaves_drains_its_shards_first(autojump_clock: object) -> None:
    state = StateInMemory(12)
    replica = _Replica(state, 1, releases_at_once=False)
    async with _running(replica) as nursery:
        done = trio.Event()

        async def leave() -> None:
            await replica.membership.leave()
            done.set()

        nursery.start_soon(leave)
        await trio.sleep(8)
        assert replica.owner.calls[1:] == [(1, "release", (0, 1, 2, 3))]
        assert not done.is_set()
        assert _shards(state) == {"replica1": "0-3"}, "it keeps its shards while it drains them"
        before = trio.current_time()
        replica.owner.release_all()
        await done.wait()
        assert trio.current_time() - before < 0.1
        assert _shards(state) == {}
        assert replica.owner.lease is not None
        assert not replica.membership.shards


async def test_a_cancelled_replica_is_replaced_when_its_session_has_ended(autojump_clock: object) -> None:
    state = StateInMemory(12)
    old, other, new = _Replica(state, 1), _Replica(state, 2), _Replica(state, 1)
    async with _running(other) as nursery:
        async with _running(old):
            await trio.sleep(7)
            assert old.owner.lease is not None
            stopped = old.owner.lease.handle_until
        nursery.start_soon(new.membership.run)
        await new.owner.has_gained.wait()
        ((gained_at, _, shards),) = new.owner.calls
        assert shards == (4, 5, 6, 7)
        assert 0.5 <= gained_at - stopped < 2


async def test_a_replica_without_an_sc_stops_when_its_lease_ends_and_continues_later(autojump_clock: object) -> None:
    state = StateInMemory(12)
    replica = _Replica(state, 1)
    with capture_logs() as logs:
        async with _running(replica):
            lease = replica.owner.lease
            assert lease is not None
            replica.store.is_silent = True
            await trio.sleep(20)
            assert replica.owner.calls[1:] == [(lease.handle_until, "lost", (0, 1, 2, 3))]
            assert not replica.membership.shards
            assert replica.membership.problem == "the SC has not responded for 2.0 s"
            assert replica.store.reconnects > 3
            replica.store.is_silent = False
            await trio.sleep(4)
            assert [call[1:] for call in replica.owner.calls[2:]] == [("gained", (0, 1, 2, 3))]
            assert replica.owner.epochs == dict.fromkeys(range(4), 2)
            assert replica.membership.problem == ""
    assert [each["event"] for each in logs] == [
        "shards_gained",
        "state_object_unavailable",
        "shards_lost",
        "state_object_available_again",
        "shards_gained",
    ]
    assert logs[2]["shards"] == "0-3"


async def test_a_short_absence_of_the_sc_changes_nothing(autojump_clock: object) -> None:
    state = StateInMemory(12)
    replica = _Replica(state, 1)
    async with _running(replica):
        replica.store.problem = "the SC at sc:9003 does not answer"
        await trio.sleep(7)
        assert replica.membership.problem == "the SC at sc:9003 does not answer"
        replica.store.problem = ""
        await trio.sleep(20)
        assert [call[1] for call in replica.owner.calls] == ["gained"]


async def test_a_stale_replica_is_removed_and_logged(autojump_clock: object) -> None:
    state = StateInMemory(12)
    first, second = _Replica(state, 1), _Replica(state, 2)
    with capture_logs() as logs:
        async with _running(second):
            async with _running(first):
                pass
            await trio.sleep(20)
            assert _shards(state) == {"replica2": "0-3"}
    assert [(each["event"], each.get("member"), each["shards"]) for each in logs] == [
        ("shards_gained", None, "0-3"),
        ("shards_gained", None, "4-7"),
        ("stale_member_removed", "replica1", "4-7"),
    ]


async def test_a_surplus_is_released_when_the_trigger_is_scaled(autojump_clock: object) -> None:
    state = StateInMemory(12, replicas=1)
    replicas = [_Replica(state, number) for number in (1, 2)]
    with capture_logs() as logs:
        async with _running(*replicas):
            assert _shards(state) == {"replica1": "0-11"}
            state.replicas = 2
            await trio.sleep(10)
            assert _shards(state) == {"replica1": "0-5", "replica2": "6-11"}
    assert [(each["event"], each["shards"], each["cause"]) for each in logs] == [
        ("shards_gained", "0-11", "joined"),
        ("shards_released", "6-11", "scaled"),
        ("shards_gained", "6-11", "joined"),
    ]


async def test_an_epoch_can_be_raised_above_that_of_a_stored_commit(autojump_clock: object) -> None:
    state = StateInMemory(12)
    replica = _Replica(state, 1)
    async with _running(replica):
        await replica.membership.raise_epoch(above=41)
        assert replica.membership.shards == dict.fromkeys(range(4), 42)
        assert state.state.epoch == 42
        assert [call[1] for call in replica.owner.calls] == ["gained"]


async def test_fifty_replicas_join_at_once(autojump_clock: object) -> None:
    state = StateInMemory(103)
    replicas = [_Replica(state, number, replicas=50) for number in range(50)]
    async with trio.open_nursery() as nursery:
        for each in replicas:
            nursery.start_soon(each.membership.run)
        for each in replicas:
            await each.owner.has_gained.wait()
        joined_at = trio.current_time()
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert joined_at < 60
    counts = sorted(len(each.owner.epochs) for each in replicas)
    assert counts == [2] * 47 + [3] * 3
    assert sorted(shard for each in replicas for shard in each.owner.epochs) == list(range(103))
    assert all([call[1] for call in each.owner.calls] == ["gained"] for each in replicas)
    first_pauses = set()
    for each in replicas:
        reads = [time for time in each.store.reads if time < each.owner.calls[0][0]]
        for number, (before, after) in enumerate(pairwise(reads)):
            pause = after - before - 0.04  # a read and a write take this time
            longest = min(0.05 * 2**number, 1.0)
            assert longest / 2 <= pause + 1e-9 < longest + 2e-9, "pauses double, and chance takes up to a half"
            if number == 0:
                first_pauses.add(pause)
    assert len(first_pauses) == 49, "all but one had a conflict, and no two waited alike"
