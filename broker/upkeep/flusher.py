"""Carries out the flush policy: syncs appended records after so many records, bytes or milliseconds.

Each replica has one flush at a time, and a few replicas flush at once, off the event loop. A failed sync takes the
replica offline and is never retried: a second sync would report records as safe that the page cache has lost.
"""

import trio

from tailrace.broker.replicas.append_samples import AppendSamples
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.runtime.descriptors import is_out_of_files

FLUSHES_AT_ONCE = 4
FLUSH_AGAIN_SECONDS = 0.5
"""The pause before the next try if too many files were open."""
MILLISECONDS_FOREVER = 2**62
"""Kafka writes "never" as the largest 64-bit number. Any number from here on means "never"."""


class Flusher:
    """Flushes replicas as their topics' settings say."""

    def __init__(self, nursery: trio.Nursery, deadlines: Deadlines, metrics: BrokerMetrics) -> None:
        self._nursery = nursery
        self._deadlines = deadlines
        self._metrics = metrics
        self._limiter = trio.CapacityLimiter(FLUSHES_AT_ONCE)

    def on_appended(self, replica: Replica) -> None:
        """Applies the policy. Called once per turn for each replica that records were appended to."""
        if replica.wants_append_note:
            self._note_append(replica)
        if replica.log.wants_sync():
            self.flush(replica)

    def on_settings(self, replica: Replica) -> None:
        """Applies a changed policy to records that wait already."""
        if replica.unsynced_since is not None:
            self._begin_waiting(replica, replica.unsynced_since)
            self.on_appended(replica)

    def flush(self, replica: Replica) -> None:
        """Starts a flush, unless one is running."""
        if not replica.flush_running and replica.offline_reason is None:
            replica.flush_running = True
            self._nursery.start_soon(self._flush, replica)

    def _note_append(self, replica: Replica) -> None:
        """Takes note of the first append after a sync."""
        now = trio.current_time()
        replica.wants_append_note = False
        if replica.append_samples is None:
            replica.append_samples = AppendSamples()
        replica.append_samples.note(replica.log.log_end - 1, now)
        if replica.unsynced_since is None:
            self._begin_waiting(replica, now)

    def _begin_waiting(self, replica: Replica, since: float) -> None:
        replica.unsynced_since = since
        flush_ms = replica.settings.log.flush_ms
        if flush_ms < MILLISECONDS_FOREVER:
            self._deadlines.add(since + flush_ms / 1000, _FlushTimer(self, replica))

    async def _flush(self, replica: Replica) -> None:
        try:
            started = await self._sync(replica)
        except OSError as error:
            if replica.is_open:  # the logs of a topic that was deleted meanwhile are closed
                replica.go_offline(f"sync failed: {error}")
            return
        finally:
            replica.flush_running = False
        self._metrics.flushes += 1
        self._metrics.flush_seconds += trio.current_time() - started
        replica.unsynced_since = None
        replica.on_synced()
        if replica.replication is not None:
            replica.replication.on_synced()
        if replica.log.synced_end < replica.log.log_end:
            self._begin_waiting(replica, started)  # these records were appended while the sync ran
            self.on_appended(replica)
        replica.wants_append_note = True

    async def _sync(self, replica: Replica) -> float:
        """Syncs the log, and returns the Trio time at which the sync began."""
        while True:
            try:
                async with self._limiter:
                    started = trio.current_time()
                    await replica.log.sync()
                    return started
            except OSError as error:
                if not is_out_of_files(error):
                    raise
            await trio.sleep(FLUSH_AGAIN_SECONDS)


class _FlushTimer:
    """Flushes a replica when its oldest unsynced record has waited as long as the policy allows."""

    __slots__ = ("_flusher", "_replica", "_since")

    def __init__(self, flusher: Flusher, replica: Replica) -> None:
        self._flusher = flusher
        self._replica = replica
        self._since = replica.unsynced_since

    @property
    def done(self) -> bool:
        """Whether a flush was done meanwhile. Records that were appended since have a timer of their own."""
        return self._replica.unsynced_since is not self._since

    def on_deadline(self) -> None:
        self._flusher.flush(self._replica)
