"""Asks all other stores for the damaged tail of a local log, which may be truncated if none has it.

If another store has a batch at the same offset, it may be an intact copy of the damaged batch, or a different batch. To
find out, the query puts it into the local segment: if the segment then does not have its checksum, the batch is a
different one. This proves something only if nothing else in the segment is damaged.
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

from .batch_copies import BatchCopies
from .store_answers import membership_of


class DamagedTail(Struct, frozen=True):
    """A batch that could not be repaired, and everything after it in the log."""

    segment: SealedSegment | OpenSegmentPrefix
    position: int
    """The position of the first damaged batch in the file of the segment."""
    offset: int
    """The offset after the last intact batch."""
    is_only_damage: bool
    """Whether nothing else in the segment is damaged."""


class DamagedTailQuery:
    """Finds out whether a damaged tail was never acknowledged; the rule is in `replication.damaged_tail`."""

    def __init__(self, copies: BatchCopies) -> None:
        self._copies = copies

    async def may_truncate(self, replica: Replica, tail: DamagedTail) -> bool:
        """Whether all stores that might have the tail say that they do not, so that it was never acknowledged.

        Raises OSError.
        """
        if tail.offset < replica.high_watermark:
            return False
        own_id, own = self._copies.own_id, membership_of(replica)
        others: dict[SpuId, TailReport] = {}
        while missing := stores_that_may_hold(own_id, newest_membership(own, others)) - others.keys():
            for spu in sorted(missing):
                found = await self._ask(spu, replica, tail)
                if found is None:
                    return False
                others[spu] = found
        return may_truncate_tail(own_id, own, others)

    async def _ask(self, spu: SpuId, replica: Replica, tail: DamagedTail) -> TailReport | None:
        inspected = await self._copies.inspect(spu, replica, tail.offset)
        if inspected is None:
            return None
        answer, copy = inspected
        may_hold_tail = answer.log_start > tail.offset or await _may_match(tail, copy)
        return TailReport(answer.membership, answer.in_doubt, may_hold_tail)


async def _may_match(tail: DamagedTail, copy: Buffer) -> bool:
    """Whether the other store's batch may be an intact copy of the first damaged batch."""
    if not copy:
        return False
    try:
        entry = entry_of(read_header(copy))
    except KafkaError:
        return True
    if entry.kind is EntryKind.COMPACTED or entry.base > tail.offset:
        return True  # compaction may have removed the batch there
    return entry.base == tail.offset and not (tail.is_only_damage and await _is_different(tail, copy))


async def _is_different(tail: DamagedTail, copy: Buffer) -> bool:
    """Whether the copy is proven not to be the batch that was written to the local segment."""
    if tail.segment.is_closed:  # since the query began: reading would create its file again if it was deleted
        return False
    scrub = SegmentScrub(tail.segment)
    while not (scrub.is_at_end or scrub.is_outdated):
        damaged = scrub.step()
        if scrub.is_unreadable and scrub.position != tail.position:
            return False  # another part of the segment cannot be read, so nothing is proven
        if damaged is not None and not scrub.repair(damaged, copy):
            scrub.skip(damaged)
        await trio.lowlevel.checkpoint()
    return not (scrub.is_outdated or scrub.is_proven)
