"""Scrubs this SPU's copies of shelves: reads them to find flipped bits.

This is the storing SPU's side. `shelf_repair` replaces the copies that are found damaged.
"""

from collections.abc import Awaitable, Callable, Sequence

from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_recovery import LogDamagedError
from tailrace.storage.segments.segment_scrub import SegmentScrub

from .shelf_copies import DamagedShelfError, ShelfCopies
from .shelf_duties import ShelfDuty


class ShelfScrubbing:
    """Scrubs all copies."""

    def __init__(self, copies: ShelfCopies, metrics: BrokerMetrics) -> None:
        self._copies = copies
        self._metrics = metrics

    async def scrub(self, rest_after: Callable[[int], Awaitable[None]], is_off: Callable[[], bool]) -> None:
        """Scrubs each copy once; `rest_after` pauses after so many bytes, and `is_off` says whether to stop."""
        for duty in list(self._copies.duties):
            try:
                await self._scrub(duty, rest_after, is_off)
            except DamagedShelfError:
                self._metrics.damaged_batches += 1
            except OSError as error:
                self._copies.logger_of(duty.key).error("shelf_not_scrubbed", reason=str(error))

    async def _scrub(
        self, duty: ShelfDuty, rest_after: Callable[[int], Awaitable[None]], is_off: Callable[[], bool]
    ) -> None:
        """Scrubs one copy. A segment that is closed meanwhile is left for the next pass."""
        segments: Sequence[SealedSegment] = ()
        if not is_off() and self._copies.logs.has(duty.key):
            async with self._copies.open_to_read(duty) as log:
                segments = log.synced_segments()
        for segment in segments:
            scrub: SegmentScrub | None = None
            while not is_off() and (scrub is None or not scrub.is_at_end):
                async with self._copies.open_to_read(duty) as log:
                    if segment.is_closed:
                        break
                    scrub = scrub or SegmentScrub(segment)
                    before = scrub.position
                    damaged = scrub.step()
                    if damaged is not None:
                        raise LogDamagedError(f"{log.directory}: at offset {damaged.offset}: {damaged.reason}")
                    if scrub.is_at_end and not scrub.is_proven:
                        raise LogDamagedError(
                            f"{log.directory}: the segment at offset {segment.base} does not match its checksum"
                        )
                self._metrics.scrubbed_bytes += scrub.position - before
                await rest_after(scrub.position - before)
