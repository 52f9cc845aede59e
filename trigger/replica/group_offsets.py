"""The committed offsets of a trigger's group: where a shard begins, the claim of a new owner, and commits of marks.

An offset is committed with the epoch of its owner, so that the coordinator refuses late commits of earlier owners.
"""

from collections.abc import Mapping
from typing import NamedTuple

import trio
from msgspec import Struct

from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Progress
from tailrace.client.log_client import EARLIEST, LATEST, LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.client.spu_client import SpuClient
from tailrace.cluster.stream_state.commit_epochs import CommitEpoch, format_commit_epoch, parse_commit_epoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.trigger.config.trigger_config import SeekTo
from tailrace.trigger.work import Shard


class FencedError(Exception):
    """A replica with a later epoch has claimed the shard."""

    def __init__(self, shard: Shard, epoch: int) -> None:
        super().__init__(f"shard {shard} belongs to another replica, whose epoch is {epoch}")
        self.epoch = epoch
        """The epoch that the coordinator knows."""


class Mark(NamedTuple):
    """Everything before `offset` is handled. The owner of the shard commits this with its epoch."""

    offset: int
    epoch: int


class Claim(Struct, frozen=True):
    """Where a new owner begins."""

    offset: int
    was_committed: bool
    """Whether the group had committed the offset; otherwise it comes from `seek_to`."""


class GroupOffsets:
    """Finds, claims and commits the offsets of one group. Commits do not wait for leaders that do not respond."""

    def __init__(self, spus: SpuClient, group: str, member_id: str) -> None:
        """Takes an `SpuClient` that nothing else uses."""
        self._spus = spus
        self._groups = GroupClient(spus)
        self._spus_of_logs = spus.another()
        self._logs = LogClient(self._spus_of_logs)
        self.group = group
        self._member_id = member_id
        self._turn = trio.Lock()
        """Held during a request to the coordinator: a connection carries one at a time."""
        self._turn_of_logs = trio.Lock()
        """Held during a request to a leader."""

    async def claim(self, shard: Shard, epoch: int, seek_to: SeekTo) -> Claim:
        """Finds where the shard begins, and commits this offset with the epoch of its new owner.

        `seek_to` counts if no offset is committed. Raises FencedError if a later owner has claimed the shard, and
        UnreachableError and RefusedError.
        """
        while True:
            claim = await self.beginning(shard, seek_to)
            async with self._turn:
                refused = (await self._commit({shard: Mark(claim.offset, epoch)}))[shard]
                if refused is None:
                    return claim
                if refused.code != ErrorCode.STALE_MEMBER_EPOCH:
                    raise refused
                known = _epoch_of(await self._committed(Partition(*shard)))
            if known >= epoch:
                raise FencedError(shard, known)
            # The previous owner has committed more since the offset was read.

    async def beginning(self, shard: Shard, seek_to: SeekTo) -> Claim:
        """Finds where the shard begins, and claims nothing. Waits while an offset is in an open transaction.

        Raises UnreachableError and RefusedError.
        """
        partition = Partition(*shard)
        async with self._turn:
            found = await self._committed(partition, only_stable=True)
        if found is not None and found.committed is not None:
            return Claim(found.committed, was_committed=True)
        timestamp = EARLIEST if seek_to is SeekTo.EARLIEST else LATEST
        return Claim(await self._offset_at(partition, timestamp), was_committed=False)

    async def committed_epoch(self, shard: Shard) -> int:
        """Returns the epoch with which the offset of a shard was committed; 0 if no trigger has committed it.

        Raises UnreachableError and RefusedError.
        """
        async with self._turn:
            return _epoch_of(await self._committed(Partition(*shard)))

    def text_of(self, epoch: int) -> str:
        """Returns the metadata text of commits with an epoch."""
        return format_commit_epoch(CommitEpoch(epoch, self._member_id))

    async def commit(self, marks: Mapping[Shard, Mark]) -> dict[Shard, RefusedError | None]:
        """Commits marks with one request; returns the refusal of each shard, or None.

        Raises UnreachableError and RefusedError.
        """
        async with self._turn:
            return await self._commit(marks)

    async def log_start(self, shard: Shard) -> int:
        """Returns the first offset that the log of a shard still has. Raises UnreachableError and RefusedError."""
        return await self._offset_at(Partition(*shard), EARLIEST)

    def close(self) -> None:
        """Closes the connections."""
        self._spus.close()
        self._spus_of_logs.close()

    async def _commit(self, marks: Mapping[Shard, Mark]) -> dict[Shard, RefusedError | None]:
        offsets = {Partition(*shard): mark.offset for shard, mark in marks.items()}
        metadata = {Partition(*shard): self.text_of(mark.epoch) for shard, mark in marks.items()}
        answers = await self._groups.commit(self.group, offsets, metadata)
        nothing = RefusedError("the response does not contain this")
        return {shard: answers.get(Partition(*shard), nothing) for shard in marks}

    async def _committed(self, partition: Partition, *, only_stable: bool = False) -> Progress | None:
        found = (await self._groups.committed_in(self.group, [partition], only_stable=only_stable))[partition]
        return unless_refused(found)

    async def _offset_at(self, partition: Partition, timestamp: int) -> int:
        async with self._turn_of_logs:
            # Records of open transactions are new to the trigger, which reads committed records only.
            return unless_refused((await self._logs.offsets_at([partition], timestamp, only_stable=True))[partition])


def _epoch_of(committed: Progress | None) -> int:
    """Returns the epoch with which an offset was committed; 0 if no trigger has committed it."""
    found = None if committed is None else parse_commit_epoch(committed.metadata)
    return 0 if found is None else found.epoch
