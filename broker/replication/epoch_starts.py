"""Where the epochs of a log begin, and how far two logs agree because of it (KIP-101).

Each epoch has one leader, and this leader appended all entries of the epoch to what it already had. So if two logs both
have entries of an epoch, they are equal up to the end of this epoch in the log that has fewer entries of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tailrace.protocol.ids import Epoch


class EpochStart(NamedTuple):
    """The beginning of one epoch in a log."""

    epoch: Epoch
    start: int
    """The offset of the epoch's bridge, or of its first entry if it has no bridge."""


def epochs_from(epochs: Sequence[EpochStart], base: int) -> tuple[EpochStart, ...]:
    """Returns the epochs that have offsets from `base` on; the first one is made to start at `base`."""
    begun = [each.epoch for each in epochs if each.start <= base][-1:]
    later = [each for each in epochs if each.start > base]
    return (*(EpochStart(epoch, base) for epoch in begun), *later)


def common_end(own: Sequence[EpochStart], own_end: int, others: Sequence[EpochStart], others_end: int) -> int:
    """Returns the end up to which two logs are known to be equal, or 0 if they have no epoch in common."""
    own_ends, others_ends = _ends(own, own_end), _ends(others, others_end)
    latest = max(own_ends.keys() & others_ends.keys(), default=None)
    return 0 if latest is None else min(own_ends[latest], others_ends[latest])


def _ends(epochs: Sequence[EpochStart], log_end: int) -> dict[Epoch, int]:
    ends = [beginning.start for beginning in epochs[1:]] + [log_end]
    return {beginning.epoch: end for beginning, end in zip(epochs, ends, strict=False)}
