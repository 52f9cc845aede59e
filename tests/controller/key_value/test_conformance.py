"""The conformance suite: a dictionary, SQLite, a real etcd and Kubernetes all behave as the interface says."""

from random import Random

import pytest
import trio
from key_value_worlds import World, pass_time
from trio.testing import wait_all_tasks_blocked

from tailrace.controller.key_value.interface import (
    NO_VERSION,
    VALUE_BYTES_MAX,
    Change,
    Delete,
    Entry,
    EntryDeleted,
    EntryPut,
    FellBehind,
    KeyValueStore,
    LeadershipLost,
    Put,
    StoreUnavailable,
    WatchEvent,
)

TTL_SECONDS = 5.0
"""With a real etcd a lease really runs, also while a busy machine does something else."""


async def put(store: KeyValueStore, key: str, value: bytes = b"", version: int = NO_VERSION) -> Entry:
    (written,) = await store.write([Put(key, value, version)])
    assert written is not None, f"{key} has another version than {version}"
    return Entry(key, value, written)


async def take(store: KeyValueStore, key: str, value: bytes = b"") -> Entry:
    entry = await store.take(key, value, TTL_SECONDS)
    assert entry is not None, f"somebody holds {key}"
    return entry


async def events(store: KeyValueStore, prefix: str, after_revision: int, count: int) -> list[WatchEvent]:
    found: list[WatchEvent] = []
    with trio.fail_after(20):
        async with store.watch(prefix, after_revision) as watch:
            while len(found) < count:
                found.append(await anext(watch))
    return found


# compare-and-set


async def test_an_entry_is_what_was_put(world: World) -> None:
    assert await world.store.get("topic/a") is None
    entry = await put(world.store, "topic/a", b"1")
    assert entry.version > NO_VERSION
    assert await world.store.get("topic/a") == entry
    assert await world.another().get("topic/a") == entry


async def test_a_key_has_the_name_of_a_user_as_it_is(world: World) -> None:
    key = 'security/user/CN=a b/"ö",O=%2F\\ \u2603'
    entry = await put(world.store, key, b"1")
    assert await world.another().get(key) == entry
    assert (await world.store.list("security/")).entries == (entry,)


async def test_a_change_counts_only_on_the_version_it_was_made_from(world: World) -> None:
    store = world.store
    first = await put(store, "a", b"1")
    assert await store.write([Put("a", b"x", NO_VERSION)]) == [None]
    assert await store.write([Put("a", b"x", first.version + 1)]) == [None]
    second = await put(store, "a", b"2", first.version)
    assert second.version > first.version
    assert await store.write([Put("a", b"x", first.version), Delete("a", first.version)]) == [None, None]
    assert await store.get("a") == second
    (deletion,) = await store.write([Delete("a", second.version)])
    assert deletion is not None
    assert deletion > second.version
    assert await store.get("a") is None
    assert await store.write([Put("a", b"x", second.version), Delete("a", second.version)]) == [None, None]


async def test_a_key_that_was_deleted_begins_above_its_past(world: World) -> None:
    first = await put(world.store, "a")
    await world.store.write([Delete("a", first.version)])
    assert (await put(world.store, "a")).version > first.version + 1


async def test_a_missing_entry_cannot_be_deleted(world: World) -> None:
    assert await world.store.write([Delete("a", NO_VERSION), Delete("a", 1)]) == [None, None]


async def test_no_changes_change_nothing(world: World) -> None:
    entry = await put(world.store, "a")
    assert await world.store.write([]) == []
    assert (await world.store.list("")).entries == (entry,)


async def test_changes_of_one_write_count_or_lose_each_for_itself(world: World) -> None:
    store = world.store
    a, b = await put(store, "a", b"1"), await put(store, "b", b"1")
    written = await store.write(
        [
            Put("a", b"2", a.version),
            Put("b", b"lost", b.version + 100),
            Put("c", b"new", NO_VERSION),
            Delete("b", b.version),
            Delete("d", 1),
        ]
    )
    assert [version is not None for version in written] == [True, False, True, True, False]
    listing = await store.list("")
    assert [(entry.key, entry.value, entry.version) for entry in listing.entries] == [
        ("a", b"2", written[0]),
        ("c", b"new", written[2]),
    ]


