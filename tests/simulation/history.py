"""What clients were told, and whether all of it can be true of one log: pure, no cluster in sight.

Producers and consumers of one partition tell what happened to them, in the order in which it did. What contradicts
something told before is refused at once; what only the final log can show, when that is known.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

UNKNOWN_OFFSET = -1


class HistoryError(AssertionError):
    """One sentence: what a client was told that cannot be."""


class Sent(NamedTuple):
    producer: str
    number: int
    """Counts a producer's records."""
    is_idempotent: bool
    key: bytes | None = None
    """Compaction may remove a record when a later one has the same."""
    may_be_lost: bool = False
    """Its producer does not wait until it is committed."""


class Read(NamedTuple):
    offset: int
    value: bytes


class _Reader(Struct):
    start: int = 0
    offsets: list[int] = field(default_factory=list)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    """By leader epoch, the largest."""
    log_end: int = -1
    """The largest that ListOffsets answered."""
    goes_on_anywhere: bool = False
    """An unclean election may have taken from it what it had passed over."""


class PartitionHistory:
    def __init__(self, partition: int, *, is_retained: bool = False) -> None:
        """`is_retained`: the log's beginning goes when it is old."""
        self.partition = partition
        self.is_retained = is_retained
        self.sent: dict[bytes, Sent] = {}
        self.acknowledged: dict[bytes, int] = {}
        self.deleted_end = 0
        """Records below it may have been deleted on request."""
        self.deleted_for_good = 0
        """Somebody was told that all below it is deleted."""
        self._at: dict[int, bytes] = {}
        """What is known to be committed at an offset: some client was told."""
        self._readers: dict[str, _Reader] = {}
        self._begins_with_epoch = -1
        """Whatever was told in earlier ones may have been lost with an unclean election."""

    # what happened to producers

    def on_sent(self, value: bytes, sent: Sent) -> None:
        assert value not in self.sent, "records are told apart by their values"
        self.sent[value] = sent

    def on_acknowledged(self, value: bytes, offset: int, epoch: int | None = None) -> None:
        """`UNKNOWN_OFFSET`: the broker said that it has it, not where. `epoch`: it was no earlier one; None if it does
        not matter."""
        if epoch is not None and epoch < self._begins_with_epoch:
            return
        self.check(value in self.sent, f"{value!r} was acknowledged and never sent")
        before = self.acknowledged.get(value, UNKNOWN_OFFSET)
        if offset == UNKNOWN_OFFSET:
            offset = before
        self.check(before in (UNKNOWN_OFFSET, offset), f"{value!r} was acknowledged at {before}, and then at {offset}")
        self.acknowledged[value] = offset
        if offset != UNKNOWN_OFFSET:
            self._settle(offset, value, "acknowledged")

    # what happened to records

    @property
    def known_end(self) -> int:
        """Somebody was told that all below it is committed, or was."""
        return max(self._at, default=-1) + 1

    def on_deleting(self, offset: int) -> None:
        """All below may be deleted from now on."""
        self.deleted_end = max(self.deleted_end, offset)

    def on_deleted(self, offset: int) -> None:
        """As DeleteRecords was answered."""
        self.deleted_for_good = max(self.deleted_for_good, offset)

    def on_unclean_election(self, epoch: int) -> None:
        """All that was told so far may be lost, and what anybody is told by leaders of earlier epochs."""
        self._begins_with_epoch = epoch
        self._at.clear()
        self.acknowledged.clear()
        for reader in self._readers.values():
            reader.start = reader.offsets[-1] + 1 if reader.offsets else reader.start
            reader.offsets.clear()
            reader.goes_on_anywhere = True
            reader.log_end = -1

    def may_be_lost(self, epoch: int) -> bool:
        """What was told in that epoch."""
        return epoch < self._begins_with_epoch

    # what happened to consumers

    def on_started(self, consumer: str, start: int) -> None:
        """It reads from there on; from the beginning, if nothing else is said."""
        reader = self._reader(consumer)
        reader.start = start
        reader.offsets.clear()

    def on_read(self, consumer: str, records: Sequence[Read]) -> None:
        reader = self._reader(consumer)
        for offset, value in records:
            self.check(value in self.sent, f"{consumer} read {value!r} at {offset}, which nobody sent")
            last = reader.offsets[-1] if reader.offsets else reader.start - 1
            self.check(offset > last, f"{consumer} read offset {offset} after {last}")
            self._settle(offset, value, f"read by {consumer}")
            if reader.goes_on_anywhere:
                reader.start, reader.goes_on_anywhere = offset, False
            reader.offsets.append(offset)

    def on_high_watermark(self, consumer: str, epoch: int, high_watermark: int) -> None:
        """As the leader of that epoch answered."""
        known = self._reader(consumer).high_watermarks
        before = known.get(epoch, 0)
        self.check(
            high_watermark >= before,
            f"the leader of epoch {epoch} told {consumer} high watermark {high_watermark} after {before}",
        )
        known[epoch] = high_watermark

    def on_log_end(self, consumer: str, epoch: int, log_end: int) -> None:
        """As the leader of that epoch answered ListOffsets: a reader that starts there must miss nothing that one
        before it saw."""
        if self.may_be_lost(epoch):
            return
        reader = self._reader(consumer)
        self.check(log_end >= reader.log_end, f"{consumer} was told the log ends at {log_end} after {reader.log_end}")
        reader.log_end = log_end

    def on_truncation(self, consumer: str, sentence: str) -> None:
        """A consumer that read committed records alone is told that they were cut off."""
        raise HistoryError(f"partition {self.partition}: {consumer} was told of a truncation: {sentence}")

    # what the log is in the end

    def check_final(self, log: Sequence[Read]) -> None:
        """Against the whole log, as it is when everything has settled."""
        final = dict(log)
        newest = {self.sent[value].key: offset for offset, value in log if value in self.sent}
        for offset, value in self._at.items():
            found = final.get(offset)
            if found is None and self._may_be_gone(value, offset, newest):
                continue
            self.check(found == value, f"{value!r} was at offset {offset}; in the end there is {found!r}")
        for offset, value in log:
            self.check(offset >= self.deleted_for_good, f"in the end {value!r} is at {offset}, and was deleted")
            self.check(value in self.sent, f"in the end there is {value!r} at {offset}, which nobody sent")
        present = {value for _, value in log}
        for value, offset in self.acknowledged.items():
            is_there = value in present or self._may_be_gone(value, offset, newest)
            self.check(is_there, f"{value!r} was acknowledged, and is lost")
        self._check_producers(log)
        self._check_gapless(
            sorted(offset for offset, value in final.items() if not self._may_be_gone(value, offset, newest))
        )

    def _check_producers(self, log: Sequence[Read]) -> None:
        newest: dict[str, tuple[int, int]] = {}
        """The number of each producer's last record, and where that is."""
        seen: set[bytes] = set()
        for offset, value in log:
            producer, number, is_idempotent, key, may_be_lost = self.sent[value]
            if value in seen:
                self.check(not is_idempotent, f"{value!r} of an idempotent producer is there again at {offset}")
                continue
            seen.add(value)
            before, before_at = newest.get(producer, (-1, -1))
            may_lack = (
                self._begins_with_epoch >= 0
                or key is not None
                or may_be_lost
                or (self.deleted_end > 0 and not is_idempotent)
                or before_at < self.deleted_end  # what lay between was deleted, before this log was read or meanwhile
            )
            follows = number == before + 1 or (may_lack and (number > before or not is_idempotent))
            self.check(follows, f"record {number} of {producer} at {offset} follows record {before}")
            newest[producer] = number, offset

    def _check_gapless(self, offsets: Sequence[int]) -> None:
        """`offsets` are those of records that nobody may have been without."""
        for name, reader in self._readers.items():
            if reader.offsets:
                start = max(reader.start, self.deleted_end)
                passed = offsets[bisect_left(offsets, start) : bisect_right(offsets, reader.offsets[-1])]
                skipped = set(passed) - set(reader.offsets)
                self.check(not skipped, f"{name} was not given {sorted(skipped)[:5]}")

    # below

    def _may_be_gone(self, value: bytes, offset: int, newest: Mapping[bytes | None, int]) -> bool:
        """`newest` is where the last record with each key is."""
        key = self.sent[value].key
        return (self.deleted_end > max(offset, 0)) or (key is not None and newest.get(key, UNKNOWN_OFFSET) > offset)

    def _reader(self, consumer: str) -> _Reader:
        return self._readers.setdefault(consumer, _Reader())

    def _settle(self, offset: int, value: bytes, how: str) -> None:
        known = self._at.setdefault(offset, value)
        self.check(known == value, f"{value!r} was {how} at offset {offset}, where {known!r} was committed")

    def check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise HistoryError(f"partition {self.partition}: {sentence}")
