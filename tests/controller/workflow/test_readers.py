import pytest
import structlog
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tailrace.controller.key_value.interface import Delete, Listing, Put, StoreUnavailable
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import ClusterIdentity, SpuGroup, SpuGroupSpec
from tailrace.controller.state.events import Event, Removed, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import encode
from tailrace.controller.state.object_names import ObjectNames
from tailrace.controller.workflow.readers import KvReader, WrittenObject


def stored(name: str, replicas: int, version: int) -> Stored:
    return Stored(SpuGroup(name, SpuGroupSpec(replicas), version=version))


async def put(store: MemoryStore, name: str, replicas: int, version: int = 0) -> None:
    written = await store.write([Put(f"spu-group/{name}", encode(SpuGroup(name, SpuGroupSpec(replicas))), version)])
    assert written != [None]


class Reading:
    """A running reader, and the events that it reported."""

    def __init__(self, store: MemoryStore, ignored: frozenset[str] = frozenset(), room: int = 100) -> None:
        sending, self.receiving = trio.open_memory_channel[Event](room)
        self.reader = KvReader(store, sending, structlog.get_logger(), ObjectNames(LocalStore()), ignored)

    def reported(self) -> list[Event]:
        events = []
        while True:
            try:
                events.append(self.receiving.receive_nowait())
            except trio.WouldBlock:
                return events


async def test_the_reader_has_started_when_everything_in_the_store_was_reported(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    await put(store, "a", 1)
    await put(store, "b", 2)
    reading = Reading(store)
    await nursery.start(reading.reader.run)
    assert reading.reported() == [stored("a", 1, 1), stored("b", 2, 2)]
    nursery.cancel_scope.cancel()


async def test_changes_follow_in_order(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    reading = Reading(store)
    await nursery.start(reading.reader.run)
    await put(store, "a", 1)
    await put(store, "a", 2, version=1)
    await store.write([Delete("spu-group/a", 2)])
    await wait_all_tasks_blocked()
    assert reading.reported() == [stored("a", 1, 1), stored("a", 2, 2), Removed("spu-group/a", 3)]
    nursery.cancel_scope.cancel()


async def test_an_object_that_comes_back_with_equal_bytes_is_not_decoded(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    reading = Reading(store)
    await nursery.start(reading.reader.run)
    own, other = SpuGroup("a", SpuGroupSpec(1)), encode(SpuGroup("a", SpuGroupSpec(2)))
    reading.reader.written["spu-group/a"] = WrittenObject(encode(own), own)
    await put(store, "a", 1)
    reading.reader.written["spu-group/a"] = WrittenObject(encode(own), own)
    await store.write([Put("spu-group/a", other, 1)])
    reading.reader.written["spu-group/a"] = WrittenObject(encode(own), own)
    await store.write([Delete("spu-group/a", 2)])
    await wait_all_tasks_blocked()
    first, *others = reading.reported()
    assert isinstance(first, Stored) and isinstance(first.object, SpuGroup)
    assert first == stored("a", 1, 1) and first.object.spec is own.spec
    assert others == [stored("a", 2, 2), Removed("spu-group/a", 3)], "somebody else wrote"
    assert not reading.reader.written
    nursery.cancel_scope.cancel()


async def test_a_reader_that_fell_behind_reports_what_changed_and_what_vanished(nursery: trio.Nursery) -> None:
    store = MemoryStore(history_changes_max=2)
    for name in "abc":
        await put(store, name, 1)
    reading = Reading(store, room=3)
    await nursery.start(reading.reader.run)
    # One change waits for room in the full channel, while the store forgets the following ones.
    await put(store, "a", 2, version=1)
    await wait_all_tasks_blocked()
    await store.write([Delete("spu-group/b", 2)])
    await put(store, "a", 3, version=4)
    await put(store, "a", 4, version=6)
    with capture_logs() as logs:
        assert reading.reported() == [stored("a", 1, 1), stored("b", 1, 2), stored("c", 1, 3), stored("a", 2, 4)]
        await wait_all_tasks_blocked()
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["store_watch_fell_behind"]
    assert reading.reported() == [Removed("spu-group/b", 7), stored("a", 4, 7)]
    assert reading.reader.counts.store_listings == 2
    nursery.cancel_scope.cancel()


async def test_an_unreadable_object_is_logged_once_and_counts_as_present(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    await put(store, "a", 1)
    reading = Reading(store)
    await nursery.start(reading.reader.run)
    reading.reported()
    with capture_logs() as logs:
        await store.write([Put("spu-group/a", b"{}", 1), Put("somebody/else", b"\0", 0)])
        await wait_all_tasks_blocked()
    assert reading.reported() == []
    refused = [(log["key"], log["version"]) for log in logs if log["event"] == "stored_object_refused"]
    assert refused == [("spu-group/a", 2), ("somebody/else", 3)]
    assert dict(reading.reader.refused) == {"spu-group/a": 2, "somebody/else": 3}

    await put(store, "a", 5, version=2)
    await store.write([Delete("somebody/else", 3)])
    await wait_all_tasks_blocked()
    assert reading.reported() == [stored("a", 5, 4), Removed("somebody/else", 5)]
    assert dict(reading.reader.refused) == {}
    nursery.cancel_scope.cancel()


async def test_keys_that_hold_no_object_are_passed_over(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    await store.write([Put("leader", b"sc-1", 0)])
    reading = Reading(store, frozenset({"leader"}))
    with capture_logs() as logs:
        await nursery.start(reading.reader.run)
        await store.write([Put("leader", b"sc-2", 1), Delete("leader", 2)])
        await wait_all_tasks_blocked()
    assert reading.reported() == []
    assert not [log for log in logs if log["log_level"] != "debug"]
    nursery.cancel_scope.cancel()


class Flaky(MemoryStore):
    """A store that is unavailable for the first lists, and at the end of each watch."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def list(self, prefix: str) -> Listing:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("nobody answers")
        return await super().list(prefix)


async def test_a_store_that_does_not_answer_is_asked_again_later(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    store = Flaky(3)
    await put(store, "a", 1)
    reading = Reading(store)
    with capture_logs() as logs:
        await nursery.start(reading.reader.run)
    assert reading.reported() == [stored("a", 1, 1)]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["store_unavailable"] * 3
    assert trio.current_time() == pytest.approx(0.1 + 0.2 + 0.4)
    nursery.cancel_scope.cancel()


async def test_events_are_those_of_objects_of_every_kind(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    await store.write([Put("cluster", encode(ClusterIdentity("abc")), 0)])
    reading = Reading(store)
    await nursery.start(reading.reader.run)
    assert reading.reported() == [Stored(ClusterIdentity("abc", 1))]
    nursery.cancel_scope.cancel()
