"""Writes another leader epoch into batches where they lie: recovery makes them the new leader's, and moves nothing.

The epoch lies outside a batch's own checksum, so four bytes change and no more. What they change in the checksum of the
segment follows from the headers of these batches and those behind them, since checksums of equal length are linear.
"""

import struct

import crc32c
import trio
from msgspec import Struct

from tailrace.protocol.batches.record_batch import CRC_START
from tailrace.runtime.files import File
from tailrace.storage.manifest.manifest import SegmentFacts

from .batch_walk import FAR_BYTES, walk
from .segment_reader import SegmentReader
from .segment_summary import SegmentSummary

STAMPED_IN_A_TURN = 500
"""Then others go on: there may be a hundred thousand."""
_EPOCH = struct.Struct(">i")
_EPOCH_START, _EPOCH_END = 12, 16
_ANY = bytes(64 * 1024)


class StampsNotSyncedError(OSError):
    """What was to be on the disk before the rest is written may never get there."""


class Behind(Struct, frozen=True):
    """So many batches there were from a position on, in a segment of that size."""

    position: int
    size: int
    count: int


class Restamped(Struct, frozen=True):
    count: int
    checksum: int
    """Of the segment."""
    epoch: int
    """Of the segment's last batch."""
    behind: Behind | None
    """What lies behind those that were stamped: for who goes on there, as followers do with each message."""


async def restamp(
    reader: SegmentReader,
    whole: SegmentSummary | SegmentFacts,
    base: int,
    end: int,
    epoch: int,
    known: Behind | None = None,
) -> Restamped:
    """All batches of the segment that begin in [base, end). OSError: nothing is known of its checksum any more.

    `known`: of the last time. What lies behind is not read again then: what it makes of the change in the checksum
    depends on its length alone.
    """
    file, size = reader.log.get(), whole.size
    new = _EPOCH.pack(epoch)
    changes: list[tuple[int, bytes]] = []
    before = after = count = 0
    ends_stamped = has_flipped = False
    previous: int | None = None
    odd: int | None = None
    """The epoch of the newest batch, if that is stamped, and the one before it has another one."""
    first_position, rest = reader.position_of(base, size), None
    if known is not None and (known.position, known.size) != (first_position, size):
        known = None
    for count, (position, header, start) in enumerate(walk(file, first_position, size), 1):
        has_flipped = has_flipped or odd not in (None, header.leader_epoch)
        odd = None
        if rest is None and header.base_offset >= end:
            rest = position, count - 1
            if known is not None:
                ends_stamped = False
                break
        if count % STAMPED_IN_A_TURN == 0:
            await trio.lowlevel.checkpoint()
        old_start, new_start = start[:CRC_START], start[:CRC_START]
        ends_stamped = base <= header.base_offset < end
        if ends_stamped and header.leader_epoch != epoch:
            odd = header.leader_epoch if header.leader_epoch != previous else None
            old = start[_EPOCH_START:_EPOCH_END]
            new_start = old_start[:_EPOCH_START] + new + old_start[_EPOCH_END:]
            changes.append((position + _EPOCH_START, old))
        previous = header.leader_epoch
        before, after = crc32c.crc32c(old_start, before), crc32c.crc32c(new_start, after)
    has_flipped = has_flipped or odd not in (None, whole.epoch)
    behind = None
    if rest is not None:
        rest_position, passed = rest
        if known is not None:
            count = known.count
            before, after = (_followed_by((count - passed) * CRC_START, each) for each in (before, after))
        behind = Behind(rest_position, size, count - passed)
    # Where an epoch that goes has flipped, perhaps, what was noted does not tell what is left: what is there does.
    checksum = await _checksum(file, size) if has_flipped else whole.checksum
    await _overwrite(file, changes, new)
    return Restamped(len(changes), checksum ^ before ^ after, epoch if ends_stamped else whole.epoch, behind)


def write_stamps_again(file: File, size: int, end: int) -> None:
    """Those of the batches that begin below the offset, in the first `size` bytes: a sync of them may have failed."""
    for position, header, start in walk(file, 0, size, FAR_BYTES):
        if header.base_offset >= end:
            return
        file.write_at(position + _EPOCH_START, start[_EPOCH_START:_EPOCH_END])


async def _checksum(file: File, size: int) -> int:
    """Of the segment, as it is."""
    checksum = 0
    for count, (_, _, start) in enumerate(walk(file, 0, size), 1):
        checksum = crc32c.crc32c(start[:CRC_START], checksum)
        if count % STAMPED_IN_A_TURN == 0:
            await trio.lowlevel.checkpoint()
    return checksum


def _followed_by(size: int, checksum: int) -> int:
    """By so many bytes, whichever these are in both of two whose difference is wanted."""
    while size > 0:
        checksum = crc32c.crc32c(_ANY[:size], checksum)
        size -= len(_ANY)
    return checksum


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
        try:
            await file.sync()
        except OSError as error:
            raise StampsNotSyncedError(*error.args) from error
    await _write(file, then)


async def _write(file: File, changes: list[tuple[int, bytes]]) -> None:
    for number, (position, byte) in enumerate(changes, 1):
        file.write_at(position, byte)
        if number % STAMPED_IN_A_TURN == 0:
            await trio.lowlevel.checkpoint()
