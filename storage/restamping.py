"""Writes another leader epoch into batches where they lie: recovery makes them the new leader's, and moves nothing.

The epoch lies outside a batch's own checksum, so four bytes change and no more. What they change in the checksum of the
segment follows from the headers of these batches and those behind them, since checksums of equal length are linear.
"""

import struct

import crc32c
import trio
from msgspec import Struct

from tailrace.protocol.record_batch import CRC_START
from tailrace.runtime.files import File

from .batch_walk import walk
from .segment_reader import SegmentReader

STAMPED_IN_A_TURN = 500
"""Then others go on: there may be a hundred thousand."""
_EPOCH = struct.Struct(">i")
_EPOCH_START, _EPOCH_END = 12, 16


class Restamped(Struct, frozen=True):
    count: int
    checksum_change: int
    """The segment's checksum is to be combined with it by exclusive or."""
    last_epoch: int | None
    """Of the segment's last batch; None if none was looked at."""


async def restamp(reader: SegmentReader, size: int, base: int, end: int, epoch: int) -> Restamped:
    """All batches of the segment that begin in [base, end). OSError: nothing is known of its checksum any more."""
    file = reader.log.get()
    new = _EPOCH.pack(epoch)
    changes: list[tuple[int, bytes]] = []
    before = after = 0
    last_epoch = None
    for number, (position, header, start) in enumerate(walk(file, reader.position_of(base, size), size), 1):
        if number % STAMPED_IN_A_TURN == 0:
            await trio.lowlevel.checkpoint()
        old_start, new_start = start[:CRC_START], start[:CRC_START]
        last_epoch = header.leader_epoch
        if base <= header.base_offset < end and last_epoch != epoch:
            old = start[_EPOCH_START:_EPOCH_END]
            new_start = old_start[:_EPOCH_START] + new + old_start[_EPOCH_END:]
            changes.append((position + _EPOCH_START, old))
            last_epoch = epoch
        before, after = crc32c.crc32c(old_start, before), crc32c.crc32c(new_start, after)
    await _overwrite(file, changes, new)
    return Restamped(len(changes), before ^ after, last_epoch)


async def _overwrite(file: File, changes: list[tuple[int, bytes]], new: bytes) -> None:
    """Wherever a crash stops it, no epoch that is then there is larger than the larger of the old and the new one.

    Nothing would tell a torn epoch from a true one, and the largest epoch is the one that is believed. The first byte
    that differs decides which of two is larger: so as long as the others change it is the smaller one that stands
    there. Mostly the last byte alone changes, and then there is nothing to wait for.
    """
    first, then = [], []
    for position, old in changes:
        different = [index for index in range(len(new)) if old[index] != new[index]]
        decisive, others = different[:1], different[1:]
        steps = (others, decisive) if new > old else (decisive, others)
        first += [(position + index, new[index : index + 1]) for index in steps[0]]
        then += [(position + index, new[index : index + 1]) for index in steps[1]]
    await _write(file, first)
    if first and then:
        await file.sync()
    await _write(file, then)


async def _write(file: File, changes: list[tuple[int, bytes]]) -> None:
    for number, (position, byte) in enumerate(changes, 1):
        file.write_at(position, byte)
        if number % STAMPED_IN_A_TURN == 0:
            await trio.lowlevel.checkpoint()
