"""Chooses which copy of a partition is read for which offsets.

All copies agree below their own high watermarks. So each offset may come from any copy that has it: a replica, or a
shelf for what the replicas have deleted already.
"""

from collections.abc import Sequence

from msgspec import Struct


class Extent(Struct, frozen=True):
    """The offsets that one copy has for readers."""

    start: int
    end: int
    """The offset after the last."""


class Piece(Struct, frozen=True):
    """A range of offsets, and the copy from which it is read."""

    copy: int
    """The place of the copy in the list of copies."""
    start: int
    end: int


class Choice(Struct, frozen=True):
    """What is read of a partition, and what is in no copy."""

    pieces: tuple[Piece, ...]
    gaps: tuple[Extent, ...]


def choose_copies(extents: Sequence[Extent], start: int | None, end: int | None) -> Choice:
    """Covers [start, end) with as few copies as possible. None means all that there is on that side.

    Offsets before or after everything that the copies have are a gap only if they were asked for.
    """
    present = [extent for extent in extents if extent.start < extent.end]
    position = min((extent.start for extent in present), default=0) if start is None else start
    last = max((extent.end for extent in present), default=position) if end is None else end
    pieces: list[Piece] = []
    gaps: list[Extent] = []
    while position < last:
        reach, copy = max(
            ((extent.end, -place) for place, extent in enumerate(extents) if extent.start <= position < extent.end),
            default=(None, 0),
        )
        if reach is None:
            next_start = min((extent.start for extent in present if extent.start > position), default=last)
            gaps.append(Extent(position, min(next_start, last)))
            position = gaps[-1].end
        else:
            pieces.append(Piece(-copy, position, min(reach, last)))
            position = pieces[-1].end
    return Choice(tuple(pieces), tuple(gaps))
