from uuid import UUID

import pytest
import trio
import trio.testing
from simulation.files import SimulatedFiles
from spus import SteadyClock

from tailrace.broker.upkeep.parking import Parking, Storage
from tailrace.protocol.ids import TopicId
from tailrace.runtime.directories import make_directories_durably
from tailrace.storage.directory import layout

FIRST, SECOND = TopicId(int=1), TopicId(int=2)
HOUR_MS = 3600 * 1000


class _World:
    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.clock = SteadyClock()
        self.parking = Parking("/data", self.files, self.clock)

    def store(self, topic: str, topic_id: UUID, partition: int = 0) -> None:
        directory = layout.replica_directory("/data", topic, topic_id, partition)
        self.files.make_directories(directory)
        self.files.open(f"{directory}/00000000000000000000.log", create=True).append(b"records")

    def has(self, topic: str, topic_id: UUID, partition: int = 0) -> bool:
        return self.files.exists(layout.replica_directory("/data", topic, topic_id, partition))


@pytest.fixture
def world() -> _World:
    return _World()


async def test_parked_storage_is_removed_when_it_expires(world: _World) -> None:
    world.store("t", FIRST)
    await world.parking.park(Storage("t", FIRST))
    world.clock.time_ms += HOUR_MS - 1
    assert await world.parking.remove_expired(HOUR_MS) == []
    assert world.has("t", FIRST)
    world.clock.time_ms += 1
    assert await world.parking.remove_expired(HOUR_MS) == [Storage("t", FIRST)]
    assert not world.has("t", FIRST)
    assert await world.parking.remove_expired(HOUR_MS) == []


async def test_a_replica_without_files_is_missing(world: _World) -> None:
    world.store("t", FIRST)
    world.store("t", FIRST, 1)
    world.store("u", SECOND)
    world.files.make_directories(layout.replica_directory("/data", "u", SECOND, 1))
    await world.parking.park(Storage("t", FIRST))
    asked = [(FIRST, 0), (FIRST, 1), (FIRST, 2), (SECOND, 0), (SECOND, 1)]
    assert world.parking.missing(asked) == {(FIRST, 2), (SECOND, 1)}


async def test_a_partition_without_files_is_untouched(world: _World) -> None:
    topic = Storage("t", FIRST)
    assert world.parking.untouched(topic, range(2)) == {0, 1}
    world.store("t", FIRST, 1)
    world.store("t", FIRST, 2)
    await world.parking.park(topic._replace(partition=2))
    world.files.rename(layout.replica_directory("/data", "t", FIRST, 2), "/data/elsewhere")
    assert world.parking.untouched(topic, range(13)) == {0, *range(3, 13)}, "of the other one a marker is left"
    world.store("t", FIRST, 11)
    assert world.parking.untouched(topic, [1, 2, 11, 12]) == {12}
    await world.parking.park(topic)
    assert world.parking.untouched(topic, range(13)) == set()


@pytest.mark.parametrize("partition", [None, 2])
async def test_storage_that_is_being_removed_is_not_untouched(world: _World, partition: int | None) -> None:
    topic = Storage("t", FIRST)
    world.store("t", FIRST, 2)
    await world.parking.park(topic._replace(partition=partition))
    seen: list[set[int]] = []

    async def forget(_: Storage) -> None:
        world.files.remove(layout.parked_path("/data", "t", FIRST, partition))
        world.files.rename(layout.replica_directory("/data", "t", FIRST, 2), "/data/elsewhere")
        seen.append(world.parking.untouched(topic, [1, 2]))

    await world.parking.remove_expired(0, forget)
    assert seen == [set() if partition is None else {1}]


