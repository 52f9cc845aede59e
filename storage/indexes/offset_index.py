"""The sparse index from offsets to positions, with one 64-bit number per entry.

An entry is (offset relative to the segment's base) << 32 | position of the batch that starts with this offset. Both
halves grow from entry to entry, and so do the numbers, so that a search is one C call on the mapped file. Entries on
the disk are little-endian like the machines that we run on, so that the file need not be read.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

ENTRY_BYTES = 8
RELATIVE_OFFSET_MAX = 2**32 - 1
_POSITION_MASK = 2**32 - 1

assert sys.byteorder == "little", "index files are searched in place and are little-endian"


def entry(relative_offset: int, position: int) -> int:
    return relative_offset << 32 | position


def position_of(an_entry: int) -> int:
    return an_entry & _POSITION_MASK


def relative_offset_of(an_entry: int) -> int:
    return an_entry >> 32


def last_at_or_before(entries: Sequence[int], relative_offset: int) -> int:
    """Returns the index of the last entry whose batch starts at or before the offset; -1 if all start after it."""
    return bisect_left(entries, (relative_offset + 1) << 32) - 1


def last_up_to_position(entries: Sequence[int], position: int) -> int:
    """Returns the index of the last entry whose batch starts at or before the position; -1 if all start after it."""
    return bisect_right(entries, position, key=position_of) - 1
