"""Reads what lies still, again and again, for bits that have flipped; restores them from other replicas.

One segment after the other, a bounded number of bytes a second, and a rest after each little piece: a pass may take
days, and nobody waits for it. Only where a follower does not get what it is sent, somebody waits: there it is done at
once.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

import trio
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

from tailrace.broker.copies.batch_copies import BatchCopies
from tailrace.broker.copies.damaged_tail_query import DamagedTail, DamagedTailQuery
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.producers.producer_snapshots import ProducersUnknownError
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_scrub import DamagedBatch, OpenSegmentCheck, OpenSegmentPrefix, SegmentScrub

from .resting import LOOK_AGAIN_SECONDS, rest

DOUBTED_AGAIN_SECONDS = 60.0
"""So long a doubt about the same replica waits: what could not be mended takes as long to read the next time."""


Scrubbed = SealedSegment | OpenSegmentPrefix
LONE_END = "it is damaged at its end, which no other store has"

RestAfter = Callable[[int], Awaitable[None]]
Source = tuple[SpuId, bool]
"""Who is asked for copies, and whether only for what is known there to be committed."""


class _Found(Struct):
    damaged: int = 0
    lost: DamagedBatch | None = None
    """The first one that nobody has a copy of."""
    sources: set[SpuId] = field(default_factory=set)
    """Who had copies of the others."""


class Scrubbing:
    def __init__(
        self,
        replicas: ReplicaRegistry,
        copies: BatchCopies,
        configs: BrokerConfigs,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
        scrub_more: Callable[[RestAfter, Callable[[], bool]], Awaitable[None]] | None = None,
    ) -> None:
        """Each pass calls `scrub_more` after the replicas. It gets a function to rest with, and one that tells whether
        scrubbing was switched off."""
        self._replicas = replicas
        self._copies = copies
        self._damaged_tail_query = DamagedTailQuery(copies)
        self._configs = configs
        self._metrics = metrics
        self._logger = logger
        self._scrub_more = scrub_more
        self._doubts: dict[Replica, int] = {}
        """From which offset on."""
        self._has_doubts = trio.Event()
        self._doubted_at: dict[ReplicaKey, float] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_into_doubts)
            nursery.start_soon(self._pass_again_and_again)

    # doubts

    def on_suspected(self, replica: Replica, offset: int) -> None:
        """What its log holds from there on does not arrive elsewhere as what it was: it is looked at soon."""
        now = trio.current_time()
        self._doubted_at = {key: at for key, at in self._doubted_at.items() if now < at + DOUBTED_AGAIN_SECONDS}
        if replica.key not in self._doubted_at:
            self._doubted_at[replica.key] = now
            self._doubts[replica] = offset
            self._has_doubts.set()

    async def _look_into_doubts(self) -> None:
        while True:
            await self._has_doubts.wait()
            self._has_doubts = trio.Event()
            while self._doubts:
                replica, offset = self._doubts.popitem()
                await self._give_up_lone(replica, await self.mend(replica, offset))

    async def mend(self, replica: Replica, offset: int) -> DamagedTail | None:
        """What is damaged soon after the offset, as far as that is possible: the rest is returned."""
        return await self._mend(replica, partial(replica.log.damaged_segment, offset))

    async def mend_or_cut(self, replica: Replica, offset: int) -> bool:
        """The same, for one that takes part in nothing. Where it ends with what could not be mended, and no other store
        has that, it is cut off; whether it was."""
        lost = await self.mend(replica, offset)
        if lost is None or not await self._may_truncate_tail(replica, lost):
            return False
        log_end = replica.log.log_end
        try:
            was_cut = await replica.log.truncate_before_damage(lost.segment, lost.position, lost.offset)
        except OSError as error:
            self._on_failed(replica, lost.segment, error)
            return False
        except ProducersUnknownError:  # it was cut; and whoever opens it finds that it is damaged elsewhere as well
            was_cut = True
        except KafkaError:  # the index cannot be built again of what is damaged
            return False
        if was_cut:
            self._log(replica).warning("lone_end_cut", to=lost.offset, log_end=log_end)
        return was_cut

    async def _give_up_lone(self, replica: Replica, lost: DamagedTail | None) -> None:
        """Nobody can be sent what a leader has lost so: it is cut off once nobody waits for it any more."""
        if lost is None or not replica.is_leader or not await self._may_truncate_tail(replica, lost):
            return
        if self._can_scrub(replica):
            replica.go_offline(LONE_END, damaged_from=lost.offset)

    async def _may_truncate_tail(self, replica: Replica, lost: DamagedTail) -> bool:
        try:
            return await self._damaged_tail_query.may_truncate(replica, lost)
        except OSError as error:
            self._on_failed(replica, lost.segment, error)
            return False

    async def _mend(self, replica: Replica, find: Callable[[], Awaitable[Scrubbed | None]]) -> DamagedTail | None:
        segment: Scrubbed | None = None
        if not self._can_scrub(replica):
            return None
        try:
            segment = await find()
            return None if segment is None else await self._scrub(replica, segment, hurries=True)
        except OSError as error:
            self._on_failed(replica, segment, error)
            return None

    # passes

    async def _pass_again_and_again(self) -> None:
        """What has just started has more urgent things to do."""
        await trio.sleep(min(self._configs.settings.scrub_interval_ms / 1000, LOOK_AGAIN_SECONDS))
        while True:
            begun = trio.current_time()
            await self.scrub_all()
            await rest(lambda: self._configs.settings.scrub_interval_ms / 1000, begun)

    async def scrub_all(self) -> None:
        """One pass."""
        for replica in list(self._replicas):
            for segment in replica.log.synced_segments():
                if not self._can_scrub(replica):
                    break
                try:
                    lost = await self._scrub(replica, segment)
                except OSError as error:
                    self._on_failed(replica, segment, error)
                else:
                    await self._give_up_lone(replica, lost)
            await self._look_at_open_segment(replica)
        if self._scrub_more is not None:
            await self._scrub_more(self._rest_after, lambda: self._is_off)

    async def _look_at_open_segment(self, replica: Replica) -> None:
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
        await self._give_up_lone(replica, await self._mend(replica, partial(replica.log.damaged_open_segment, check)))

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
        is_over = segment is not None and segment.is_closed
        if replica.is_open and not is_over and not replica.is_out_of_descriptors(error):
            replica.go_offline(str(error))

    async def _scrub(self, replica: Replica, segment: Scrubbed, *, hurries: bool = False) -> DamagedTail | None:
        """What could not be mended."""
        if segment.is_closed:
            return None
        scrub = SegmentScrub(segment)
        holders = self._copies.holders(replica)
        sources: Sequence[Source] = [(spu, True) for spu in holders]
        found = await self._read(replica, scrub, sources, hurries=hurries)
        self._metrics.damaged_batches += found.damaged
        for first in holders if found.damaged else ():
            if scrub.is_outdated or scrub.is_proven or self._is_off:
                break
            # Nobody may know yet what is committed, as long as nobody leads: then each log is one to be tried.
            others = [(first, False), *((spu, False) for spu in holders if spu != first)]
            other = SegmentScrub(segment)
            found_there = await self._read(replica, other, others, hurries=hurries)
            if other.is_proven:
                self._metrics.damaged_batches += found_there.damaged - found.damaged
                scrub, found = other, found_there
        can_guess = not (scrub.is_outdated or scrub.is_proven or found.lost is not None)
        for other in scrub.with_other_headers() if can_guess else ():
            found_again = await self._read(replica, other, sources, hurries=hurries)
            if other.is_proven:
                self._metrics.damaged_batches += len(other.repairs) - len(scrub.repairs)
                scrub, found = other, found_again
                break
        if scrub.is_outdated or self._is_off:
            return None
        if not scrub.is_proven:
            self._tell_damage(replica, scrub, found.lost)
            return None if scrub.sound_end is None else DamagedTail(segment, *scrub.sound_end, found.damaged == 1)
        if (scrub.repairs or scrub.has_other_times) and await replica.log.repair(scrub):
            self._tell_mended(replica, scrub, found.sources)
        return None

    async def _read(
        self, replica: Replica, scrub: SegmentScrub, sources: Sequence[Source], *, hurries: bool
    ) -> "_Found":
        """To the end, unless there is no need any more."""
        found = _Found()
        while not (scrub.is_at_end or scrub.is_outdated or self._is_off):
            before = scrub.position
            damaged = scrub.step()
            self._metrics.scrubbed_bytes += scrub.position - before
            await self._rest_after(0 if hurries else scrub.position - before)
            if damaged is not None:
                found.damaged += 1
                source = await self._find_copy(replica, scrub, damaged, sources)
                if source is None:
                    found.lost = found.lost or damaged
                else:
                    found.sources.add(source)
        return found

    async def _find_copy(
        self, replica: Replica, scrub: SegmentScrub, damaged: DamagedBatch, sources: Sequence[Source]
    ) -> SpuId | None:
        """Who had one."""
        for spu, is_committed in sources:
            copy = await self._copies.fetch(spu, replica, damaged.offset, is_committed=is_committed)
            if scrub.repair(damaged, copy):
                return spu
        scrub.skip(damaged)
        return None

    def _tell_mended(self, replica: Replica, scrub: SegmentScrub, sources: Collection[SpuId]) -> None:
        log = self._log(replica).bind(segment=scrub.facts.base)
        if scrub.repairs:
            self._metrics.mended_batches += len(scrub.repairs)
            log.warning("segment_mended", positions=sorted(scrub.repairs), copied_from=sorted(sources))
        else:
            log.warning("segment_times_corrected", largest=scrub.times[1])

    def _tell_damage(self, replica: Replica, scrub: SegmentScrub, fault: DamagedBatch | None) -> None:
        log = self._log(replica).bind(segment=scrub.facts.base)
        if fault is not None:
            log.error("segment_damaged", offset=fault.offset, position=fault.position, reason=fault.reason)
        elif scrub.repairs:
            log.error("segment_damaged", reason="the copies elsewhere are not what was written here")
        else:
            log.error("segment_damaged", reason="the headers of its batches are not those that were written")

    @property
    def _is_off(self) -> bool:
        return self._configs.settings.scrub_bytes_per_second == 0

    async def _rest_after(self, count: int) -> None:
        await rest(lambda: 0 if self._is_off else count / self._configs.settings.scrub_bytes_per_second)

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)
