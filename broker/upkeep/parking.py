"""Parks the files of deleted topics and moved partitions, and decides how long they can come back.

Files that no spec names are parked from the time in their marker on. If the process ends between a deletion and the
parking, the marker is missing, and the next start writes it. Files that expire are renamed before they are removed: if
the process ends meanwhile, the rest of a log is not taken for a log.

A clock that jumps may cause an early removal. Therefore this SPU remembers which partitions lost files. If their topic
is undeleted, the replica on this SPU does not claim to have everything that it acknowledged. The same is remembered if
recovery had to truncate records.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import trio

from tailrace.protocol.ids import TopicId
from tailrace.runtime.files import Files
from tailrace.runtime.wall_clock import WallClock
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import ReplicaKey, load_removed_replicas, save_removed_replicas

REMOVED_KEPT_MAX = 10_000
"""How many partitions are remembered. A topic can be undeleted only if it is one of the last thousand deleted ones."""

EXTRA_RETENTION_MS_MAX = 10 * 60 * 1000


def parked_retention_ms(deleted_topic_retention_ms: int) -> int:
    """Returns how long this SPU keeps files after the last spec that named them, for replicas and for shelves.

    This is longer than the Streaming Controller allows a topic to be undeleted, because the clocks may differ. If an
    SPU removed its files earlier, an undeleted topic would have lost this copy.
    """
    return deleted_topic_retention_ms + min(deleted_topic_retention_ms, EXTRA_RETENTION_MS_MAX)


class Storage(NamedTuple):
    """Names the files of a topic, or of one of its partitions, on this SPU."""

    topic: str
    topic_id: TopicId
    partition: int | None = None

    def holds(self, key: ReplicaKey) -> bool:
        topic_id, partition = key
        return topic_id == self.topic_id and self.partition in (None, partition)


async def _forget_nothing(_: Storage) -> None:
    await trio.lowlevel.checkpoint()


class Parking:
    """Parks, restores and removes files in one data directory."""

    def __init__(self, data_directory: str, files: Files, wall_clock: WallClock) -> None:
        self._data_directory = data_directory
        self._files = files
        self._wall_clock = wall_clock
        self._removals: dict[Storage, trio.Event] = {}
        """What is being removed, with an event for the end. It cannot be unparked before."""
        self._removed: dict[ReplicaKey, None] | None = None
        """The partitions whose files were removed, the oldest first. None until the file with them is read."""
        self._changing_removed = trio.Lock()
        """Serializes changes of `_removed`: each change writes the whole file."""

    async def park(self, storage: Storage) -> None:
        """Parks files: from now on they are kept only for the retention. Removes an empty directory at once."""
        if self._files.list(self._directory(storage)):
            await self._files.replace(self._marker(storage), str(self._wall_clock.now_ms()).encode())
        else:
            await self._files.discard_tree(self._directory(storage))

    def untouched(self, topic: Storage, partitions: Iterable[int]) -> set[int]:
        """Returns the partitions with no files on this SPU: none in use, parked, or being removed.

        A new topic may have thousands of partitions, and the listing of one directory answers for all of them. If the
        listing fails, the result is empty.
        """
        try:
            names = set(self._files.list(self._directory(topic)))
        except OSError:
            return set()
        if layout.PARKED in names or topic in self._removals:
            return set()
        names.update(str(each.partition) for each in self._removals if each.topic_id == topic.topic_id)
        return {each for each in partitions if str(each) not in names and f"{each}.{layout.PARKED}" not in names}

    async def unpark(self, storage: Storage) -> None:
        """Restores parked files, or waits until their removal has ended."""
        if storage in self._removals:
            await self._removals[storage].wait()
        await self._remove_marker(storage)

    async def _remove_marker(self, storage: Storage) -> None:
        """Removes a marker durably: if it came back after a power failure, files in use would expire."""
        marker = self._marker(storage)
        if self._files.exists(marker):
            self._files.remove(marker)
            await self._files.sync_directory(marker.rpartition("/")[0])

    def missing(self, replicas: Iterable[ReplicaKey]) -> set[ReplicaKey]:
        """Returns the replicas without any file on this SPU, parked or not."""
        found = (each for topic in self._topics() for each in self._partitions(topic))
        return set(replicas) - {
            (topic_id, partition)
            for topic, topic_id, partition in found
            if partition is not None and self._files.list(self._directory(Storage(topic, topic_id, partition)))
        }

    async def park_orphans(self, held: Mapping[TopicId, Collection[int]]) -> None:
        """Parks files that belong to none of the held partitions and are not parked yet."""
        for topic in list(self._topics()):
            orphans = [topic]
            if topic.topic_id in held:
                partitions = held[topic.topic_id]
                orphans = [each for each in self._partitions(topic) if each.partition not in partitions]
            for orphan in orphans:
                if not self._files.exists(self._marker(orphan)):
                    await self.park(orphan)

    async def remove_expired(
        self, retention_ms: int, forget: Callable[[Storage], Awaitable[None]] = _forget_nothing
    ) -> list[Storage]:
        """Removes the storage that has been parked for longer than the retention, and returns what it removed.

        Calls `forget` before any file goes. Afterwards nothing on the disk may mention the storage, or the next start
        would report it as missing. `forget` may raise OSError.
        """
        await self._files.discard_tree(layout.removed_directory(self._data_directory))
        newest_ms = self._wall_clock.now_ms() - retention_ms
        removed = []
        topics = layout.topics_directory(self._data_directory)
        for name in self._files.list(topics):
            for topic in self._topics_named(name):
                for storage in (topic, *self._parked_partitions(topic)):
                    if self._is_expired(storage, newest_ms):
                        await self._remove(storage, forget)
                        removed.append(storage)
            # Names of deleted topics would pile up. A new topic of this name creates the directory again.
            self._files.remove_empty_directory(f"{topics}/{name}")
            await trio.lowlevel.checkpoint()
        return removed

    def was_removed(self, key: ReplicaKey) -> bool:
        """Whether files of the replica were removed from this SPU."""
        return key in self._removed_replicas()

    async def note_removed(self, *keys: ReplicaKey) -> None:
        """Remembers durably that files of these replicas were removed."""
        async with self._changing_removed:
            await self._write_removed([*self._removed_but_for(*keys), *keys])

    async def forget_removed(self, key: ReplicaKey) -> None:
        """Forgets that files of a replica were removed, because the replica begins with an empty log as a new one."""
        async with self._changing_removed:
            if self.was_removed(key):
                await self._write_removed(self._removed_but_for(key))

    def _removed_replicas(self) -> dict[ReplicaKey, None]:
        if self._removed is None:
            self._removed = dict.fromkeys(load_removed_replicas(self._files, self._data_directory))
        return self._removed

    def _removed_but_for(self, *keys: ReplicaKey) -> list[ReplicaKey]:
        others = set(keys)
        return [each for each in self._removed_replicas() if each not in others]

    async def _write_removed(self, removed: list[ReplicaKey]) -> None:
        newest = removed[-REMOVED_KEPT_MAX:]
        await save_removed_replicas(self._files, self._data_directory, newest)
        self._removed = dict.fromkeys(newest)

    async def _note_removal(self, storage: Storage) -> None:
        partitions = self._partitions(storage) if storage.partition is None else [storage]
        held = [each for each in partitions if self._files.list(self._directory(each))]
        keys = [(topic_id, partition) for _, topic_id, partition in held if partition is not None]
        if keys:
            await self.note_removed(*keys)

    async def _remove(self, storage: Storage, forget: Callable[[Storage], Awaitable[None]]) -> None:
        removal = self._removals[storage] = trio.Event()
        try:
            await self._note_removal(storage)
            await forget(storage)
            removed = await self._rename_away(storage)
            await self._remove_marker(storage)
        finally:
            del self._removals[storage]
            removal.set()
        await self._files.discard_tree(removed)

    async def _rename_away(self, storage: Storage) -> str:
        """Renames files so that they cannot be opened any more, and returns their new place."""
        directory, all_removed = self._directory(storage), layout.removed_directory(self._data_directory)
        self._files.make_directories(all_removed)
        removed = f"{all_removed}/{'-'.join(map(str, storage[1:]))}"
        if self._files.exists(directory):  # else an earlier process ended before it removed the marker
            self._files.rename(directory, removed)
        for renamed_in in (all_removed, self._data_directory, directory.rpartition("/")[0]):
            await self._files.sync_directory(renamed_in)
        return removed

    def _is_expired(self, storage: Storage, newest_ms: int) -> bool:
        marker = self._marker(storage)
        if not self._files.exists(marker):
            return False
        since = self._files.read(marker)
        return not since.isdigit() or int(since) <= newest_ms

    def _topics(self) -> Iterator[Storage]:
        """Lists all topics with files on this SPU, parked or not."""
        for name in self._files.list(layout.topics_directory(self._data_directory)):
            yield from self._topics_named(name)

    def _topics_named(self, topic: str) -> list[Storage]:
        found = []
        for name in self._files.list(f"{layout.topics_directory(self._data_directory)}/{topic}"):
            with suppress(ValueError):  # a name that is not an id is not ours
                found.append(Storage(topic, TopicId(name)))
        return found

    def _partitions(self, topic: Storage) -> list[Storage]:
        names = self._files.list(self._directory(topic))
        return [topic._replace(partition=int(name)) for name in names if name.isdecimal()]

    def _parked_partitions(self, topic: Storage) -> list[Storage]:
        names = [name.partition(".") for name in self._files.list(self._directory(topic))]
        numbers = [number for number, _, kind in names if kind == layout.PARKED and number.isdecimal()]
        return [topic._replace(partition=int(number)) for number in numbers]

    def _directory(self, storage: Storage) -> str:
        topic, topic_id, partition = storage
        if partition is None:
            return layout.topic_directory(self._data_directory, topic, topic_id)
        return layout.replica_directory(self._data_directory, topic, topic_id, partition)

    def _marker(self, storage: Storage) -> str:
        return layout.parked_path(self._data_directory, *storage)
