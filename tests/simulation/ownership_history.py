"""What members of one KIP-848 group were told that they own: no partition is held by two at a time. Pure.

A member holds a partition from when it was told so until it says that it has given it up (which is when it sends that,
not when it is heard), leaves, or is told that it is none. The coordinator may also stop waiting for it: then a member
that keeps its own clock knows the moment before which that cannot have happened.
"""

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct, field

from .offset_history import GroupHistoryError, OffsetHistory


class _Holder(Struct):
    partitions: set[int] = field(default_factory=set)
    sure_until: float = inf
    """Before that the coordinator cannot have taken them away by itself."""
    epoch: int = 0


class OwnershipHistory:
    def __init__(self, group: str, offsets: Sequence[OffsetHistory]) -> None:
        """The offsets, by partition, are told who has it now; none of them, if epochs of the group can fall."""
        self._group = group
        self._offsets = offsets
        self._holders: dict[str, _Holder] = {}
        self.handovers = 0
        """How often somebody was given what another had before."""
        self._last: dict[int, str] = {}
        """Who was the last to be given a partition."""

    def on_told(self, member: str, epoch: int) -> None:
        """A heartbeat was answered."""
        holder = self._holders.setdefault(member, _Holder())
        self._check(epoch >= holder.epoch, f"the epoch of {member} fell from {holder.epoch} to {epoch}")
        holder.epoch = epoch

    def on_given(self, member: str, partitions: Iterable[int], at: float) -> None:
        """It may use them from now on, in the epoch that it was told before: unless that took so long that it is sure
        of nothing any more, when somebody else may have been told sooner."""
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
        """Unless it is told otherwise before."""
        self._holders.setdefault(member, _Holder()).sure_until = until

    def on_given_up(self, member: str, partitions: Iterable[int]) -> None:
        """It is about to say so."""
        self._holders.setdefault(member, _Holder()).partitions -= set(partitions)

    def on_gone(self, member: str) -> None:
        """It leaves, stops, or was told that it is no member. If it comes back it begins anew, as another."""
        self._holders.pop(member, None)

    def _check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise GroupHistoryError(f"{self._group}: {sentence}")
