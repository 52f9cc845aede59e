"""The map of a replay: which offset each record of the source got in the target.

The map is a directory that Spark reads as a table: `spark.read.parquet(DIR)`. A row is a range of records that follow
each other without a gap on both sides. The parts of a partition are numbered, each is written once, and each says in
its metadata how far the replay was after it. So the last part is where a replay goes on.

Two attempts of a task may run at the same time. The first one that writes a part wins, and the other one takes it over.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from .replay_position import MappedRange, ReplayPosition

DOCUMENT = "_replay.json"
"""The file that says what the directory is. Spark ignores names that begin with an underscore."""
_PART = re.compile(r"p(\d{5,10})-(\d{10})\.parquet")


class PartState(Struct, frozen=True):
    """What a part says besides its ranges."""

    position: ReplayPosition
    """The state of the partition after the part."""
    is_end: bool = False
    """Whether everything was sent with this part."""


def part_name(partition: int, number: int) -> str:
    """Returns the name of a part."""
    return f"p{partition:05d}-{number:010d}.parquet"


def count_parts(names: Iterable[str], partition: int) -> int:
    """Returns how many parts a partition has, among the names of a map. Parts are numbered from 0, and stay."""
    return sum(1 for each in names if (found := _PART.fullmatch(each)) and int(found[1]) == partition)


class PendingRanges:
    """The ranges that are in no part yet, and the ordinal of the first of their records."""

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal
        self._written_to = ordinal
        """The ordinal before which everything is in a part. Another attempt may have written parts further than this
        one has come."""
        self.ranges: list[MappedRange] = []

    def add(self, ranges: Iterable[MappedRange]) -> None:
        """Adds ranges that follow those before."""
        self.ranges += ranges
        self._drop_written()

    def on_written(self, position: ReplayPosition) -> None:
        """Notes that a part, of this or of another attempt, reaches up to this position."""
        self._written_to = max(self._written_to, position.ordinal)
        self._drop_written()

    def _drop_written(self) -> None:
        if self._written_to <= self._ordinal:
            return
        count = min(self._written_to - self._ordinal, sum(each.records for each in self.ranges))
        self.ranges = without_first(self.ranges, count)
        self._ordinal += count


def without_first(ranges: Sequence[MappedRange], count: int) -> list[MappedRange]:
    """Returns the ranges without their first `count` records."""
    left: list[MappedRange] = []
    for each in ranges:
        skipped = min(count, each.records)
        count -= skipped
        if skipped < each.records:
            target = None if each.target is None else each.target + skipped
            left.append(MappedRange(each.source + skipped, target, each.records - skipped))
    return left


def encode_state(state: PartState) -> bytes:
    """Returns a state for the metadata of a part."""
    # JSON readers of other languages have no unsigned 64-bit numbers, but this one is for us alone.
    return msgspec.json.encode(state)


def decode_state(content: bytes) -> PartState:
    """Reads a state."""
    return msgspec.json.decode(content, type=PartState)


class OffsetTable:
    """The map of one partition in memory, for looking up offsets."""

    def __init__(self, ranges: Iterable[MappedRange]) -> None:
        self._ranges = sorted(ranges, key=lambda each: each.source)
        self._starts = [each.source for each in self._ranges]

    def target_of(self, offset: int) -> int | None:
        """Returns the offset in the target of a record of the source; None if it was not sent, or is not known."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return None
        found = self._ranges[place]
        if found.target is None or offset >= found.source + found.records:
            return None
        return found.target + offset - found.source

    def next_target_of(self, offset: int) -> int | None:
        """Returns the offset in the target of the first record at or after an offset of the source; None if there is
        none. It is where a consumer goes on that has read the source up to `offset`."""
        exact = self.target_of(offset)
        if exact is not None:
            return exact
        later = (each for each in self._ranges[bisect_right(self._starts, offset) :] if each.target is not None)
        found = next(later, None)
        return None if found is None else found.target
