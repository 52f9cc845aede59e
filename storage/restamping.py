"""Writes another leader epoch into batches where they lie: recovery makes them the new leader's, and moves nothing.

The epoch lies outside a batch's own checksum, so four bytes change and no more. What they change in the checksum of the
segment follows from the headers of these batches and those behind them, since checksums of equal length are linear.
"""

from dataclasses import dataclass
from struct import Struct

import crc32c

from tailrace.protocol.record_batch import CRC_START
from tailrace.runtime.files import File

from .batch_walk import walk
from .segment_reader import SegmentReader

_EPOCH = Struct(">i")
_EPOCH_START, _EPOCH_END = 12, 16


@dataclass(frozen=True, slots=True)
class Restamped:
    count: int
    checksum_change: int
    """The segment's checksum is to be combined with it by exclusive or."""
    last_epoch: int | None
    """Of the segment's last batch; None if none was looked at."""


def restamp(reader: SegmentReader, size: int, base: int, end: int, epoch: int) -> Restamped:
    """All batches of the segment that begin in [base, end)."""
    file = reader.log.get()
    stamp = _EPOCH.pack(epoch)
    before = after = count = 0
    last_epoch = None
    for position, header, start in walk(file, reader.position_of(base, size), size):
        old, new = start[:CRC_START], start[:CRC_START]
        last_epoch = header.leader_epoch
        if base <= header.base_offset < end and last_epoch != epoch:
            new = old[:_EPOCH_START] + stamp + old[_EPOCH_END:]
            _overwrite(file, position + _EPOCH_START, old[_EPOCH_START:_EPOCH_END], stamp)
            last_epoch = epoch
            count += 1
        before, after = crc32c.crc32c(old, before), crc32c.crc32c(new, after)
    return Restamped(count, before ^ after, last_epoch)


def _overwrite(file: File, position: int, old: bytes, new: bytes) -> None:
    """Byte by byte, the low one first: wherever it stops, what is there is no larger than the larger of the two.

    Nothing would tell a torn epoch from a true one, and the largest epoch is the one that is believed.
    """
    for index in reversed(range(len(new))):
        if old[index] != new[index]:
            file.write_at(position + index, new[index : index + 1])
