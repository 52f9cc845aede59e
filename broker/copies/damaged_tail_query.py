"""Asks all other stores whether they have what is damaged at the end of a log here, so that it may be cut off if not.

What another store has in that place is something else, if the segment with it is not what was written here: that tells
only as long as nothing else is damaged in the segment.
"""

import trio
from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import entry_of
from tailrace.broker.replication.damaged_tail import (
    TailReport,
    may_truncate_tail,
    newest_membership,
    stores_that_may_hold,
)
from tailrace.broker.replication.entries import EntryKind
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.files import Buffer
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_scrub import OpenSegmentPrefix, SegmentScrub

from .batch_copies import Copies
from .store_answers import membership_of


class DamagedTail(Struct, frozen=True):
    """What could not be mended, and all behind it."""

    segment: SealedSegment | OpenSegmentPrefix
    position: int
    """Of the first batch that is damaged."""
    offset: int
    """Where the one before it ends."""
    is_alone: bool
    """It is the only one in the segment that is."""


class DamagedTailQuery:
    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    async def may_truncate_tail(self, replica: Replica, lost: DamagedTail) -> bool:
        """Whether no other store has it of those that might, as all of them say: then it was never acknowledged. Raises
        OSError."""
        if lost.offset < replica.high_watermark:
            return False
        here, own = self._copies.here, membership_of(replica)
        others: dict[SpuId, TailReport] = {}
        while missing := stores_that_may_hold(here, newest_membership(own, others)) - others.keys():
            for spu in sorted(missing):
                found = await self._look(spu, replica, lost)
                if found is None:
                    return False
                others[spu] = found
        return may_truncate_tail(here, own, others)

    async def _look(self, spu: SpuId, replica: Replica, lost: DamagedTail) -> TailReport | None:
        looked = await self._copies.look(spu, replica, lost.offset)
        if looked is None:
            return None
        answer, copy = looked
        may_hold_tail = answer.log_start > lost.offset or await _may_be(lost, copy)
        return TailReport(answer.membership, answer.in_doubt, may_hold_tail)


async def _may_be(lost: DamagedTail, copy: Buffer) -> bool:
    """Whether this may be what was there: that store has it in this place."""
    if not copy:
        return False
    try:
        entry = entry_of(read_header(copy))
    except KafkaError:
        return True
    if entry.kind is EntryKind.COMPACTED or entry.base > lost.offset:
        return True  # compaction has left that
    return entry.base == lost.offset and not (lost.is_alone and await _is_another(lost, copy))


async def _is_another(lost: DamagedTail, copy: Buffer) -> bool:
    """Than what was written here."""
    if lost.segment.is_closed:  # while others were asked: its file may be gone, and must not be made anew
        return False
    scrub = SegmentScrub(lost.segment)
    while not (scrub.is_at_end or scrub.is_outdated):
        damaged = scrub.step()
        if scrub.is_unreadable and scrub.position != lost.position:
            return False  # what is there tells nothing now
        if damaged is not None and not scrub.repair(damaged, copy):
            scrub.skip(damaged)
        await trio.lowlevel.checkpoint()
    return not (scrub.is_outdated or scrub.is_proven)
