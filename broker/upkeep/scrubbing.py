"""Scrubs the segments of this SPU: reads them again and again for flipped bits, and repairs these from other replicas.

A pass reads one segment after the other, a bounded number of bytes per second, with a pause after each small piece, so
it may take days. Damage that keeps a follower from receiving records is repaired at once.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import trio
from msgspec import Struct, field

from tailrace.broker.copies.batch_copies import BatchCopies
from tailrace.broker.copies.damaged_tail_query import DamagedTail, DamagedTailQuery
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.producers.producer_snapshots import ProducersUnknownError
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_scrub import DamagedBatch, OpenSegmentCheck, OpenSegmentPrefix, SegmentScrub

from .resting import RECHECK_SECONDS, rest

SUSPECTED_AGAIN_SECONDS = 60.0
"""How long a new suspicion about the same replica is ignored: a repair that failed would read as much again."""

Scrubbed = SealedSegment | OpenSegmentPrefix
DAMAGED_TAIL = "the end of its log is corrupt, and no other store has it"

RestAfter = Callable[[int], Awaitable[None]]
Source = tuple[SpuId, bool]
"""An SPU to ask for copies, and whether to ask only for records below its high watermark."""


class _Found(Struct):
    """What a scrub of one segment has found."""

    damaged: int = 0
    """The number of damaged batches."""
    unrepaired: DamagedBatch | None = None
    """The first damaged batch that no replica has a copy of."""
    sources: set[SpuId] = field(default_factory=set)
    """The SPUs that had copies of the other damaged batches."""


class Scrubbing:
    """Scrubs all replicas, and repairs suspected ones at once."""

    def __init__(
        self,
        replicas: ReplicaRegistry,
        copies: BatchCopies,
        configs: BrokerConfigs,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
        scrub_more: Callable[[RestAfter, Callable[[], bool]], Awaitable[None]] | None = None,
    ) -> None:
        """Each pass calls `scrub_more` after the replicas, with a function that pauses, and one that says whether
        scrubbing is switched off.
        """
        self._replicas = replicas
        self._copies = copies
        self._damaged_tail_query = DamagedTailQuery(copies)
        self._configs = configs
        self._metrics = metrics
        self._logger = logger
        self._scrub_more = scrub_more
        self._suspected: dict[Replica, int] = {}
        """The replicas to repair at once, with the offset from which they may be damaged."""
        self._has_suspected = trio.Event()
        self._suspected_at: dict[ReplicaKey, float] = {}
        """The Trio time of the last suspicion about each replica."""

    async def run(self) -> None:
        """Scrubs and repairs until it is cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._repair_suspected)
            nursery.start_soon(self._scrub_periodically)

    # suspected replicas

    def on_suspected(self, replica: Replica, offset: int) -> None:
        """Notes that a follower cannot use the records from this offset on, so that the log is repaired at once."""
        now = trio.current_time()
        self._suspected_at = {key: at for key, at in self._suspected_at.items() if now < at + SUSPECTED_AGAIN_SECONDS}
        if replica.key not in self._suspected_at:
            self._suspected_at[replica.key] = now
            self._suspected[replica] = offset
            self._has_suspected.set()

    async def _repair_suspected(self) -> None:
        while True:
            await self._has_suspected.wait()
            self._has_suspected = trio.Event()
            while self._suspected:
                replica, offset = self._suspected.popitem()
                await self._give_up_damaged_tail(replica, await self.repair(replica, offset))

    async def repair(self, replica: Replica, offset: int) -> DamagedTail | None:
        """Repairs damage soon after the offset, as far as possible; returns the damaged tail that is left."""
        return await self._find_and_repair(replica, partial(replica.log.damaged_segment, offset))

    async def repair_or_truncate(self, replica: Replica, offset: int) -> bool:
        """Repairs a log that takes no part in replication, or truncates it; returns whether it was truncated.

        The log is truncated if it ends with a damaged tail that no other store has.
        """
        tail = await self.repair(replica, offset)
        if tail is None or not await self._may_truncate_tail(replica, tail):
            return False
        log_end = replica.log.log_end
        try:
            was_truncated = await replica.log.truncate_before_damage(tail.segment, tail.position, tail.offset)
        except OSError as error:
            self._on_failed(replica, tail.segment, error)
            return False
        except ProducersUnknownError:  # the log is truncated, and its next opening finds further damage
            was_truncated = True
        except KafkaError:  # the index cannot be rebuilt from the damaged segment
            return False
        if was_truncated:
            self._log(replica).warning("damaged_tail_truncated", to=tail.offset, log_end=log_end)
        return was_truncated

    async def _give_up_damaged_tail(self, replica: Replica, tail: DamagedTail | None) -> None:
        """Takes a leader offline whose damaged tail no other store has, because it cannot replicate the tail.

        `UnreadableLogs` then truncates the log.
        """
        if tail is None or not replica.is_leader or not await self._may_truncate_tail(replica, tail):
            return
        if self._can_scrub(replica):
            replica.go_offline(DAMAGED_TAIL, damaged_from=tail.offset)

    async def _may_truncate_tail(self, replica: Replica, tail: DamagedTail) -> bool:
        try:
            return await self._damaged_tail_query.may_truncate(replica, tail)
        except OSError as error:
            self._on_failed(replica, tail.segment, error)
            return False

    async def _find_and_repair(
        self, replica: Replica, find: Callable[[], Awaitable[Scrubbed | None]]
    ) -> DamagedTail | None:
        segment: Scrubbed | None = None
        if not self._can_scrub(replica):
            return None
        try:
            segment = await find()
            return None if segment is None else await self._scrub(replica, segment, is_urgent=True)
        except OSError as error:
            self._on_failed(replica, segment, error)
            return None

    # passes

    async def _scrub_periodically(self) -> None:
        # A process that has just started has more urgent work.
        await trio.sleep(min(self._configs.settings.scrub_interval_ms / 1000, RECHECK_SECONDS))
        while True:
            begun = trio.current_time()
            await self.scrub_all()
            await rest(lambda: self._configs.settings.scrub_interval_ms / 1000, begun)

    async def scrub_all(self) -> None:
        """Runs one pass over all replicas."""
        for replica in list(self._replicas):
            for segment in replica.log.synced_segments():
                if not self._can_scrub(replica):
                    break
                try:
                    tail = await self._scrub(replica, segment)
                except OSError as error:
                    self._on_failed(replica, segment, error)
                else:
                    await self._give_up_damaged_tail(replica, tail)
            await self._scrub_open_segment(replica)
        if self._scrub_more is not None:
            await self._scrub_more(self._rest_after, lambda: self._is_off)

    async def _scrub_open_segment(self, replica: Replica) -> None:
        check: OpenSegmentCheck | None = None
        if not self._can_scrub(replica):
            return
        try:
            check = replica.log.check_open_segment()
            if check is None or not await self._finds_damage(replica, check):
                return
        except OSError as error:
            if check is None or replica.log.is_unchanged(check):
                self._on_failed(replica, None, error)
            return
        await self._give_up_damaged_tail(
            replica, await self._find_and_repair(replica, partial(replica.log.damaged_open_segment, check))
        )

    async def _finds_damage(self, replica: Replica, check: OpenSegmentCheck) -> bool:
        while not (check.is_at_end or self._is_off) and replica.log.is_unchanged(check):
            before = check.position
            if not check.step():
                return True
            self._metrics.scrubbed_bytes += check.position - before
            await self._rest_after(check.position - before)
        return False

    # one segment

    def _can_scrub(self, replica: Replica) -> bool:
        return not self._is_off and replica.is_open and replica.offline_reason is None

    def _on_failed(self, replica: Replica, segment: Scrubbed | None, error: OSError) -> None:
        is_closed = segment is not None and segment.is_closed
        if replica.is_open and not is_closed and not replica.is_out_of_descriptors(error):
            replica.go_offline(str(error))

    async def _scrub(self, replica: Replica, segment: Scrubbed, *, is_urgent: bool = False) -> DamagedTail | None:
        """Scrubs a segment, and repairs it if possible; returns the damaged tail that is left, if there is one."""
        if segment.is_closed:
            return None
        scrub = SegmentScrub(segment)
        holders = self._copies.holders(replica)
        sources: Sequence[Source] = [(spu, True) for spu in holders]
        found = await self._read(replica, scrub, sources, is_urgent=is_urgent)
        self._metrics.damaged_batches += found.damaged
        for first in holders if found.damaged else ():
            if scrub.is_outdated or scrub.is_proven or self._is_off:
                break
            # Without a leader, the high watermarks may not show what is committed. So uncommitted copies are tried too,
            # and the checksum of the segment decides. Each attempt prefers another holder.
            others = [(first, False), *((spu, False) for spu in holders if spu != first)]
            other = SegmentScrub(segment)
            found_there = await self._read(replica, other, others, is_urgent=is_urgent)
            if other.is_proven:
                self._metrics.damaged_batches += found_there.damaged - found.damaged
                scrub, found = other, found_there
        can_guess = not (scrub.is_outdated or scrub.is_proven or found.unrepaired is not None)
        for other in scrub.with_other_headers() if can_guess else ():
            found_again = await self._read(replica, other, sources, is_urgent=is_urgent)
            if other.is_proven:
                self._metrics.damaged_batches += len(other.repairs) - len(scrub.repairs)
                scrub, found = other, found_again
                break
        if scrub.is_outdated or self._is_off:
            return None
        if not scrub.is_proven:
            self._log_damage(replica, scrub, found.unrepaired)
            return None if scrub.sound_end is None else DamagedTail(segment, *scrub.sound_end, found.damaged == 1)
        if (scrub.repairs or scrub.has_other_times) and await replica.log.repair(scrub):
            self._log_repair(replica, scrub, found.sources)
        return None

    async def _read(
        self, replica: Replica, scrub: SegmentScrub, sources: Sequence[Source], *, is_urgent: bool
    ) -> "_Found":
        """Reads a segment to its end, and finds copies of damaged batches. Stops early if the segment is outdated."""
        found = _Found()
        while not (scrub.is_at_end or scrub.is_outdated or self._is_off):
            before = scrub.position
            damaged = scrub.step()
            self._metrics.scrubbed_bytes += scrub.position - before
            await self._rest_after(0 if is_urgent else scrub.position - before)
            if damaged is not None:
                found.damaged += 1
                source = await self._find_copy(replica, scrub, damaged, sources)
                if source is None:
                    found.unrepaired = found.unrepaired or damaged
                else:
                    found.sources.add(source)
        return found

    async def _find_copy(
        self, replica: Replica, scrub: SegmentScrub, damaged: DamagedBatch, sources: Sequence[Source]
    ) -> SpuId | None:
        """Puts another replica's copy in the place of a damaged batch; returns the SPU that had one."""
        for spu, is_committed in sources:
            copy = await self._copies.fetch(spu, replica, damaged.offset, is_committed=is_committed)
            if scrub.repair(damaged, copy):
                return spu
        scrub.skip(damaged)
        return None

    def _log_repair(self, replica: Replica, scrub: SegmentScrub, sources: Collection[SpuId]) -> None:
        log = self._log(replica).bind(segment=scrub.facts.base)
        if scrub.repairs:
            self._metrics.mended_batches += len(scrub.repairs)
            log.warning("segment_repaired", positions=sorted(scrub.repairs), copied_from=sorted(sources))
        else:
            log.warning("segment_times_corrected", largest=scrub.times[1])

    def _log_damage(self, replica: Replica, scrub: SegmentScrub, fault: DamagedBatch | None) -> None:
        log = self._log(replica).bind(segment=scrub.facts.base)
        if fault is not None:
            log.error("segment_damaged", offset=fault.offset, position=fault.position, reason=fault.reason)
        elif scrub.repairs:
            log.error("segment_damaged", reason="the copies on other SPUs differ from what was written to this segment")
        else:
            log.error("segment_damaged", reason="an offset or an epoch in the headers of its batches is damaged")

    @property
    def _is_off(self) -> bool:
        return self._configs.settings.scrub_bytes_per_second == 0

    async def _rest_after(self, count: int) -> None:
        await rest(lambda: 0 if self._is_off else count / self._configs.settings.scrub_bytes_per_second)

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)
