"""The membership of a replica without a Streaming Controller: it handles all shards of the topic, and shares with none.

Apache Kafka has no state object. So a trigger on it can have one replica only.
"""

from collections.abc import Awaitable, Callable, Mapping

import trio

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.trigger.membership.member_lease import MemberLease

from .membership_task import ShardOwner
from .wake import Wake

LOOK_SECONDS = 30.0
"""How often the replica looks for new shards."""
RETRY_SECONDS = 1.0
FOR_EVER = MemberLease(float("inf"), float("inf"))


class LoneMembership:
    """The membership of the only replica."""

    def __init__(
        self, count_shards: Callable[[], Awaitable[int]], owner: ShardOwner, logger: FilteringBoundLogger
    ) -> None:
        """Takes a function that returns the number of shards, and raises UnreachableError and RefusedError."""
        self.shards: Mapping[int, int] = {}
        self.waiting_for = "the partitions of the topic"
        self._count_shards = count_shards
        self._owner = owner
        self._logger = logger
        self._epoch = 1
        self._is_leaving = False
        self._changed = Wake()

    async def run(self) -> None:
        """Handles all shards, also those that are added later, and returns after `leave`."""
        self._owner.on_lease(FOR_EVER)
        while not self._is_leaving:
            with trio.move_on_after(await self._look()):
                await self._changed.wait()

    async def leave(self) -> None:
        """Asks the replica to release all shards, and returns when it has."""
        self._is_leaving = True
        self._owner.on_release(tuple(self.shards))
        while self.shards:
            await self._changed.wait()
        self._changed.set()

    def released(self, shard: int) -> None:
        """Gives up a shard whose events are all handled and committed."""
        self.shards = {each: epoch for each, epoch in self.shards.items() if each != shard}
        self._changed.set()

    async def raise_epoch(self, above: int) -> None:
        """Gives all shards epochs above one that a stored commit has."""
        await trio.lowlevel.checkpoint()
        self._epoch = max(self._epoch, above + 1)
        self.shards = {shard: max(epoch, above + 1) for shard, epoch in self.shards.items()}

    async def _look(self) -> float:
        """Takes the shards that are new. Returns when to look again."""
        try:
            count = await self._count_shards()
        except (UnreachableError, RefusedError) as error:
            if str(error) != self.waiting_for:
                self.waiting_for = str(error)
                self._logger.warning("shards_not_found", reason=str(error))
            return RETRY_SECONDS
        self.waiting_for = ""
        gained = {shard: self._epoch for shard in range(count) if shard not in self.shards}
        if gained and not self._is_leaving:
            self.shards = {**self.shards, **gained}
            self._owner.on_gained(gained)
        return LOOK_SECONDS