async def test_nothing_is_untouched_if_the_listing_fails(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> list[str]:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(world.files, "list", fail)
    assert world.parking.untouched(Storage("t", FIRST), [0]) == set()


async def test_storage_is_forgotten_on_the_disk_before_it_is_removed(world: _World) -> None:
    """If the process ended in between, its next start would report the storage as missing."""
    world.store("t", FIRST)
    await world.parking.park(Storage("t", FIRST))
    happened: list[object] = []

    async def forget(storage: Storage) -> None:
        happened.append(storage)
        happened.append(world.has("t", FIRST))

    await world.parking.remove_expired(0, forget)
    assert happened == [Storage("t", FIRST), True]
    assert not world.has("t", FIRST)


async def test_a_topic_of_the_same_name_is_another_topic(world: _World) -> None:
    world.store("t", FIRST)
    await world.parking.park(Storage("t", FIRST))
    world.store("t", SECOND)
    assert await world.parking.remove_expired(0) == [Storage("t", FIRST)]
    assert world.has("t", SECOND)


async def test_directories_of_unused_topic_names_are_removed(world: _World) -> None:
    await make_directories_durably(world.files, "/data/topics")
    world.store("t", FIRST)
    world.store("u", SECOND)
    world.files.make_directories("/data/topics/left-by-a-process-before")
    for topic in (Storage("t", FIRST), Storage("u", SECOND)):
        await world.parking.park(topic)
    world.store("u", TopicId(int=3))
    await world.parking.remove_expired(0)
    assert world.files.list("/data/topics") == ["u"]
    await make_directories_durably(world.files, layout.replica_directory("/data", "t", SECOND, 0))
    world.store("t", SECOND)
    await world.parking.remove_expired(0)
    assert world.has("t", SECOND)
    assert world.files.crash("synced").exists(layout.replica_directory("/data", "t", SECOND, 0))


async def test_other_tasks_run_while_all_topics_are_visited(world: _World) -> None:
    for number in range(100):
        world.store(f"t{number}", TopicId(int=number))
    turns = 0
    async with trio.open_nursery() as nursery:

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        nursery.start_soon(count_turns)
        await world.parking.remove_expired(0)
        nursery.cancel_scope.cancel()
    assert turns > 90


async def test_an_undeleted_topic_is_kept(world: _World) -> None:
    world.store("t", FIRST)
    await world.parking.park(Storage("t", FIRST))
    await world.parking.unpark(Storage("t", FIRST))
    await world.parking.unpark(Storage("t", FIRST))
    world.clock.time_ms += HOUR_MS
    assert await world.parking.remove_expired(0) == []
    assert world.has("t", FIRST)


@pytest.mark.parametrize("partition", [None, 0])
async def test_a_power_failure_does_not_park_unparked_storage_again(world: _World, partition: int | None) -> None:
    await make_directories_durably(world.files, layout.replica_directory("/data", "t", FIRST, 0))
    world.store("t", FIRST)
    storage = Storage("t", FIRST, partition)
    await world.parking.park(storage)
    await world.parking.unpark(storage)
    world.clock.time_ms += HOUR_MS
    files = world.files.crash("synced")
    assert await Parking("/data", files, world.clock).remove_expired(HOUR_MS) == []


async def test_a_power_failure_does_not_park_new_storage(world: _World) -> None:
    await make_directories_durably(world.files, layout.replica_directory("/data", "t", FIRST, 0))
    world.store("t", FIRST)
    await world.parking.park(Storage("t", FIRST, 0))
    assert await world.parking.remove_expired(0)
    world.store("t", FIRST)
    files = world.files.crash("synced")
    assert await Parking("/data", files, world.clock).remove_expired(0) == []


async def test_storage_without_a_topic_is_parked_at_the_start(world: _World) -> None:
    """The process has ended between a deletion and the parking."""
    world.store("known", FIRST)
    world.store("orphan", SECOND)
    await world.parking.park_orphans({FIRST: {0}})
    world.clock.time_ms += HOUR_MS
    assert await world.parking.remove_expired(HOUR_MS) == [Storage("orphan", SECOND)]
    assert world.has("known", FIRST)


async def test_parking_again_does_not_extend_the_retention(world: _World) -> None:
    world.store("orphan", SECOND)
    await world.parking.park_orphans({})
    world.clock.time_ms += HOUR_MS
    await world.parking.park_orphans({})
    assert await world.parking.remove_expired(HOUR_MS) == [Storage("orphan", SECOND)]


async def test_a_topic_without_storage_leaves_no_trace(world: _World) -> None:
    await world.parking.park(Storage("t", FIRST))
    assert world.files.list("/data/topics") == []


async def test_a_marker_that_cannot_be_read_counts_as_old(world: _World) -> None:
    """Markers are written atomically, so no version of this program leaves such a file."""
    world.store("t", FIRST)
    marker = world.files.open(layout.parked_path("/data", "t", FIRST), create=True)
    marker.append(b"yesterday")
    assert await world.parking.remove_expired(HOUR_MS) == [Storage("t", FIRST)]


async def test_foreign_files_are_left_alone(world: _World) -> None:
    world.files.make_directories("/data/topics/t/not-an-id")
    world.files.open("/data/topics/.DS_Store", create=True)
    await world.parking.park_orphans({})
    assert await world.parking.remove_expired(0) == []
    assert world.files.exists("/data/topics/t/not-an-id")


async def test_parking_survives_a_power_failure(world: _World) -> None:
    world.store("t", FIRST)
    for directory in layout.directories_up_to_data(layout.replica_directory("/data", "t", FIRST, 0)):
        await world.files.sync_directory(directory)
    await world.files.sync_directory("")
    await world.parking.park(Storage("t", FIRST))
    after = Parking("/data", world.files.crash("synced"), world.clock)
    assert await after.remove_expired(0) == [Storage("t", FIRST)]


async def test_a_topic_that_is_being_removed_cannot_be_unparked(world: _World, autojump_clock: object) -> None:
    world.store("t", FIRST)
    world.store("u", SECOND)
    await world.parking.park(Storage("t", FIRST))
    await world.parking.park(Storage("u", SECOND))
    world.files.sync_seconds = lambda: 9.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.parking.remove_expired, 0)
        await trio.testing.wait_all_tasks_blocked()
        await world.parking.unpark(Storage("t", FIRST))
    assert not world.has("t", FIRST)


