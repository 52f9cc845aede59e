"""What members of one KIP-848 group were told that they own: a partition never has two owners at a time. Pure.

A member owns a partition from the time when it is told so. The ownership ends when it sends that it has released the
partition, leaves, or is told that it is no member. The coordinator may also stop waiting for it; a member with its own
clock then knows the time before which that cannot have happened.
"""

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct, field

from .offset_history import GroupHistoryError, OffsetHistory


class _Holder(Struct):
    partitions: set[int] = field(default_factory=set)
    sure_until: float = inf
    """The time before which the coordinator cannot have removed the member."""
    epoch: int = 0


class OwnershipHistory:
    def __init__(self, group: str, offsets: Sequence[OffsetHistory]) -> None:
        """Prepares the history; `offsets`, by partition, are told of each new owner, or are empty if epochs may
        fall."""
        self._group = group
        self._offsets = offsets
        self._holders: dict[str, _Holder] = {}
        self.handovers = 0
        """How often a partition was assigned to a member after another one had owned it."""
        self._last: dict[int, str] = {}
        """The last owner of each partition."""

    def on_epoch(self, member: str, epoch: int) -> None:
        """Records the epoch in a response to a heartbeat."""
        holder = self._holders.setdefault(member, _Holder())
        self._check(epoch >= holder.epoch, f"the epoch of {member} fell from {holder.epoch} to {epoch}")
        holder.epoch = epoch

    def on_owned(self, member: str, partitions: Iterable[int], at: float) -> None:
        """Records that the member may use the partitions from now on, in its last epoch.

        If the response took so long that the member is sure of nothing any more, another member may have been told
        sooner.
        """
        holder = self._holders.setdefault(member, _Holder())
        is_sure = at < holder.sure_until
        for partition in partitions:
            for name, other in self._holders.items():
                is_held = name != member and partition in other.partitions and at < other.sure_until
                self._check(
                    not (is_sure and is_held),
                    f"{member} was given {partition} at {at:.3f} s, which {name} holds for sure until "
                    f"{other.sure_until:.3f} s",
                )
            holder.partitions.add(partition)
            if self._last.get(partition, member) != member:
                self.handovers += 1
                if self._offsets:
                    self._offsets[partition].on_term(holder.epoch, at)
            self._last[partition] = member

    def on_sure_until(self, member: str, until: float) -> None:
        """Records how long the member is surely known to the coordinator, unless it learns more later."""
        self._holders.setdefault(member, _Holder()).sure_until = until

    def on_released(self, member: str, partitions: Iterable[int]) -> None:
        """Records that the member is about to send that it has released the partitions."""
        self._holders.setdefault(member, _Holder()).partitions -= set(partitions)

    def on_left(self, member: str) -> None:
        """Records that the member leaves, stops, or was told that it is no member; it may only return as a new
        member."""
        self._holders.pop(member, None)

    def _check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise GroupHistoryError(f"{self._group}: {sentence}")
