"""Parked storage: the files of deleted topics, kept for a while so that a topic can come back, then removed.

A topic's directory that no spec names is parked from the moment its marker says; one that lacks a marker, because the
process ended between the deletion and the parking, gets it at the next start.
"""

from collections.abc import Container, Iterator
from contextlib import suppress

import trio

from tailrace.protocol.ids import TopicId
from tailrace.runtime.files import Files
from tailrace.runtime.wall_clock import WallClock
from tailrace.storage import layout


class Parking:
    def __init__(self, data_directory: str, files: Files, wall_clock: WallClock) -> None:
        self._data_directory = data_directory
        self._files = files
        self._wall_clock = wall_clock
        self._removals: dict[TopicId, trio.Event] = {}
        """Each with its end: nobody is given back what is being removed."""

    async def park(self, topic: str, topic_id: TopicId) -> None:
        """From now on the topic's storage here is only kept for its retention."""
        if self._files.list(layout.topic_directory(self._data_directory, topic, topic_id)):
            marker = layout.parked_path(self._data_directory, topic, topic_id)
            await self._files.replace(marker, str(self._wall_clock.now_ms()).encode())

    async def unpark(self, topic: str, topic_id: TopicId) -> None:
        marker = layout.parked_path(self._data_directory, topic, topic_id)
        if topic_id in self._removals:
            await self._removals[topic_id].wait()
        self._files.remove(marker)

    async def park_orphans(self, known: Container[TopicId]) -> None:
        """Parks what belongs to no topic that is `known` and is not parked yet."""
        for topic, topic_id in self._stored():
            marker = layout.parked_path(self._data_directory, topic, topic_id)
            if topic_id not in known and not self._files.exists(marker):
                await self.park(topic, topic_id)

    async def remove_expired(self, retention_ms: int) -> list[tuple[str, TopicId]]:
        """Removes what has been parked for longer than the retention; says what went."""
        newest_ms = self._wall_clock.now_ms() - retention_ms
        removed = []
        for topic, topic_id in list(self._stored()):
            if self._is_expired(topic, topic_id, newest_ms):
                await self._remove(topic, topic_id)
                removed.append((topic, topic_id))
        return removed

    async def _remove(self, topic: str, topic_id: TopicId) -> None:
        removal = self._removals[topic_id] = trio.Event()
        try:
            await self._files.discard_tree(layout.topic_directory(self._data_directory, topic, topic_id))
        finally:
            del self._removals[topic_id]
            removal.set()

    def _is_expired(self, topic: str, topic_id: TopicId, newest_ms: int) -> bool:
        marker = layout.parked_path(self._data_directory, topic, topic_id)
        if not self._files.exists(marker):
            return False
        since = self._files.read(marker)
        return not since.isdigit() or int(since) <= newest_ms

    def _stored(self) -> Iterator[tuple[str, TopicId]]:
        """Every topic that has storage here, parked or not."""
        topics = layout.topics_directory(self._data_directory)
        for topic in self._files.list(topics):
            for name in self._files.list(f"{topics}/{topic}"):
                with suppress(ValueError):  # a name that is no id is nothing of ours
                    yield topic, TopicId(name)
