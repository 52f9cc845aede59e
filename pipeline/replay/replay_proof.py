"""Proves that one partition of the target has each record of a replay once, where the map says, with the right content.

The proof reads the target again. It knows the records of the replay by producer id and sequence number, and their old
offsets from the map. So it can compute the roll-up of what really lies in the target, with the offsets of the source,
and compare it with the roll-up of what was read from the source.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from tailrace.protocol.batches.records import Record

from .offset_map import PartState
from .replay_line import LandedBatch, ordinals_between
from .replay_position import ROLLUP_END, MappedRange

Hashes = Callable[[list[Record]], list[int]]
"""Returns the hash of each record."""


class PartitionProof(Struct, frozen=True):
    """What the target has of one partition of a replay."""

    partition: int
    records: int
    """Records that the map says were sent."""
    present: int
    """How many of them are in the target."""
    duplicates: int
    misplaced: int
    """Records that lie at another offset than the map says."""
    rollup: int
    """The roll-up of those that are present, with the offsets of the source."""
    expected_rollup: int
    is_finished: bool
    """Whether the replay has sent everything."""

    @property
    def verdict(self) -> str:
        """One word or some, `equal` if all is as it should be."""
        if self.duplicates:
            return "duplicates"
        if self.misplaced:
            return "the map is wrong"
        if self.present < self.records:
            return "records are missing"
        if self.rollup != self.expected_rollup:
            return "the content differs"
        return "equal" if self.is_finished else "not finished"


class ReplayProof:
    """The proof for one partition, while its target is read."""

    def __init__(self, partition: int, state: PartState, ranges: Iterable[MappedRange], hashes: Hashes) -> None:
        """`state` is the one after the last part of the map, whose ranges are `ranges`."""
        self._partition = partition
        self._state = state
        self._ranges: Iterator[MappedRange] = iter(ranges)
        self._range: MappedRange | None = None
        self._range_first = 0
        """The ordinal of the first record in the range."""
        self._range_end = 0
        self._hashes = hashes
        self._next = 0
        """The ordinal after the last record that was found."""
        self._present = self._duplicates = self._misplaced = self._rollup = 0

    def on_landed(self, batches: Iterable[LandedBatch]) -> None:
        """Takes batches of the replay, in the order of their offsets in the target."""
        found: list[Record] = []
        for batch in batches:
            first = self._next + ordinals_between(self._next, batch.base_sequence)
            for record in batch.records:
                ordinal = first + record.offset - batch.base_offset
                if ordinal < self._next:
                    self._duplicates += 1
                elif ordinal < self._state.position.ordinal:
                    self._next = ordinal + 1
                    self._present += 1
                    source, target = self._place_of(ordinal)
                    self._misplaced += target is not None and target != record.offset
                    found.append(Record(source, record.timestamp, record.key, record.value, record.headers))
        if found:
            self._rollup = (self._rollup + sum(self._hashes(found))) % ROLLUP_END

    def _place_of(self, ordinal: int) -> tuple[int, int | None]:
        """Returns the offsets of a record in the source and, if the map has it, in the target."""
        while ordinal >= self._range_end:
            self._range = next(self._ranges)
            self._range_first, self._range_end = self._range_end, self._range_end + self._range.records
        assert self._range is not None, "the loop has found one"
        number = ordinal - self._range_first
        target = self._range.target
        return self._range.source + number, None if target is None else target + number

    def result(self) -> PartitionProof:
        """Returns the proof, when the target was read to its end."""
        position = self._state.position
        return PartitionProof(
            self._partition, position.ordinal, self._present, self._duplicates, self._misplaced, self._rollup,
            position.rollup, self._state.is_end,
        )  # fmt: skip
