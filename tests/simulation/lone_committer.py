"""A client that commits and deletes offsets of groups without members, one group after the other.

No other client commits there, so that the effect of a deletion is known exactly.
"""

from collections.abc import Callable

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from .client import WireClient
from .consumer import Position
from .determinism import random_of
from .group_client import UNCERTAIN, GroupClient
from .offset_history import NO_OFFSET, Write
from .simulated_group import Group
from .world import World

DELETE_GROUPS_VERSION = 2
OFFSET_DELETE_VERSION = 0


class LoneCommitter:
    def __init__(self, world: World, name: str, new_group: Callable[[str], Group], is_settling: trio.Event) -> None:
        """Prepares the client; `new_group` makes a group for each name."""
        self.is_done = False
        self._is_settling = is_settling
        self._world = world
        self._name = name
        self._new_group = new_group

    async def run(self) -> None:
        """Works until the load settles."""
        number = 0
        while not self._is_settling.is_set():
            await _Life(self._world, self._name, self._new_group(f"{self._name}-{number}")).run()
            number += 1
        self.is_done = True


class _Life:
    """The life of one group: commits, a deletion, and more commits."""

    def __init__(self, world: World, name: str, group: Group) -> None:
        self._group = group
        self._chance = random_of(world.seed, group.group_id)
        self._client = GroupClient(world, name, group, self._chance)
        self._offset = 0
        self._has_deleted = False

    async def run(self) -> None:
        left = self._chance.randint(4, 12)
        while left > 0:
            async with self._client.client.trying():
                spu = await self._client.find()
                async with self._client.client.connected(spu) as connected:
                    while left > 0:
                        left -= 1
                        await self._do_something(connected)
                        await trio.sleep(self._chance.uniform(0, 0.4))

    async def _do_something(self, connected: WireClient) -> None:
        choice = self._chance.random()
        if choice < 0.2 and self._offset and not self._has_deleted:
            await self._delete(connected)
        elif choice < 0.4:
            await self._client.fetch(connected)
        else:
            self._offset += 1
            count = len(self._group.partitions)
            partitions = self._chance.sample(range(count), min(self._chance.randint(1, 2), count))
            await self._client.commit(connected, {each: Position(self._offset, 0) for each in partitions})

    async def _delete(self, connected: WireClient) -> None:
        """Deletes offsets once, because the effect of a second deletion could not be distinguished from the first."""
        self._has_deleted = True
        now = trio.current_time()
        writes = {
            history.partition: self._group.offsets[history.partition].on_delete(f"{self._group.group_id} deleted", now)
            for history in self._group.partitions
        }
        if self._chance.random() < 0.5:
            await self._delete_group(connected, writes, now)
        else:
            await self._delete_offsets(connected, writes, now)

    async def _delete_group(self, connected: WireClient, writes: dict[int, Write], now: float) -> None:
        request = DeleteGroupsRequest([self._group.group_id])
        client = self._client.client
        response = await client.ask(connected, ApiKey.DELETE_GROUPS, DELETE_GROUPS_VERSION, request)
        for partition, write in writes.items():
            self._on_answer(partition, write, response.results[0].error_code, now)

    async def _delete_offsets(self, connected: WireClient, writes: dict[int, Write], now: float) -> None:
        partitions = [OffsetDeleteRequestPartition(each) for each in writes]
        request = OffsetDeleteRequest(self._group.group_id, [OffsetDeleteRequestTopic(self._group.topic, partitions)])
        client = self._client.client
        response = await client.ask(connected, ApiKey.OFFSET_DELETE, OFFSET_DELETE_VERSION, request)
        for topic in response.topics:
            for each in topic.partitions:
                self._on_answer(each.partition_index, writes[each.partition_index], each.error_code, now)
        if response.error_code:
            for partition, write in writes.items():
                self._on_answer(partition, write, response.error_code, now)

    def _on_answer(self, partition: int, write: Write, code: int, began: float) -> None:
        history = self._group.offsets[partition]
        if code == ErrorCode.NONE:
            history.on_acknowledged(write, trio.current_time())
        elif code not in UNCERTAIN:
            history.on_refused(write)
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            history.on_fetched(NO_OFFSET, "", began, trio.current_time())
        else:
            self._client.check(code)
