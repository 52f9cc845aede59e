"""What a member reads: each partition that it owns has a consumer, which starts at the committed offset."""

from collections.abc import Iterable, Set
from random import Random

import trio

from .client import WireClient
from .consumer import Consumer, Position
from .group_client import GroupClient
from .simulated_group import Group
from .world import World


class GroupReading:
    def __init__(self, world: World, name: str, group: Group, nursery: trio.Nursery, chance: Random) -> None:
        self._world = world
        self._name = name
        self._group = group
        self._nursery = nursery
        self._chance = chance
        self._consumers: dict[int, tuple[Consumer, trio.CancelScope]] = {}
        self._started = 0

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(self._consumers)

    def positions(self) -> dict[int, Position]:
        return {partition: consumer.position for partition, (consumer, _) in self._consumers.items()}

    async def start_unread(self, client: GroupClient, connected: WireClient, owned: Set[int]) -> None:
        """Starts consumers for owned partitions that have none, at the group's committed offsets."""
        unread = owned - self.partitions
        if unread:
            for partition, position in (await client.fetch(connected, unread)).items():
                self._start(partition, position)

    def _start(self, partition: int, position: Position) -> None:
        assert partition not in self._consumers
        self._started += 1
        consumer = Consumer(
            self._world,
            f"{self._name}-{self._started}",
            self._group.topic,
            self._group.partitions[partition],
            self._chance,
            host=self._name,
            start=position,
        )
        scope = trio.CancelScope()
        self._consumers[partition] = consumer, scope
        self._nursery.start_soon(self._read, consumer, scope)

    async def _read(self, consumer: Consumer, scope: trio.CancelScope) -> None:
        with scope:
            await consumer.run()

    def stop(self, partitions: Iterable[int] | None = None) -> None:
        """Stops the consumers of these partitions, by default of all."""
        for partition in list(self._consumers) if partitions is None else partitions:
            found = self._consumers.pop(partition, None)
            if found is not None:
                found[1].cancel()
