"""Reads the shelves that are kept here once more, for bits that have flipped where nobody reads."""

from collections.abc import Awaitable, Callable, Sequence

from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_recovery import LogDamagedError
from tailrace.storage.segments.segment_scrub import SegmentScrub

from .shelf_copies import DamagedShelfError, ShelfCopies
from .shelf_duties import KeptShelf


class ShelfScrubbing:
    def __init__(self, copies: ShelfCopies, metrics: BrokerMetrics) -> None:
        self._copies = copies
        self._metrics = metrics

    async def scrub(self, rest_after: Callable[[int], Awaitable[None]], is_off: Callable[[], bool]) -> None:
        """All of them, with a rest after so many bytes."""
        for kept in list(self._copies.kept):
            try:
                await self._scrub(kept, rest_after, is_off)
            except DamagedShelfError:
                self._metrics.damaged_batches += 1
            except OSError as error:
                self._copies.log(kept.key).error("shelf_not_scrubbed", reason=str(error))

    async def _scrub(
        self, kept: KeptShelf, rest_after: Callable[[int], Awaitable[None]], is_off: Callable[[], bool]
    ) -> None:
        """What is closed meanwhile is left for the next time."""
        segments: Sequence[SealedSegment] = ()
        if not is_off() and self._copies.logs.has(kept.key):
            async with self._copies.to_read(kept) as log:
                segments = log.synced_segments()
        for segment in segments:
            scrub: SegmentScrub | None = None
            while not is_off() and (scrub is None or not scrub.is_at_end):
                async with self._copies.to_read(kept) as log:
                    if segment.is_closed:
                        break
                    scrub = scrub or SegmentScrub(segment)
                    before = scrub.position
                    damaged = scrub.step()
                    if damaged is not None:
                        raise LogDamagedError(f"{log.directory}: at offset {damaged.offset}: {damaged.reason}")
                    if scrub.is_at_end and not scrub.is_proven:
                        raise LogDamagedError(f"{log.directory}: the segment at offset {segment.base} is another one")
                self._metrics.scrubbed_bytes += scrub.position - before
                await rest_after(scrub.position - before)
