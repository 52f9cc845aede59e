"""Decides, for one partition, which records go into which batch, and which offset each record got. Does not wait.

A replay has one producer id, which it keeps for its whole life, and numbers the records of each partition from 0. The
number of a record, its ordinal, is its sequence number. So the target itself says how far the replay is:

- A batch that is sent twice has the same sequence numbers, and the leader stores it once.
- A batch of the replay that lies in the target says which records it holds, whatever other producers have written
  between its batches. After a crash or a lost response, nothing has to be guessed.

The content of what is found is compared with the source. If it differs, the source or the settings have changed.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.protocol.batches.record_batch import SEQUENCE_END
from tailrace.protocol.batches.records import Record

from .replay_position import ROLLUP_END, MappedRange, ReplayPosition


class ReplayError(JobError):
    """A replay cannot go on; the message is one sentence."""


class BatchLimits(Struct, frozen=True):
    """How large a batch may be."""

    bytes_max: int = 512 * 1024
    """The size of the keys, values and headers, so that topics accept the batch by default."""
    records_max: int = 16 * 1024
    window_ms: float | None = None
    """How much later than its first record the last record may be, for a replay that keeps the pace."""


USUAL_LIMITS = BatchLimits()


class SourceRecord(NamedTuple):
    """A record to send, and what the source says about it and the records before it."""

    offset: int
    """The offset in the source."""
    record: Record
    size: int
    hash: int
    read: int
    """How many records of the source were read with this one."""


class LandedBatch(Struct, frozen=True):
    """A batch of the replay that was found in the target."""

    base_sequence: int
    base_offset: int
    last_offset_delta: int
    records: Sequence[Record]
    """The records with their offsets in the target. Compaction may have removed some."""


class ReplayLine:
    """The records of one partition that the target has not acknowledged, in order."""

    def __init__(self, name: str, position: ReplayPosition, limits: BatchLimits = USUAL_LIMITS) -> None:
        """`name` is that of the target partition. `position` is where the replay goes on."""
        self._name = name
        self._limits = limits
        self._held: deque[SourceRecord] = deque()
        self._under_way: list[SourceRecord] = []
        """The first of the held records, which form the batch to send; empty if the batch must be chosen."""
        self._landed: dict[int, Record] = {}
        """Records that were found in the target and whose source was not read yet, by ordinal."""
        self._landed_end = position.ordinal
        """The ordinal after the last record that is certainly in the target."""
        self._held_bytes = 0
        self.position = position
        """How far the target has acknowledged, or is known to have, the records."""
        self._ranges: list[MappedRange] = []

    # records of the source

    @property
    def is_full(self) -> bool:
        """Whether more records would not change the next batch."""
        held = self._held
        return (
            len(held) > self._limits.records_max or self._held_bytes > self._limits.bytes_max or self._is_past_window()
        )

    def _is_past_window(self) -> bool:
        held = self._held
        return (
            self._limits.window_ms is not None
            and len(held) > 1
            and held[-1].record.timestamp - held[0].record.timestamp > self._limits.window_ms
        )

    @property
    def wants_source(self) -> bool:
        """Whether the target has a record whose source was not read yet."""
        return self._landed_end > self.position.ordinal + len(self._held)

    def add(self, records: Sequence[SourceRecord]) -> None:
        """Adds the next records of the source. Raises ReplayError if the target has others in their place."""
        self._held += records
        self._held_bytes += sum(each.size for each in records)
        self._settle()

    # batches

    @property
    def has_batch(self) -> bool:
        """Whether a record waits."""
        return bool(self._held)

    @property
    def last_timestamp(self) -> int | None:
        """The time of the last record in the batch."""
        self._choose()
        return self._under_way[-1].record.timestamp if self._under_way else None

    def batch(self) -> list[Record] | None:
        """Returns the batch to send now; None if no record waits. It stays the same until something is learnt of it.

        The batch depends only on the records, so that a task that begins again makes the same batch.
        """
        self._choose()
        if not self._under_way:
            return None
        for number, each in enumerate(self._under_way):
            each.record.offset = number
        return [each.record for each in self._under_way]

    def _choose(self) -> None:
        if self._under_way:
            return
        limits, chosen = self._limits, self._under_way
        first = self._held[0].record.timestamp if self._held else 0
        total = 0
        for each in self._held:
            total += each.size
            if chosen and (
                total > limits.bytes_max
                or len(chosen) == limits.records_max
                or (limits.window_ms is not None and each.record.timestamp - first > limits.window_ms)
            ):
                return
            chosen.append(each)

    @property
    def sequence(self) -> int:
        """The sequence number of the first record that waits."""
        return self.position.ordinal % SEQUENCE_END

    def on_appended(self, offset: int) -> None:
        """Notes that the leader has appended the batch, whose first record got this offset."""
        for _ in self._under_way:
            self._held.popleft()
        self._map(self._under_way, offset)
        self._under_way = []

    def on_too_large(self) -> bool:
        """Divides the batch, which the leader found too large. Returns False if it has only one record."""
        if len(self._under_way) == 1:
            return False
        del self._under_way[len(self._under_way) // 2 :]
        return True

    # what the target has

    def on_landed(self, batches: Iterable[LandedBatch]) -> None:
        """Takes batches of the replay from the target, in the order of their offsets. Raises ReplayError.

        Batches before the position are ignored.
        """
        for batch in batches:
            first = self.position.ordinal + ordinals_between(self.position.ordinal, batch.base_sequence)
            for record in batch.records:
                ordinal = first + record.offset - batch.base_offset
                if ordinal >= self.position.ordinal:
                    self._landed[ordinal] = record
            self._landed_end = max(self._landed_end, first + batch.last_offset_delta + 1)
        self._settle()

    def _settle(self) -> None:
        """Maps the held records that the target has. A leader takes sequence numbers only in order, so all records
        before `_landed_end` are there, or were deleted there later."""
        while self._held and self.position.ordinal < self._landed_end:
            self._under_way = []
            found = self._landed.pop(self.position.ordinal, None)
            if found is not None and not _are_equal(found, self._held[0].record):
                raise ReplayError(
                    f"offset {found.offset} of {self._name} has not the content of offset "
                    f"{self._held[0].offset} of the source, which was sent there: the source or the masks have "
                    "changed since, so begin another replay into an empty topic, with another directory for its map"
                )
            self._map([self._held.popleft()], None if found is None else found.offset)

    def check_end(self) -> None:
        """Checks, at the end of the source, that the target has no record of the replay that the source lacks."""
        if self.wants_source:
            raise ReplayError(
                f"{self._name} has more records of this replay than the source: the source has changed since, so begin "
                "another replay into an empty topic, with another directory for its map"
            )

    # progress

    def _map(self, records: Sequence[SourceRecord], target: int | None) -> None:
        """Notes the offset of the first of these records in the target; None if the target has deleted them."""
        for number, each in enumerate(records):
            at = None if target is None else target + number
            if not self._ranges or not self._ranges[-1].grows_with(each.offset, at):
                self._ranges.append(MappedRange(each.offset, at, 0))
            self._ranges[-1].records += 1
        self._held_bytes -= sum(each.size for each in records)
        last, count, before = records[-1], len(records), self.position
        self.position = ReplayPosition(
            last.offset + 1,
            before.target if target is None else target + count,
            before.ordinal + count,
            last.read,
            (before.rollup + sum(each.hash for each in records)) % ROLLUP_END,
            target if before.first_target is None else before.first_target,
        )

    def take_ranges(self) -> list[MappedRange]:
        """Returns what was mapped since the last call."""
        taken, self._ranges = self._ranges, []
        return taken

    @property
    def first_offset(self) -> int | None:
        """The offset in the source of the first record that waits."""
        return self._held[0].offset if self._held else None


def ordinals_between(ordinal: int, sequence: int) -> int:
    """Returns how far a sequence number is ahead of an ordinal; negative if it is behind. Sequence numbers wrap."""
    half = SEQUENCE_END // 2
    return (sequence - ordinal + half) % SEQUENCE_END - half


def _are_equal(one: Record, other: Record) -> bool:
    return (
        one.timestamp == other.timestamp
        and one.key == other.key
        and one.value == other.value
        and one.headers == other.headers
    )