async def test_a_moved_partition_is_removed_and_others_of_its_topic_stay(world: _World) -> None:
    world.store("t", FIRST)
    world.store("t", FIRST, 12)
    removed: list[Storage] = []

    async def forget(storage: Storage) -> None:
        removed.append(storage)

    await world.parking.park(Storage("t", FIRST, 12))
    assert await world.parking.remove_expired(HOUR_MS) == []
    world.clock.time_ms += HOUR_MS
    assert await world.parking.remove_expired(HOUR_MS, forget) == [Storage("t", FIRST, 12)]
    assert (world.has("t", FIRST), world.has("t", FIRST, 12)) == (True, False)
    assert removed == [Storage("t", FIRST, 12)]
    assert world.files.list(layout.topic_directory("/data", "t", FIRST)) == ["0"]


async def test_empty_storage_is_removed_at_once(world: _World) -> None:
    world.store("t", FIRST)
    world.files.make_directories(layout.replica_directory("/data", "t", FIRST, 1))
    await world.parking.park(Storage("t", FIRST, 1))
    await world.parking.park(Storage("t", FIRST, 2))
    assert world.files.list(layout.topic_directory("/data", "t", FIRST)) == ["0"]


async def test_a_partition_that_is_assigned_again_is_kept(world: _World) -> None:
    world.store("t", FIRST, 1)
    await world.parking.park(Storage("t", FIRST, 1))
    await world.parking.unpark(Storage("t", FIRST, 1))
    assert await world.parking.remove_expired(0) == []
    assert world.has("t", FIRST, 1)


async def test_partitions_that_belong_elsewhere_are_parked_at_the_start(world: _World) -> None:
    for partition in range(3):
        world.store("t", FIRST, partition)
    await world.parking.park_orphans({FIRST: {0, 2}})
    assert await world.parking.remove_expired(0) == [Storage("t", FIRST, 1)]
    assert [world.has("t", FIRST, partition) for partition in range(3)] == [True, False, True]