async def test_changes_of_one_key_in_one_write_follow_each_other(world: World) -> None:
    store = world.store
    first = await put(store, "a", b"1")
    written = await store.write(
        [Put("a", b"2", first.version), Put("a", b"3", first.version), Put("b", b"", NO_VERSION)]
    )
    assert [version is not None for version in written] == [True, False, True]
    second = written[0]
    assert second is not None
    written = await store.write([Delete("a", second), Put("a", b"4", NO_VERSION), Put("a", b"5", NO_VERSION)])
    assert [version is not None for version in written] == [True, True, False]
    assert await store.get("a") == Entry("a", b"4", written[1] or 0)
    told = await events(store, "a", first.version, 3)
    assert told == [
        EntryPut(Entry("a", b"2", second)),
        EntryDeleted("a", written[0] or 0),
        EntryPut(Entry("a", b"4", written[1] or 0)),
    ]


async def test_hundreds_of_changes_at_once(world: World) -> None:
    taken = {7, 100, 299}
    await world.store.write([Put(f"p/{number:03}", b"theirs", NO_VERSION) for number in taken])
    written = await world.store.write([Put(f"p/{number:03}", b"ours", NO_VERSION) for number in range(300)])
    assert {number for number, version in enumerate(written) if version is None} == taken
    versions = {entry.key: entry.version for entry in (await world.store.list("p/")).entries if entry.value == b"ours"}
    assert versions == {f"p/{number:03}": version for number, version in enumerate(written) if version is not None}


async def test_concurrent_writers_do_not_overwrite_each_other(world: World) -> None:
    await put(world.store, "counter", b"0")

    async def count(store: KeyValueStore) -> None:
        for _ in range(5):
            counted = False
            while not counted:
                entry = await store.get("counter")
                assert entry is not None
                change = Put("counter", b"%d" % (int(entry.value) + 1), entry.version)
                counted = await store.write([change]) != [None]

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(count, world.another())
    entry = await world.store.get("counter")
    assert entry is not None
    assert entry.value == b"20"


# values and keys


@pytest.mark.parametrize("value", [b"", bytes(range(256)), b"\0" * 3, Random(1).randbytes(VALUE_BYTES_MAX)], ids=len)
async def test_values_come_back_exactly(world: World, value: bytes) -> None:
    entry = await put(world.store, "a", value)
    assert await world.store.get("a") == entry
    assert (await world.store.list("")).entries == (entry,)
    assert await events(world.store, "", entry.version - 1, 1) == [EntryPut(entry)]


