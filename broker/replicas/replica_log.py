"""A replica's log as replication sees it: entries instead of bytes.

What was appended last is what a leader sends next to each follower, so the newest entries are kept in memory.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import attrgetter

import trio

from tailrace.broker.replication.entries import Entry, EntryKind, compacted_end
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.high_watermark import checkpointed_high_watermark
from tailrace.protocol.batches.control_batches import ControlKind, bridge, bridge_epoch, hole
from tailrace.protocol.batches.record_batch import CONTROL, LOG_OVERHEAD, BatchHeader, crc_of
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch
from tailrace.runtime.files import Buffer
from tailrace.storage.log.log import Log
from tailrace.storage.producers.producer_snapshots import ProducersUnknownError

from .recent_batches import RecentBatches

NEWEST_ENTRIES_MAX = 256
SCANNED_PER_TURN = 500

_EVENT, _COMPACTED = EntryKind.EVENT, EntryKind.COMPACTED
_BEHIND_ALL = 2**63 - 1
_by_base = attrgetter("base")
_by_end = attrgetter("end")


class DamagedLogError(KafkaError):
    """A log has a header that is damaged."""

    def __init__(self, offset: int, found: KafkaError) -> None:
        super().__init__(found.code, found.message)
        self.offset = offset
        """The offset of the last batch before the damage that looks correct. This batch itself may have a wrong end."""


class ReplicaLog:
    """The log of one replica, read as entries."""

    __slots__ = ("_log", "_newest", "_newest_end", "_newest_start", "recent_batches")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._newest: list[Entry] = []
        """The newest entries of the log."""
        self._newest_start = self._newest_end = log.log_end
        """The start and end of `_newest`: the log has nothing else between them."""
        self.recent_batches = RecentBatches()

    @property
    def log_start(self) -> int:
        return self._log.log_start

    @property
    def log_end(self) -> int:
        return self._log.log_end

    @property
    def epochs(self) -> Sequence[EpochStart]:
        log_end = self._log.log_end  # epochs beyond the log end are noted, but their entries are not appended yet
        return [EpochStart(Epoch(epoch), start) for epoch, start in self._log.epochs if start < log_end]

    @property
    def stamped_end(self) -> int:
        return self._log.stamped_end

    @property
    def is_end_sure(self) -> bool:
        return self._log.is_end_sure

    def producers_before(self, offset: int) -> bytes:
        return self._log.producers.before(offset).snapshot()

    def has_valid_checksum(self, entry: Entry) -> bool:
        batch = b"".join(part.read() for part in self._log.read_batches(entry.base, entry.end))
        return len(batch) == entry.size and crc_of(batch, 0, entry.size) == entry.content

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Iterates in order over the entries that reach beyond `start` and begin before `end`."""
        if self._newest_end < self._log.log_end:
            self.on_appended(list(self._read(self._newest_end, self._log.log_end)))
        newest, log_start = self._newest, self._log.log_start
        if start < log_start:
            start = log_start
        if start < self._newest_start:
            return self._read(start, end)
        first = bisect_right(newest, start, key=_by_end)
        stop = len(newest) if end >= self._newest_end else bisect_left(newest, end, key=_by_base)
        return iter(newest[first:stop])

    def on_batches(self, batches: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Notes appended batches that recovery did not write, so that their headers need not be read again."""
        base, end = headers[0].base_offset, self._log.log_end
        self.recent_batches.add(batches, base, end)
        if self._newest_end == base:
            for header in headers:
                self._newest.append(entry_of(header))
            self._newest_end = end
            if len(self._newest) > NEWEST_ENTRIES_MAX:
                self._keep_half()

    def on_appended(self, entries: Sequence[Entry]) -> None:
        """Notes appended entries."""
        self._newest.extend(entries)
        self._newest_end = self._log.log_end
        if len(self._newest) > NEWEST_ENTRIES_MAX:
            self._keep_half()

    def _keep_half(self) -> None:
        del self._newest[: -NEWEST_ENTRIES_MAX // 2]
        self._newest_start = self._newest[0].base

    def is_long_scan(self, start: int) -> bool:
        """Returns whether reading all entries from `start` on would keep other tasks waiting."""
        return min(self._newest_start, self._log.log_end) - start > SCANNED_PER_TURN

    async def scan_in_turns(self, start: int) -> bool:
        """Reads all entries from `start` on in turns, and keeps them until the log changes.

        Returns False if this is impossible because an entry on the way is damaged. If the log changes meanwhile,
        nothing is kept.
        """
        found: list[Entry] = []
        end, log, newest = start, self._log, self._newest
        with suppress(KafkaError):
            while (some := self._read_some(end)) and some[-1].end > end:
                found += some
                end = some[-1].end
                await trio.lowlevel.checkpoint()
        if self._newest is not newest:
            return True
        if max(end, log.log_start) != log.log_end:
            return False
        self._newest, self._newest_start, self._newest_end = found, start, log.log_end
        return True

    async def high_watermark_at_start(self, checkpoint: int) -> int:
        """Returns the high watermark at start, like the core's function of this name, but in turns and without keeping
        entries.

        Without a checkpointed high watermark it reads the whole log. Raises DamagedLogError.
        """
        last = min(max(checkpoint, self.log_start), self.log_end)
        before: list[Entry] = []
        try:
            value = start = position = checkpointed_high_watermark(self, checkpoint)
            while some := list(islice(self._read(position, _BEHIND_ALL), SCANNED_PER_TURN + 1)):
                if before and some[0].base < position:
                    raise DamagedLogError(position, _misplaced(some[0].base))
                entries = [*before, *some]
                follows = self._log.log_end if self.is_end_sure else None
                if len(some) > SCANNED_PER_TURN:
                    follows = entries.pop().base  # not the place where the entry before it says that it ends
                value = max(value, compacted_end(entries, start, follows, self.has_valid_checksum))
                before = entries[-1:]
                last = start = before[0].base
                position = max(position + 1, before[0].end)
                await trio.lowlevel.checkpoint()
        except DamagedLogError:
            raise
        except KafkaError as error:
            raise DamagedLogError(last, error) from error
        return value

    def load_producers(self) -> None:
        """Loads the producer state. Raises DamagedLogError if the files do not have it."""
        try:
            self._log.load_producers()
        except ProducersUnknownError as error:
            raise DamagedLogError(error.offset, error) from error

    def check_readable_from(self, offset: int) -> None:
        """Raises DamagedLogError if the log cannot be read soon after this offset."""
        self._read_some(offset)

    def _read_some(self, start: int) -> list[Entry]:
        return list(islice(self._read(start, self._log.log_end), SCANNED_PER_TURN))

    def on_idle(self) -> None:
        """Drops the newest entries if they are not needed soon, so that thousands of idle replicas use no memory."""
        if self._newest and self._newest_end == self._log.log_end:
            self._forget_newest()

    def on_changed(self) -> None:
        """Drops cached entries, because the log has changed in another way than by an append."""
        self.recent_batches.forget()
        self._forget_newest()

    def _forget_newest(self) -> None:
        self._newest = []
        self._newest_start = self._newest_end = self._log.log_end

    def _read(self, start: int, end: int) -> Iterator[Entry]:
        """Reads entries. Raises DamagedLogError."""
        try:
            return self._checked_entries(start, self._log.headers(start, end))
        except KafkaError as error:
            raise DamagedLogError(start, error) from error

    def _checked_entries(
        self, start: int, headers: Iterator[tuple[BatchHeader, ControlKind | None]]
    ) -> Iterator[Entry]:
        """Yields entries. Raises DamagedLogError if an entry does not follow the one before it, or lies beyond the log
        end.

        In such a case a bit of an offset has flipped, and a comparison of logs would take existing entries as missing.
        """
        last = end = start
        is_around_start = True  # the first entry may begin before `start`
        try:
            for header, kind in headers:
                base, next_offset = header.base_offset, header.next_offset
                is_around_start = is_around_start and 0 <= base < start
                if next_offset > self._log.log_end or (base < end and not is_around_start):
                    raise _misplaced(base)
                if not is_around_start:
                    last, end = base, next_offset
                yield self._entry(header, kind)
        except KafkaError as error:
            raise DamagedLogError(last, error) from error

    def _entry(self, header: BatchHeader, kind: ControlKind | None) -> Entry:
        if kind is None:
            return entry_of(header)
        found = self._log.read_batches(header.base_offset, header.next_offset)
        if [each.count for each in found] != [header.size]:
            raise _misplaced(header.base_offset)
        return entry_of_control(header, kind, found[0].file.read_at(found[0].position, header.size))


def _misplaced(offset: int) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {offset} is out of place")


def entry_of(header: BatchHeader) -> Entry:
    """Returns the entry of a batch that recovery did not write. Producers leave out no offsets; compaction does."""
    base, count = header.base_offset, header.last_offset_delta + 1
    kind = _EVENT if header.record_count == count or header.attributes & CONTROL else _COMPACTED
    return Entry(base, base + count, header.leader_epoch, header.crc, kind, header.batch_length + LOG_OVERHEAD)


def entry_of_control(header: BatchHeader, kind: ControlKind, batch: Buffer, position: int = 0) -> Entry:
    """Returns the entry of a batch that recovery wrote. Its content is its value and not its checksum, so it is known
    before the batch exists."""
    is_bridge = kind is ControlKind.BRIDGE
    return Entry(
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        bridge_epoch(batch, position) if is_bridge else 0,
        EntryKind.BRIDGE if is_bridge else EntryKind.HOLE,
        header.size,
    )


def batch_of_recovery(entry: Entry) -> bytearray:
    """Returns the batch of a hole or a bridge."""
    if entry.kind is EntryKind.HOLE:
        return hole(entry.base, entry.end, entry.epoch)
    assert entry.kind is EntryKind.BRIDGE
    return bridge(entry.base, Epoch(entry.content))
