"""Two SCs on one store: one is active at a time, and the other takes over as soon as it can."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Change,
    Delete,
    Entry,
    LeadershipLost,
    Listing,
    Put,
    StoreUnavailable,
    WatchEvent,
)
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.workflow.leadership import LEADER_KEY, lead

LEASE_SECONDS = 6.0
logger = structlog.get_logger()


class Link:
    """The connection of one SC to the store, which may break."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.is_broken = False
        self.hangs = False
        self.answer_seconds = 0.0
        """How long the answers to renewals are on their way."""

    async def _pass(self) -> None:
        if self.hangs:
            await trio.sleep_forever()
        if self.is_broken:
            raise StoreUnavailable("the network is gone")

    async def get(self, key: str) -> Entry | None:
        await self._pass()
        return await self._store.get(key)

    async def list(self, prefix: str) -> Listing:
        await self._pass()
        return await self._store.list(prefix)

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        await self._pass()
        return await self._store.write(changes, guard)

    def watch(self, prefix: str, after_revision: int) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return self._store.watch(prefix, after_revision)

    async def take(self, key: str, value: bytes, ttl_seconds: float) -> Entry | None:
        await self._pass()
        return await self._store.take(key, value, ttl_seconds)

    async def renew(self, entry: Entry) -> None:
        await self._pass()
        await self._store.renew(entry)
        await trio.sleep(self.answer_seconds)

    async def give_up(self, entry: Entry) -> None:
        await self._pass()
        await self._store.give_up(entry)

    async def close(self) -> None:
        raise AssertionError("who leads does not own the store")


class Contender:
    """An SC that stands by, becomes active, and records when."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.link = Link(store)
        self.name = name
        self.guard: Entry | None = None
        self.terms: list[tuple[float, float]] = []
        self.losses: list[str] = []
        self.scope = trio.CancelScope()
        self.done = trio.Event()

    async def run(self) -> None:
        with self.scope:
            try:
                await lead(self.link, self.name, self._work, logger, LEASE_SECONDS)
            except LeadershipLost as error:
                self.losses.append(str(error))

    async def _work(self, guard: Entry) -> None:
        began = trio.current_time()
        self.guard = guard
        try:
            await self.done.wait()
        finally:
            self.guard = None
            self.terms.append((began, trio.current_time()))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_the_one_that_stands_by_takes_over_when_the_other_shuts_down(
    store: MemoryStore, autojump_clock: MockClock
) -> None:
    one, two = Contender(store, "one"), Contender(store, "two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await wait_all_tasks_blocked()
        nursery.start_soon(two.run)
        await trio.sleep(10 * LEASE_SECONDS)
        assert one.guard is not None
        assert two.guard is None
        assert one.guard.value == b"one"
        stopped_at = trio.current_time()
        one.scope.cancel()
        await wait_all_tasks_blocked()
        assert two.guard is not None
        assert trio.current_time() == stopped_at
        two.done.set()
    assert await store.get(LEADER_KEY) is None
    assert (one.losses, two.losses) == ([], [])


@pytest.mark.parametrize("how", ["is_broken", "hangs"])
async def test_an_sc_that_cannot_renew_stops_before_another_can_start(
    store: MemoryStore, autojump_clock: MockClock, how: str
) -> None:
    one, two = Contender(store, "one"), Contender(store, "two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await wait_all_tasks_blocked()
        nursery.start_soon(two.run)
        await trio.sleep(LEASE_SECONDS * 1.5)
        setattr(one.link, how, True)
        await trio.sleep(LEASE_SECONDS * 1.5)
        assert two.guard is not None
        two.done.set()
    assert one.losses == ["the lease of 6 s could not be renewed in time"]
    ((_, ended),), ((began, _),) = one.terms, two.terms
    assert ended <= began
    assert began <= LEASE_SECONDS * 2.5


async def test_a_renewal_counts_from_when_it_was_sent(store: MemoryStore, autojump_clock: MockClock) -> None:
    """Its response may take long, and the next one may be lost."""
    one, two = Contender(store, "one"), Contender(store, "two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await wait_all_tasks_blocked()
        nursery.start_soon(two.run)
        one.link.answer_seconds = LEASE_SECONDS / 2
        await trio.sleep(LEASE_SECONDS * 0.9)
        one.link.hangs = True
        await trio.sleep(LEASE_SECONDS)
        assert two.guard is not None
        two.done.set()
    ((_, ended),), ((began, _),) = one.terms, two.terms
    assert ended <= began


async def test_a_short_silence_of_the_store_does_not_cost_the_lease(
    store: MemoryStore, autojump_clock: MockClock
) -> None:
    one = Contender(store, "one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await trio.sleep(1)
        one.link.is_broken = True
        await trio.sleep(LEASE_SECONDS * 0.7)
        one.link.is_broken = False
        await trio.sleep(LEASE_SECONDS * 5)
        assert one.guard is not None
        one.done.set()
    assert one.losses == []


async def test_a_crashed_sc_is_succeeded_when_its_lease_has_expired(
    store: MemoryStore, autojump_clock: MockClock
) -> None:
    assert await store.take(LEADER_KEY, b"crashed", LEASE_SECONDS)
    two = Contender(store, "two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(two.run)
        await trio.sleep(LEASE_SECONDS + 1)
        assert two.guard is not None
        two.done.set()
    assert two.terms[0][0] == LEASE_SECONDS


async def test_a_key_that_somebody_deleted_ends_the_term(store: MemoryStore, autojump_clock: MockClock) -> None:
    one = Contender(store, "one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await wait_all_tasks_blocked()
        assert one.guard is not None
        await store.write([Delete(LEADER_KEY, one.guard.version)])
        await trio.sleep(LEASE_SECONDS)
        assert one.guard is None
    assert one.losses == ["the lease of leader has expired"]


async def test_a_write_that_is_refused_ends_the_term(store: MemoryStore, autojump_clock: MockClock) -> None:
    async def write_as_one_deposed(guard: Entry) -> None:
        await store.write([Delete(LEADER_KEY, guard.version)])
        await store.write([Put("a", b"", NO_VERSION)], guard)

    with pytest.raises(LeadershipLost, match="a write was refused"):
        await lead(store, "one", write_as_one_deposed, logger, LEASE_SECONDS)
    assert await store.get("a") is None


async def test_an_error_of_the_work_gives_the_lead_up_and_is_told(
    store: MemoryStore, autojump_clock: MockClock
) -> None:
    async def fail(guard: Entry) -> None:
        raise ValueError("no more")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no more")):
        await lead(store, "one", fail, logger, LEASE_SECONDS)
    assert await store.get(LEADER_KEY) is None


async def test_a_store_that_is_away_is_waited_for(store: MemoryStore, autojump_clock: MockClock) -> None:
    one = Contender(store, "one")
    one.link.is_broken = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await trio.sleep(60)
        one.link.is_broken = False
        await trio.sleep(1)
        assert one.guard is not None
        one.done.set()


async def test_a_store_that_hangs_delays_no_shutdown_for_long(store: MemoryStore, autojump_clock: MockClock) -> None:
    one = Contender(store, "one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await wait_all_tasks_blocked()
        one.link.hangs = True
        one.scope.cancel()
    assert trio.current_time() < LEASE_SECONDS
