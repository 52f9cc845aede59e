"""The offsets of a log that have no record, and why. It needs no package for columns, so commands can import it."""

from typing import Literal

from msgspec import Struct

Why = Literal["compaction", "hole", "bridge", "marker", "aborted", "deleted"]
COMPACTION: Why = "compaction"
ABORTED: Why = "aborted"
DELETED: Why = "deleted"
"""The records were deleted before they could be read."""


class Gap(Struct, frozen=True):
    """Offsets from `first` to `last` that have no record."""

    first: int
    last: int
    why: Why
    """The log was compacted; recovery wrote a hole or a bridge; the marker of a transaction; a record of an aborted
    transaction; or the records were deleted before they were read."""