async def test_several_large_values_at_once(world: World) -> None:
    values = [Random(seed).randbytes(VALUE_BYTES_MAX // 2) for seed in range(5)]
    written = await world.store.write([Put(f"{number}", value, NO_VERSION) for number, value in enumerate(values)])
    assert None not in written
    assert [entry.value for entry in (await world.store.list("")).entries] == values


async def test_a_value_that_is_too_large_for_some_store_is_for_none(world: World) -> None:
    with pytest.raises(ValueError, match="1048577 bytes"):
        await world.store.write([Put("a", b"", NO_VERSION), Put("b", bytes(VALUE_BYTES_MAX + 1), NO_VERSION)])
    assert (await world.store.list("")).entries == ()


async def test_a_prefix_is_one_of_text_not_of_words(world: World) -> None:
    keys = ["a", "a/", "a/b", "a/ü", "a/\U0001f600", "a0", "ab", "b", "ä", "z\0z", "\x7f", "\uffff", "A", " ", "%_"]
    await world.store.write([Put(key, key.encode(), NO_VERSION) for key in keys])
    for prefix in ["", "a", "a/", "ab", "b", "ä", "\U0001f600", "a/\U0001f600", "z\0", "\x7f", "\uffff", "%"]:
        listing = await world.store.list(prefix)
        expected = sorted((key for key in keys if key.startswith(prefix)), key=str.encode)
        assert [entry.key for entry in listing.entries] == expected, prefix
        assert all(entry.value == entry.key.encode() for entry in listing.entries)


async def test_a_long_list_is_whole(world: World) -> None:
    keys = [f"k/{number:04}" for number in range(1200)]
    await world.store.write([Put(key, b"", NO_VERSION) for key in keys])
    assert [entry.key for entry in (await world.store.list("k/")).entries] == keys


# the guard


async def test_the_holder_of_the_guard_writes(world: World) -> None:
    leader = await take(world.store, "leader", b"one")
    assert await world.store.write([Put("a", b"", NO_VERSION)], guard=leader) != [None]


async def test_a_former_holder_of_the_guard_writes_nothing(world: World) -> None:
    old = await take(world.store, "leader", b"one")
    await world.store.give_up(old)
    for _ in range(2):  # first no SC is active, then another one
        with pytest.raises(LeadershipLost):
            await world.store.write([Put("a", b"", NO_VERSION), Put("b", b"", 7)], guard=old)
        await world.another().take("leader", b"two", TTL_SECONDS)
    assert await world.store.get("a") is None


async def test_the_guard_is_checked_with_each_write_of_many(world: World) -> None:
    leader = await take(world.store, "leader")
    other = world.another()
    revision = (await world.store.list("")).revision
    lost_after = 0

    async def depose() -> None:
        async with other.watch("p/", revision) as watch:
            await anext(watch)
        await other.give_up(leader)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(depose)
            with pytest.raises(LeadershipLost):
                for number in range(10_000):
                    await world.store.write([Put(f"p/{number}", b"", NO_VERSION)], guard=leader)
                    lost_after = number + 1
    listing = await world.store.list("p/")
    assert len(listing.entries) == lost_after


# watches


async def test_a_watch_tells_changes_below_its_prefix_in_order(world: World) -> None:
    store = world.store
    start = (await store.list("t/")).revision
    a = await put(store, "t/a", b"1")
    await put(store, "s/a", b"x")
    again = await put(store, "t/a", b"2", a.version)
    b = await put(store, "t/b", b"1")
    (deletion,) = await store.write([Delete("t/a", again.version)])
    told = [EntryPut(a), EntryPut(again), EntryPut(b), EntryDeleted("t/a", deletion or 0)]
    assert await events(store, "t/", start, 4) == told
    assert await events(world.another(), "t/", a.version, 3) == told[1:]
    assert await events(store, "t/", b.version, 1) == told[3:]


async def test_a_watch_waits_for_what_comes(world: World) -> None:
    start = (await world.store.list("")).revision
    async with world.store.watch("", start) as watch, trio.open_nursery() as nursery:
        told: list[WatchEvent] = []

        async def read() -> None:
            with trio.fail_after(20):
                told.append(await anext(watch))

        nursery.start_soon(read)
        await wait_all_tasks_blocked(0.01)
        entry = await put(world.another(), "a")
    assert told == [EntryPut(entry)]


async def test_a_watch_continues_after_a_cancelled_wait(world: World) -> None:
    start = (await world.store.list("")).revision
    async with world.store.watch("", start) as watch:
        for number in range(5):
            with trio.move_on_after(0.001 * number) as scope:
                await anext(watch)
            assert scope.cancelled_caught
        first, second = await put(world.store, "a"), await put(world.store, "b")
        with trio.fail_after(20):
            assert [await anext(watch), await anext(watch)] == [EntryPut(first), EntryPut(second)]


async def test_a_list_and_the_watch_after_it_are_the_whole_truth(world: World) -> None:
    """A listing at any moment and a watch after it give the contents of the store, without a change seen twice."""
    keys = [f"k/{number}" for number in range(6)]
    seen: list[dict[str, Entry]] = []

    async def write(seed: int) -> None:
        store, random = world.another(), Random(seed)
        for _ in range(25):
            changes: list[Change] = []
            for key in random.sample(keys, random.randint(1, 4)):
                entry = await store.get(key)
                if entry is not None and random.random() < 0.4:
                    changes.append(Delete(key, entry.version))
                else:
                    changes.append(Put(key, random.randbytes(4), NO_VERSION if entry is None else entry.version))
            await store.write(changes)

    async def follow(started: trio.Event, delay: int) -> None:
        store = world.another()
        await started.wait()
        for _ in range(delay):
            await store.get("k/0")
        listing = await store.list("k/")
        known = {entry.key: entry for entry in listing.entries}
        newest = listing.revision
        async with store.watch("", listing.revision) as watch:
            while True:
                match await anext(watch):
                    case EntryPut(Entry("end")):
                        seen.append(known)
                        return
                    case EntryPut(entry):
                        before = known.get(entry.key)
                        assert before is None or before.version < entry.version
                        known[entry.key], newest_before, newest = entry, newest, entry.version
                        assert newest_before <= newest
                    case EntryDeleted(key, version):
                        assert known.pop(key).version < version

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            started = trio.Event()
            for delay in (0, 3, 20):
                nursery.start_soon(follow, started, delay)
            async with trio.open_nursery() as writers:
                writers.start_soon(write, 1)
                writers.start_soon(write, 2)
                started.set()
            await put(world.store, "end")
    final = {entry.key: entry for entry in (await world.store.list("k/")).entries}
    assert seen == [final] * 3


async def test_a_watch_from_a_forgotten_past_fell_behind(world: World) -> None:
    start = (await world.store.list("")).revision
    for key in "abc":
        await put(world.store, key)
    await world.forget_history()
    with pytest.raises(FellBehind):
        await events(world.store, "a", start, 1)
    now = (await world.store.list("")).revision
    entry = await put(world.store, "d")
    assert await events(world.store, "", now, 1) == [EntryPut(entry)]


# leases


async def test_one_of_two_contenders_gets_the_key(world: World) -> None:
    one, two = world.store, world.another()
    entry = await take(one, "leader", b"one")
    assert await one.get("leader") == entry
    assert await two.take("leader", b"two", TTL_SECONDS) is None
    assert await one.take("leader", b"two", TTL_SECONDS) is None  # not even by itself
    await one.give_up(entry)
    assert await one.get("leader") is None
    later = await take(two, "leader", b"two")
    assert later.version > entry.version
    await one.give_up(entry)  # useless but harmless
    assert await one.get("leader") == later


async def test_one_of_many_concurrent_contenders_gets_the_key(world: World) -> None:
    won: list[Entry] = []

    async def contend(store: KeyValueStore, name: bytes) -> None:
        entry = await store.take("leader", name, TTL_SECONDS)
        if entry is not None:
            won.append(entry)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(contend, world.another(), b"%d" % number)
    assert [await world.store.get("leader")] == won


async def test_a_key_is_deleted_when_its_lease_runs_out(world: World, clock: trio.abc.Clock) -> None:
    entry = await take(world.store, "leader")
    deleted: list[WatchEvent] = []

    async def wait_for_deletion() -> None:
        async with world.another().watch("leader", entry.version) as watch:
            deleted.append(await anext(watch))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_deletion)
        await pass_time(clock, TTL_SECONDS)
    assert isinstance(deleted[0], EntryDeleted)
    assert await world.store.get("leader") is None
    with pytest.raises(LeadershipLost):
        await world.store.renew(entry)
    with pytest.raises(LeadershipLost):
        await world.store.write([Put("a", b"", NO_VERSION)], guard=entry)
    assert (await take(world.another(), "leader")).version > entry.version


async def test_a_lease_lasts_as_long_as_it_is_renewed(world: World, clock: trio.abc.Clock) -> None:
    entry = await take(world.store, "leader")
    for _ in range(5):
        await pass_time(clock, TTL_SECONDS / 4)
        await world.store.renew(entry)
        assert await world.another().get("leader") == entry


async def test_without_a_watch_a_lease_runs_out_all_the_same(world: World, clock: trio.abc.Clock) -> None:
    entry = await take(world.store, "leader")
    await pass_time(clock, TTL_SECONDS)
    with trio.fail_after(20):  # etcd checks leases every half second; SCs on Kubernetes observe them for their duration
        while (taken := await world.another().take("leader", b"next", TTL_SECONDS)) is None:
            await pass_time(clock, TTL_SECONDS / 5)
    assert taken.version > entry.version


async def test_a_lost_key_cannot_be_renewed_although_its_lease_lives(world: World) -> None:
    entry = await take(world.store, "leader")
    await world.another().write([Delete("leader", entry.version)])
    with pytest.raises(LeadershipLost):
        await world.store.renew(entry)
    other = await take(world.another(), "leader")
    with pytest.raises(LeadershipLost):
        await world.store.renew(entry)
    assert await world.store.get("leader") == other


async def test_an_entry_without_a_lease_cannot_be_renewed_and_stays(world: World, clock: trio.abc.Clock) -> None:
    entry = await put(world.store, "a")
    with pytest.raises(LeadershipLost):
        await world.store.renew(entry)
    assert await world.store.get("a") == entry


# closing


async def test_a_closed_store_is_unavailable(world: World) -> None:
    store = world.store
    entry = await take(store, "leader")
    revision = (await store.list("")).revision
    outcomes: list[str] = []

    async def wait() -> None:
        async with store.watch("", revision) as watch:
            try:
                await anext(watch)
            except StoreUnavailable as error:
                outcomes.append(str(error))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked(0.01)
            await store.close()
    assert len(outcomes) == 1
    for call in (
        lambda: store.get("a"),
        lambda: store.list(""),
        lambda: store.write([Put("a", b"", NO_VERSION)]),
        lambda: store.take("b", b"", TTL_SECONDS),
        lambda: store.renew(entry),
        lambda: store.give_up(entry),
        lambda: events(store, "", revision, 1),
    ):
        with pytest.raises(StoreUnavailable):
            await call()
    await store.close()
