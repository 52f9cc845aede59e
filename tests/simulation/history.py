"""Whether everything that clients were told about one partition fits one log. Pure, without a cluster.

Producers and consumers of a partition report what happened to them, in that order. A report that contradicts an earlier
one fails at once. What only the final log can show is checked when that is known.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

UNKNOWN_OFFSET = -1


class HistoryError(AssertionError):
    """One sentence about a response to a client that cannot be true."""


class Sent(NamedTuple):
    producer: str
    number: int
    """The number of the record among those of its producer."""
    is_idempotent: bool
    key: bytes | None = None
    """The key, because of which compaction may remove the record after a later one with the same key."""
    may_be_lost: bool = False
    """Whether the producer does not wait until the record is committed."""


class Read(NamedTuple):
    offset: int
    value: bytes


class _Reader(Struct):
    start: int = 0
    offsets: list[int] = field(default_factory=list)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    """The largest high watermark of each leader epoch."""
    log_end: int = -1
    """The largest log end in a ListOffsets response."""
    goes_on_anywhere: bool = False
    """Whether the reader may skip records, because an unclean election may have removed what it had read."""


class PartitionHistory:
    def __init__(self, partition: int, *, is_retained: bool = False) -> None:
        """Prepares the history; with `is_retained`, the log's beginning is deleted when it is old."""
        self.partition = partition
        self.is_retained = is_retained
        self.sent: dict[bytes, Sent] = {}
        self.acknowledged: dict[bytes, int] = {}
        self.deleted_end = 0
        """The offset below which records may have been deleted on request."""
        self.deleted_for_good = 0
        """The offset below which all records are deleted, according to a response to a client."""
        self.bridges: dict[int, int] = {}
        """The offsets of committed bridges by epoch: everything before a bridge belongs to earlier epochs."""
        self._at: dict[int, bytes] = {}
        """The records that are known to be committed, by offset, because a client was told of them."""
        self._readers: dict[str, _Reader] = {}
        self._begins_with_epoch = -1
        """The epoch of the last unclean election. Responses from earlier epochs may describe lost records."""

    # producers

    def on_sent(self, value: bytes, sent: Sent) -> None:
        assert value not in self.sent, "each record must have a unique value"
        self.sent[value] = sent

    def on_acknowledged(self, value: bytes, offset: int, epoch: int | None = None) -> None:
        """Records an acknowledgement.

        The offset is `UNKNOWN_OFFSET` if the broker has the record but does not say where. The record was stored in
        `epoch` or later; None means that the epoch does not matter.
        """
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

    # records

    @property
    def known_end(self) -> int:
        """The offset below which all records are, or were, committed according to a response to a client."""
        return max(self._at, default=-1) + 1

    def on_deleting(self, offset: int) -> None:
        """Records that a client is about to delete everything below the offset."""
        self.deleted_end = max(self.deleted_end, offset)

    def on_deleted(self, offset: int) -> None:
        """Records a response to DeleteRecords."""
        self.deleted_for_good = max(self.deleted_for_good, offset)

    def on_unclean_election(self, epoch: int) -> None:
        """Forgets what clients were told so far, and what leaders of earlier epochs will tell them."""
        self._begins_with_epoch = epoch
        self._at.clear()
        self.bridges.clear()
        self.acknowledged.clear()
        for reader in self._readers.values():
            reader.start = reader.offsets[-1] + 1 if reader.offsets else reader.start
            reader.offsets.clear()
            reader.goes_on_anywhere = True
            reader.log_end = -1

    def may_be_lost(self, epoch: int) -> bool:
        """Whether a response from that epoch may describe lost records."""
        return epoch < self._begins_with_epoch

    # consumers

    def on_started(self, consumer: str, start: int) -> None:
        """Records where a consumer starts to read, which is the beginning by default."""
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
        """Records the high watermark in a response from the leader of that epoch."""
        known = self._reader(consumer).high_watermarks
        before = known.get(epoch, 0)
        self.check(
            high_watermark >= before,
            f"the leader of epoch {epoch} told {consumer} high watermark {high_watermark} after {before}",
        )
        known[epoch] = high_watermark

    def on_log_end(self, consumer: str, epoch: int, log_end: int) -> None:
        """Records the log end in a ListOffsets response from the leader of that epoch.

        A reader that starts there must not miss records that an earlier reader saw.
        """
        if self.may_be_lost(epoch):
            return
        reader = self._reader(consumer)
        self.check(log_end >= reader.log_end, f"{consumer} was told the log ends at {log_end} after {reader.log_end}")
        reader.log_end = log_end

    def on_bridge(self, consumer: str, epoch: int, offset: int) -> None:
        """Records that a consumer got the bridge of an epoch at this offset."""
        if not self.may_be_lost(epoch):
            before = self.bridges.setdefault(epoch, offset)
            self.check(
                before == offset, f"{consumer} got the bridge of epoch {epoch} at {offset}, which was at {before}"
            )

    def on_epoch_end(self, consumer: str, leader_epoch: int, epoch: int, end: int, log_start: int) -> None:
        """Records where an epoch ended according to the leader of a later one, whose log starts at `log_start`.

        No epoch ended after a later one began.
        """
        if self.may_be_lost(leader_epoch):
            return
        for later, bridge in self.bridges.items():
            if epoch < later <= leader_epoch and bridge >= log_start:
                self.check(
                    end <= bridge,
                    f"the leader of epoch {leader_epoch} told {consumer} that epoch {epoch} ended at {end}, but epoch "
                    f"{later} began at {bridge}",
                )

    def on_truncation(self, consumer: str, sentence: str) -> None:
        """Fails: a reader of committed records must never be told that they were truncated."""
        raise HistoryError(f"partition {self.partition}: {consumer} was told of a truncation: {sentence}")

    # the final log

    def check_final(self, log: Sequence[Read]) -> None:
        """Checks all reports against the whole log after everything has settled."""
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
        """The number and the offset of each producer's last record."""
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
                # the records between them were deleted, before or while this log was read
                or before_at < self.deleted_end
            )
            follows = number == before + 1 or (may_lack and (number > before or not is_idempotent))
            self.check(follows, f"record {number} of {producer} at {offset} follows record {before}")
            newest[producer] = number, offset

    def _check_gapless(self, offsets: Sequence[int]) -> None:
        """Checks that no reader skipped records; `offsets` are those that must be read."""
        for name, reader in self._readers.items():
            if reader.offsets:
                start = max(reader.start, self.deleted_end)
                passed = offsets[bisect_left(offsets, start) : bisect_right(offsets, reader.offsets[-1])]
                skipped = set(passed) - set(reader.offsets)
                self.check(not skipped, f"{name} was not given {sorted(skipped)[:5]}")

    # helpers

    def _may_be_gone(self, value: bytes, offset: int, newest: Mapping[bytes | None, int]) -> bool:
        """Whether the record may have been removed; `newest` has the last offset of each key."""
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