async def test_a_partition_that_is_being_removed_cannot_be_unparked(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store("t", FIRST, 1)
    await world.parking.park(Storage("t", FIRST, 1))
    goes_on = trio.Event()
    sync_directory = world.files.sync_directory

    async def sync_slowly(directory: str) -> None:
        await goes_on.wait()
        await sync_directory(directory)

    monkeypatch.setattr(world.files, "sync_directory", sync_slowly)
    happened: list[str] = []

    async def forget(_: Storage) -> None:
        happened.append("removed")

    async def give_back() -> None:
        await world.parking.unpark(Storage("t", FIRST, 1))
        happened.append("given back")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.parking.remove_expired, 0, forget)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(give_back)
        await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
    assert happened == ["removed", "given back"]
    assert not world.has("t", FIRST, 1)


@pytest.mark.parametrize("partition", [None, 0])
async def test_storage_that_is_being_removed_is_never_opened_again(world: _World, partition: int | None) -> None:
    """The process or the machine ends at any operation."""
    directory = layout.replica_directory("/data", "t", FIRST, 0)
    await make_directories_durably(world.files, directory)
    for name in ("00000000000000000000.log", "00000000000000000007.log", "manifest"):
        world.files.open(f"{directory}/{name}", create=True).append(b"content")
        await world.files.open(f"{directory}/{name}").sync()
    await world.files.sync_directory(directory)
    await world.parking.park(Storage("t", FIRST, partition))
    whole = world.files.list(directory)
    left: list[SimulatedFiles] = []
    world.files.on_operation = lambda: left.extend([world.files.after_kill(), world.files.crash("synced")])
    assert await world.parking.remove_expired(0) == [Storage("t", FIRST, partition)]
    assert len(left) > 10
    for files in left:
        assert files.list(directory) in ([], whole)
        await Parking("/data", files, world.clock).remove_expired(0)
        assert files.list(directory) == files.list(layout.removed_directory("/data")) == []


async def test_a_removal_is_remembered_until_the_replica_begins_as_a_new_one(world: _World) -> None:
    for partition in (0, 1):
        world.store("t", FIRST, partition)
    world.files.make_directories(layout.replica_directory("/data", "t", FIRST, 2))
    world.store("u", SECOND, 3)
    world.store("u", SECOND, 4)
    await world.parking.park(Storage("t", FIRST))
    await world.parking.park(Storage("u", SECOND, 3))
    assert not world.parking.was_removed((FIRST, 0))
    await world.parking.remove_expired(0)
    keys = [(FIRST, 0), (FIRST, 1), (FIRST, 2), (SECOND, 3), (SECOND, 4)]
    for parking in (world.parking, Parking("/data", world.files, world.clock)):
        assert [parking.was_removed(key) for key in keys] == [True, True, False, True, False]
    await world.parking.forget_removed((FIRST, 1))
    for parking in (world.parking, Parking("/data", world.files, world.clock)):
        assert [parking.was_removed(key) for key in keys] == [True, False, False, True, False]


async def test_concurrent_changes_of_the_removed_replicas_are_all_kept(world: _World, autojump_clock: object) -> None:
    keys = [(FIRST, 0), (FIRST, 1), (SECOND, 2), (SECOND, 3)]
    world.files.make_directories("/data")
    await world.parking.note_removed(keys[0])
    world.files.sync_seconds = lambda: 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.parking.note_removed, *keys[1:3])
        nursery.start_soon(world.parking.forget_removed, keys[0])
        nursery.start_soon(world.parking.note_removed, keys[3])
    for parking in (world.parking, Parking("/data", world.files, world.clock)):
        assert [parking.was_removed(key) for key in keys] == [False, True, True, True]


async def test_only_the_latest_removals_are_remembered(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.broker.upkeep.parking.REMOVED_KEPT_MAX", 2)
    for number in range(3):
        world.store("t", UUID(int=number))
        await world.parking.park(Storage("t", TopicId(int=number)))
        await world.parking.remove_expired(0)
    assert [world.parking.was_removed((UUID(int=number), 0)) for number in range(3)] == [False, True, True]
