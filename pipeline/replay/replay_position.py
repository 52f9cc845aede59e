"""How far the replay of one partition is, and the ranges of offsets that this has mapped.

Everything here except the offsets in the target follows from the source alone. So two attempts that run at the same
time agree about it.
"""

from msgspec import Struct
from msgspec.structs import replace

ROLLUP_END = 2**64


class MappedRange(Struct):
    """Records that follow each other without a gap, both in the source and in the target."""

    source: int
    """The offset of the first record in the source."""
    target: int | None
    """Its offset in the target; None if the target deleted the records before anyone saw their offsets."""
    records: int

    def grows_with(self, source: int, target: int | None) -> bool:
        """Returns whether a record follows the last one of the range."""
        if source != self.source + self.records:
            return False
        return target is None if self.target is None else target == self.target + self.records


class ReplayPosition(Struct, frozen=True):
    """The state of one partition after some of its records."""

    source: int
    """The offset in the source from which on records are still to be read."""
    target: int
    """The offset in the target from which on records of the replay may lie that are in no map."""
    ordinal: int = 0
    """How many records were sent."""
    read: int = 0
    """How many records of the source were read."""
    rollup: int = 0
    """The roll-up of the records as they were sent, with the offsets of the source."""
    first_target: int | None = None
    """The offset of the first record in the target."""

    def at_end(self, source: int, read: int) -> "ReplayPosition":
        """Returns the position after all records of the source, even if the last ones were not sent."""
        return replace(self, source=max(source, self.source), read=read)
