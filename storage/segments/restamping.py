"""Stamps a new leader epoch on batches in place, which is how recovery makes them the new leader's batches.

The epoch lies outside the batch's own checksum, so only four bytes change. How the change affects the segment's
checksum follows from the headers of the stamped batches and the number of batches behind them, because checksums of
equal length are linear.
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
"""The number of batches after which other tasks run. There may be a hundred thousand batches."""
_EPOCH = struct.Struct(">i")
_EPOCH_START, _EPOCH_END = 12, 16
_ANY = bytes(64 * 1024)


class StampsNotSyncedError(OSError):
    """A sync between two steps of stamping failed, so the stamps may never reach the disk."""


class UnstampedTail(Struct, frozen=True):
    """The number of batches behind a stamped range, from a position on, in a segment of a given size."""

    position: int
    size: int
    count: int


class Restamped(Struct, frozen=True):
    """The result of stamping a segment."""

    count: int
    """The number of batches that had another epoch."""
    checksum: int
    """The new checksum of the segment."""
    epoch: int
    """The epoch of the segment's last batch."""
    behind: UnstampedTail | None
    """The batches behind the stamped ones. A caller that continues there, as a follower does with each message,
    passes it to the next call."""


async def restamp(
    reader: SegmentReader,
    whole: SegmentSummary | SegmentFacts,
    base: int,
    end: int,
    epoch: int,
    known: UnstampedTail | None = None,
) -> Restamped:
    """Stamps `epoch` on all batches of the segment that begin in [base, end).

    `known` is the tail that the last call returned. It saves reading the batches behind the range, because only their
    number matters for the checksum. After an OSError the checksum of the segment is unknown.
    """
    file, size = reader.log.get(), whole.size
    new = _EPOCH.pack(epoch)
    changes: list[tuple[int, bytes]] = []
    before = after = count = 0
    ends_stamped = has_flipped = False
    previous: int | None = None
    # The epoch that the newest batch had before it was stamped, if the batch before has another one.
    odd: int | None = None
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
        behind = UnstampedTail(rest_position, size, count - passed)
    # If an overwritten epoch may be corrupt, the noted checksum is of no use. Compute it from what is there.
    checksum = await _checksum(file, size) if has_flipped else whole.checksum
    await _overwrite(file, changes, new)
    return Restamped(len(changes), checksum ^ before ^ after, epoch if ends_stamped else whole.epoch, behind)


def write_stamps_again(file: File, size: int, end: int) -> None:
    """Rewrites the epochs of the batches below offset `end` in the first `size` bytes, because a sync of them may
    have failed."""
    for position, header, start in walk(file, 0, size, FAR_BYTES):
        if header.base_offset >= end:
            return
        file.write_at(position + _EPOCH_START, start[_EPOCH_START:_EPOCH_END])


async def _checksum(file: File, size: int) -> int:
    """Computes the checksum of the segment as it is."""
    checksum = 0
    for count, (_, _, start) in enumerate(walk(file, 0, size), 1):
        checksum = crc32c.crc32c(start[:CRC_START], checksum)
        if count % STAMPED_IN_A_TURN == 0:
            await trio.lowlevel.checkpoint()
    return checksum


def _followed_by(size: int, checksum: int) -> int:
    """Returns the checksum after `size` more bytes.

    The bytes do not matter if only the difference of two results is used.
    """
    while size > 0:
        checksum = crc32c.crc32c(_ANY[:size], checksum)
        size -= len(_ANY)
    return checksum


async def _overwrite(file: File, changes: list[tuple[int, bytes]], new: bytes) -> None:
    """Writes the new epoch so that after a crash no epoch on the disk is larger than both the old and the new one.

    A torn epoch looks like a real one, and the largest epoch is believed. The first byte that differs decides which of
    two epochs is larger. So while the other bytes change, that byte must have the value of the smaller epoch. Usually
    only the last byte changes, and no sync is needed in between.
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
