"""Carries out a role's changes to a log in order; lowers the saved high watermark before it truncates."""

from collections.abc import Sequence
from functools import partial
from itertools import chain

from tailrace.broker.peers.peer_messages import ReceivedBatches
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import ReplicaLog
from tailrace.broker.replication.ready import (
    AdvanceLogStart,
    AppendEntries,
    Change,
    EndDoubt,
    ExpectStamped,
    Persist,
    Restamp,
    StorePromise,
    Sync,
    Truncate,
)
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.ids import Epoch
from tailrace.runtime.descriptors import retry_call_when_out_of_files, retry_when_out_of_files
from tailrace.storage.manifest.leader_epochs import EpochStart
from tailrace.storage.producers.producer_state import ProducerStates

from .leader_controller import LeaderController
from .role_context import RoleContext


class LogChanges:
    """Changes one replica's log. Raises OSError or KafkaError if the disk or the log does not allow it."""

    __slots__ = ("_context", "_entries", "_replica", "in_doubt")

    def __init__(self, replica: Replica, entries: ReplicaLog, context: RoleContext) -> None:
        self._replica = replica
        self._entries = entries
        self._context = context
        self.in_doubt = False
        """Whether the log may lack what it acknowledged and has not caught up since."""

    async def apply_as_follower(
        self, epoch: Epoch, effects: Sequence[Persist], received: ReceivedBatches | None
    ) -> None:
        """Carries out what a follower requests; `received` has the batches to append."""
        for effect in effects:
            if isinstance(effect, AppendEntries):
                assert received is not None
                # Others have these batches or wait for them, so the append is delayed and not refused.
                await retry_call_when_out_of_files(partial(self.append_received, effect, received))
            else:
                await self._change(effect, epoch)

    def append_received(self, effect: AppendEntries, received: ReceivedBatches) -> None:
        """Appends received batches, and skips those that the log already has."""
        log, first, last = self._replica.log, effect.entries[0], effect.entries[-1]
        if log.log_end > first.base:  # no more files could be opened for the rest
            first = next(entry for entry in effect.entries if entry.base >= log.log_end)
        chosen = received.between(first.base, last.base)
        log.append_batches(chosen.data, chosen.headers)
        self._entries.on_appended(effect.entries)
        self._context.on_appended(self._replica)

    async def apply_as_leader(self, leader: LeaderController, effects: Sequence[Persist]) -> None:
        """Carries out what a leader's recovery requests, with batches of this store or of others."""
        to_append = [effect.entries for effect in effects if isinstance(effect, AppendEntries)]
        leader.keep_own_batches(list(chain.from_iterable(to_append)))  # before they are truncated
        batches: list[bytearray] | None = None
        for effect in effects:
            if batches is None and to_append:
                # Fetch first: if the holders do not send the batches, the log is not changed any further.
                batches = await leader.batches_of(to_append.pop(0))
            if isinstance(effect, AppendEntries):
                assert batches is not None
                await self._append_made(batches)
                batches = None
            else:
                await self._change(effect, leader.epoch)

    async def _change(self, effect: Change, epoch: Epoch) -> None:
        log, replica = self._replica.log, self._replica
        match effect:
            case StorePromise(promised):
                await self._context.promises.promise(replica.key, promised, in_doubt=self.in_doubt)
            case EndDoubt():
                await retry_when_out_of_files(log.sync)
                await self._context.promises.end_doubt(replica.key)
                self.in_doubt = False
            case Sync():
                await retry_when_out_of_files(log.sync)
            case Truncate(end):
                self._context.logger_of(self._replica).info("log_truncated", to=end, log_end=log.log_end)
                if end < replica.high_watermark:
                    # This happens only after an unclean election. The checkpoint must not claim more than the log has.
                    replica.high_watermark = end
                    await retry_when_out_of_files(self._context.write_high_watermarks)
                await retry_when_out_of_files(lambda: log.truncate(end))
                self._entries.on_changed()
            case Restamp(base, end, stamp):
                await log.restamp(base, end, stamp)
                self._entries.on_changed()
            case ExpectStamped(end, epochs):
                await log.expect_stamped(end, epoch, [EpochStart(*each) for each in epochs])
            case AdvanceLogStart(offset, producers):
                await retry_when_out_of_files(lambda: self._advance_log_start(offset, producers))
                self._entries.on_changed()

    async def _advance_log_start(self, offset: int, producers: bytes) -> None:
        log = self._replica.log
        if offset > log.log_end:
            await log.truncate_fully(offset, ProducerStates.restore(producers))
        else:
            await log.advance_log_start(offset)

    async def _append_made(self, batches: Sequence[bytearray]) -> None:
        for batch in batches:
            await retry_call_when_out_of_files(partial(self._replica.log.append, batch, read_header(batch)))
        self._entries.on_changed()
        self._context.on_appended(self._replica)
