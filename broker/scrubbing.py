"""Reads what lies still, again and again, for bits that have flipped; restores them from other replicas.

One segment after the other, a bounded number of bytes a second, and a rest after each little piece: a pass may take
days, and nobody waits for it.
"""

import trio
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.protocol.ids import SpuId
from tailrace.storage.sealed_segment import SealedSegment
from tailrace.storage.segment_scrub import DamagedBatch, SegmentScrub

from .copies import Copies
from .metrics import BrokerMetrics
from .replicas import Replica, Replicas

LOOK_AGAIN_SECONDS = 10.0
"""So often the configs are looked at, while they say that there is nothing to be done; they may change."""


class _Found(Struct):
    damaged: int = 0
    lost: DamagedBatch | None = None
    """The first one that nobody has a copy of."""
    sources: set[SpuId] = field(default_factory=set)
    """Who had copies of the others."""


class Scrubbing:
    def __init__(
        self,
        replicas: Replicas,
        copies: Copies,
        configs: BrokerConfigs,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        self._replicas = replicas
        self._copies = copies
        self._configs = configs
        self._metrics = metrics
        self._logger = logger

    async def run(self) -> None:
        """Until cancelled. What has just started has more urgent things to do."""
        await trio.sleep(min(self._configs.settings.scrub_interval_ms / 1000, LOOK_AGAIN_SECONDS))
        while True:
            begun = trio.current_time()
            await self.scrub_all()
            await self._rest_until_next(begun)

    async def scrub_all(self) -> None:
        """One pass."""
        for replica in list(self._replicas):
            for segment in replica.log.segments_at_rest():
                if self._is_off or not replica.is_open or replica.offline_reason is not None:
                    break
                try:
                    await self._scrub(replica, segment)
                except OSError as error:
                    if replica.is_open and not segment.is_closed:
                        replica.go_offline(str(error))

    async def _scrub(self, replica: Replica, segment: SealedSegment) -> None:
        if segment.is_closed:
            return
        scrub = SegmentScrub(segment)
        found = await self._read(replica, scrub)
        self._metrics.damaged_batches += found.damaged
        can_guess = not (scrub.is_over or scrub.is_proven or found.lost is not None)
        if can_guess and (other := scrub.with_other_headers()) is not None:
            found_again = await self._read(replica, other)
            if other.is_proven:
                self._metrics.damaged_batches += len(other.mended) - len(scrub.mended)
                scrub, found = other, found_again
        if scrub.is_over or self._is_off:
            return
        if not scrub.is_proven:
            self._tell_damage(replica, scrub, found.lost)
        elif scrub.mended and await replica.log.mend(scrub):
            self._metrics.mended_batches += len(scrub.mended)
            self._log(replica).warning(
                "segment_mended",
                segment=segment.base,
                positions=sorted(scrub.mended),
                copied_from=sorted(found.sources),
            )

    async def _read(self, replica: Replica, scrub: SegmentScrub) -> "_Found":
        """To the end, unless there is no need any more."""
        found = _Found()
        while not (scrub.is_at_end or scrub.is_over or self._is_off):
            before = scrub.position
            damaged = scrub.step()
            await self._rest_after(scrub.position - before)
            if damaged is not None:
                found.damaged += 1
                source = await self._find_copy(replica, scrub, damaged)
                if source is None:
                    found.lost = found.lost or damaged
                else:
                    found.sources.add(source)
        return found

    async def _find_copy(self, replica: Replica, scrub: SegmentScrub, damaged: DamagedBatch) -> SpuId | None:
        """Who had one."""
        for spu in self._copies.holders(replica):
            if scrub.mend(damaged, await self._copies.fetch(spu, replica, damaged.offset)):
                return spu
        scrub.pass_over(damaged)
        return None

    def _tell_damage(self, replica: Replica, scrub: SegmentScrub, fault: DamagedBatch | None) -> None:
        log = self._log(replica).bind(segment=scrub.facts.base)
        if fault is not None:
            log.error("segment_damaged", offset=fault.offset, position=fault.position, reason=fault.reason)
        elif scrub.mended:
            log.error("segment_damaged", reason="the copies elsewhere are not what was written here")
        else:
            log.error("segment_damaged", reason="the headers of its batches are not those that were written")

    @property
    def _is_off(self) -> bool:
        return self._configs.settings.scrub_bytes_per_second == 0

    async def _rest_after(self, count: int) -> None:
        self._metrics.scrubbed_bytes += count
        if not self._is_off:
            await trio.sleep(count / self._configs.settings.scrub_bytes_per_second)

    async def _rest_until_next(self, begun: float) -> None:
        while True:
            seconds = begun + self._configs.settings.scrub_interval_ms / 1000 - trio.current_time()
            await trio.sleep(min(max(seconds, 0), LOOK_AGAIN_SECONDS))
            if seconds <= LOOK_AGAIN_SECONDS:
                return

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)
