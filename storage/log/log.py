"""The log of one replica, which is all that the broker sees of it: append, read, sync, and everything else.

Appending and reading are synchronous and go to the page cache. Whatever must reach the disk is awaited, under one lock:
see `LogDisk`. Everything that changes a log other than at its end is in a module of its own: see `log_parts`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from tailrace.protocol.batches.control_batches import ControlKind, bridge_epoch, control_kind
from tailrace.protocol.batches.record_batch import CONTROL, LOG_OVERHEAD, TRANSACTIONAL, BatchHeader
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer, Files
from tailrace.storage.compaction.compaction import KEYS_MAX
from tailrace.storage.compaction.compaction_schedule import Filled
from tailrace.storage.compaction.log_compaction import CompactionOutcome
from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.compaction_history import Compacted
from tailrace.storage.manifest.leader_epochs import EpochStart, LeaderEpochs
from tailrace.storage.manifest.log_epochs import LogEpochs
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.manifest.manifest_file import ManifestFile
from tailrace.storage.producers.producer_snapshots import NOT_WRITTEN, ProducerSnapshots
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segments
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport
from tailrace.storage.segments.segment_scrub import OpenSegmentCheck, OpenSegmentPrefix, SegmentScrub
from tailrace.storage.transactions.aborted_transactions import AbortedTransaction
from tailrace.storage.transactions.log_transactions import LogTransactions

from . import compaction_steps, log_deletion, log_repair, log_stamping, log_truncation
from .log_disk import LogDisk
from .log_manifest import manifest_content
from .log_opening import LogOpening

OVERGROWTH_BYTES_MIN = 64 * 2**20
"""How far a segment may grow beyond its size before producers wait. Healthy followers lag less than this."""


class Log:
    """One log. The attributes that `LogParts` names belong to the modules of this package; others use the methods."""

    __slots__ = (
        "_doubtful_end",
        "compaction_history",
        "config",
        "directory",
        "disk",
        "files",
        "filled",
        "is_overgrown",
        "is_truncation_pending",
        "knows_producers",
        "log_end",
        "log_epochs",
        "log_start",
        "maker",
        "may_roll",
        "must_load_producers",
        "on_compacted",
        "producers",
        "recovery",
        "rewrites",
        "segment_list",
        "size_bytes",
        "snapshots",
        "transactions",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        may_lose: bool = True,
        rewrite_unsynced: bool = False,
        open_files: OpenFiles,
        directory_syncs: DirectorySyncs,
    ) -> None:
        """Opens the log in `directory`, or begins one.

        `clean`: the last process closed this log cleanly, so it need not be scanned.
        `may_lose`: damaged records may be truncated although they had been written, because no other store relies on
        this one having them.
        `rewrite_unsynced`: a sync may have failed before, so everything that is not known to be on the disk is written
        again. Otherwise the next sync could succeed without it.

        Raises OSError; LogDamagedError if records are damaged that were safely on the disk; WouldLoseRecordsError if
        written records would be truncated without `may_lose`. If producer states cannot be derived because a batch is
        damaged, the log opens, but can only be repaired until `load_producers` succeeds.
        """
        is_new = files.make_directories(directory)
        self.files = files
        self.directory = directory
        self.config = config
        self.may_roll: Callable[[int], bool] = _always
        """Returns whether another segment may follow the one with this base.

        The broker sets it. Replication waits until everything before the segment is committed, so that
        no more than two segments have uncommitted records.
        """
        self.on_compacted: Callable[[], None] | None = None
        """Called after batches of existing segments were removed or changed. The broker sets it."""
        self.is_overgrown = False
        self.recovery = RecoveryReport()
        """What the opening of the log found and did."""
        self.maker = SegmentMaker(open_files, directory, config, self.recovery)
        manifest_file = ManifestFile(files, directory)
        opened = LogOpening(
            self.maker,
            directory,
            manifest_file,
            is_new=is_new,
            clean=clean,
            may_lose=may_lose,
            rewrite_unsynced=rewrite_unsynced,
        )
        self.segment_list = Segments(opened.sealed, opened.open_segment)
        self.log_epochs = LogEpochs(opened.epochs, opened.manifest.stamped_end, opened.manifest.stamped_epoch)
        self.producers: ProducerStates = opened.producers
        """The states of idempotent producers, which the broker checks before it appends."""
        self.knows_producers: bool = opened.knows_producers
        self.must_load_producers = False
        self.snapshots = ProducerSnapshots(files, directory)
        self.transactions = LogTransactions(
            files,
            directory,
            self.segment_list,
            self.snapshots,
            self.producers,
            opened.completed,
            opened.closed_aborted,
            is_known=self.knows_producers,
        )
        """The open and the aborted transactions, for committed readers."""
        self.compaction_history: list[Compacted] = opened.manifest.compactions
        self.filled: Filled | None = None
        self.rewrites = 0
        self.is_truncation_pending = False
        self.log_start: int = opened.log_start
        """The offset of the first record."""
        self.log_end: int = opened.open_segment.end
        """The offset after the last record."""
        self._doubtful_end = self.log_end if opened.ends_behind_gap else None
        self.size_bytes: int = self.segment_list.size
        disk = self.disk = LogDisk(files, directory, self.segment_list, manifest_file, directory_syncs)
        disk.closed = opened.manifest.closed
        disk.is_changed = not self.recovery.was_clean
        disk.synced_end = self.log_end if self.recovery.was_clean else min(opened.flushed_end, self.log_end)
        disk.unsynced_bytes = 0 if self.recovery.was_clean else opened.open_segment.size

    # state

    @property
    def synced_end(self) -> int:
        """The offset up to which everything is on the disk."""
        return self.disk.synced_end

    @property
    def unsynced_bytes(self) -> int:
        """The size of what may not be on the disk."""
        return self.disk.unsynced_bytes

    @property
    def has_failed(self) -> bool:
        """Whether the log refuses everything. What it has in memory may then differ from what is on the disk."""
        return self.disk.failure is not None

    @property
    def may_have_lost(self) -> bool:
        """Whether something that was acknowledged may never reach the disk. A full disk alone does not cause that."""
        return self.disk.may_have_lost

    @property
    def is_end_sure(self) -> bool:
        """Whether the log end is certain.

        It is not if opening found a gap before the last batch: only that batch says at which offset it is, and no
        checksum covers its offset.
        """
        return self.log_end != self._doubtful_end

    def wants_sync(self) -> bool:
        """Returns whether a sync is due, by the flush policy or because a sealed segment is not on the disk."""
        disk, config, sealed = self.disk, self.config, self.segment_list.sealed
        return (
            self.log_end - disk.synced_end >= config.flush_messages
            or disk.unsynced_bytes >= config.flush_bytes
            or (bool(sealed) and not sealed[-1].is_synced)
        )

    def segments(self) -> Sequence[SegmentFacts]:
        """Returns the facts about all segments in order, the open one last. They contain nothing about indexes."""
        return self.segment_list.facts()

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs and the offsets at which they began."""
        return self.log_epochs.starts

    @property
    def stamped_end(self) -> int:
        """The offset below which recovery has stamped batches: there only `epochs` tells where epochs began."""
        return self.log_epochs.stamped_end

    @property
    def compactions(self) -> Sequence[Compacted]:
        """The past compactions: up to which offset, and when."""
        return self.compaction_history

    def use_config(self, config: LogConfig) -> None:
        """Changes the config from the next append on; the index interval from the next segment on."""
        self.config = self.maker.config = config

    # appending

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Appends one whole batch, which is stamped already. Raises OSError if it was not appended."""
        if self.disk.failure is not None:
            raise OSError(self.disk.failure)
        assert header.base_offset >= self.log_end
        segment = self.segment_list.open
        if not segment.has_room_for(header, self.config):
            segment = self._segment_for(header)
        headers = (header,)
        segment.append(batch, headers)
        self._on_appended(batch, headers)

    def append_together(self, data: Buffer, headers: Sequence[BatchHeader]) -> bool:
        """Appends consecutive whole batches with one write.

        Returns False, and appends none of them, if the open segment has no room for all. Raises OSError if none was
        appended.
        """
        if self.disk.failure is not None:
            raise OSError(self.disk.failure)
        assert headers[0].base_offset >= self.log_end
        segment = self.segment_list.open
        count, _ = segment.room_for(headers, len(data), self.config)
        if count < len(headers):
            return False
        segment.append(data, headers)
        self._on_appended(data, headers)
        return True

    def append_batches(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Appends consecutive whole batches, with one write per segment.

        Raises OSError. Those below `log_end` were appended then.
        """
        if self.disk.failure is not None:
            raise OSError(self.disk.failure)
        if len(headers) == 1:
            self.append(data, headers[0])
            return
        assert headers[0].base_offset >= self.log_end
        while headers:
            segment = self.segment_list.open
            count, size = segment.room_for(headers, len(data), self.config)
            if count == 0:
                if self._segment_for(headers[0]) is not segment:
                    continue
                count, size = 1, headers[0].size
            some, part, rest = headers, data, data
            if count < len(headers):
                view = memoryview(data)
                some, part, rest = headers[:count], view[:size], view[size:]
            segment.append(part, some)
            self._on_appended(part, some)
            headers, data = headers[count:], rest

    def _on_appended(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Accounts for batches that went into the open segment together, as `OpenSegment.room_for` allowed."""
        epochs, last, size = self.log_epochs, headers[-1], len(data)
        for header in headers if last.leader_epoch != epochs.latest else ():
            if header.leader_epoch != epochs.latest:
                epochs.on_new_epoch(header)
        if last.attributes & CONTROL and control_kind(last, data, size - last.size) is ControlKind.BRIDGE:
            epochs.on_bridge(bridge_epoch(data, size - last.size), last.base_offset)
            self.segment_list.open.ends_with_bridge = True
        position = counted = 0
        for place, header in enumerate(headers):
            if header.producer_id >= 0:
                if header.attributes & TRANSACTIONAL:
                    position += sum(each.size for each in headers[counted:place])
                    counted = place
                    self.transactions.on_appended(self.producers, header, data, position)
                elif header.base_sequence >= 0:
                    self.producers.on_appended(header)
        self.log_end = last.base_offset + last.last_offset_delta + 1
        self.size_bytes += size
        disk = self.disk
        disk.unsynced_bytes += size
        disk.is_changed = True
        if self.segment_list.open.size >= self.snapshots.keeps_at and self.knows_producers:
            self.snapshots.keep(self.segment_list.open, self.producers)

    def _segment_for(self, header: BatchHeader) -> OpenSegment:
        """Returns the segment for a batch for which the open segment has no room.

        That is a new segment, or the open one, which grows beyond its size while it may not roll.
        """
        segment = self.segment_list.open
        if self.may_roll(segment.base) or not segment.can_grow(header):
            return self.roll()
        size, size_max = segment.size + header.batch_length + LOG_OVERHEAD, self.config.segment_bytes_max
        self.is_overgrown = size > size_max + max(size_max, OVERGROWTH_BYTES_MIN)
        return segment

    @property
    def waits_to_roll(self) -> bool:
        """Whether the open segment has grown as far as it may and may not roll yet."""
        return self.is_overgrown and not self.may_roll(self.segment_list.open.base)

    def roll(self) -> OpenSegment:
        """Seals the open segment and begins another one."""
        self.is_overgrown = False
        segments = self.segment_list
        sealed = segments.open.seal(
            self.snapshots.write(segments.open.end, self.producers) if self.knows_producers else NOT_WRITTEN,
            self.transactions.write_open(),
        )
        segments.open = self.maker.new_segment(sealed.end)
        self.snapshots.on_new_segment()
        self.transactions.on_rolled(sealed.end)
        segments.sealed.append(sealed)
        return segments.open

    # reading

    def read(
        self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool, passes_empty: bool = False
    ) -> FileRange | None:
        """Returns whole batches of one segment, from the one that holds `offset` to the last that ends by `up_to`.

        They have at most `bytes_max` bytes, unless `at_least_one` is set and the first one is larger. Returns None if
        there are none. `passes_empty`: skip segments in which compaction has left no record, if there are others after
        them.
        """
        self.disk.check()
        return self.segment_list.read(
            offset, max(0, bytes_max), up_to, at_least_one=at_least_one, passes_empty=passes_empty
        )

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Yields the headers of the batches that end after `start` and begin before `end`.

        Each comes with its kind if it is a control batch that recovery wrote. For the newest batch this is as cheap as
        possible. The log must not change during the iteration.
        """
        self.disk.check()
        start = max(start, self.log_start)
        if start >= self.log_end:
            return iter(())  # an access would create the file if it does not exist yet
        return self.segment_list.headers(start, end)

    def read_batches(self, base: int, end: int) -> list[FileRange]:
        """Returns the batches from `base` to `end`, which are boundaries of batches: one range per segment."""
        self.disk.check()
        return self.segment_list.ranges(base, end)

    def aborted_in(self, found: FileRange, start: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions of a range that was read from the offsets in [start, end), sorted by their
        first offsets.

        Raises OSError and KafkaError.
        """
        self.disk.check()
        transactions = self.transactions
        if not transactions.may_have_aborted(start):
            return []
        return transactions.aborted(start, self.segment_list.end_of(found, start, end))

    def find_timestamp(self, timestamp_ms: int, up_to: int, start: int = 0) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first record in [start, up_to) at or after the time."""
        self.disk.check()
        return self.segment_list.find_timestamp(timestamp_ms, max(start, self.log_start), up_to)

    def max_timestamp(self, up_to: int, start: int = 0) -> tuple[int, int, int] | None:
        """Returns timestamp, offset and leader epoch of the first record in [start, up_to) with the largest
        timestamp."""
        self.disk.check()
        return self.segment_list.max_timestamp(max(start, self.log_start), up_to)

    def epoch_at(self, offset: int) -> int:
        """Returns the leader epoch of the record at the offset; at the log end that of the last record."""
        return self.epochs.at(offset)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Returns the largest leader epoch with records up to this one, and the offset where this epoch ended."""
        return self.epochs.end_of(epoch, self.log_end)

    # syncing and closing

    async def sync(self) -> None:
        """Returns once everything that was appended before the call is on the disk."""
        async with self.disk.lock:
            await self.disk.sync(self.log_epochs.with_epoch_starts)
            if self.disk.wants_new_manifest:
                await self.disk.replace_manifest_if_room(manifest_content(self))

    async def end_segment(self) -> None:
        """Seals and syncs everything that was appended, so that the next batch begins another segment."""
        async with self.disk.lock:
            self.disk.check()
            if not self.segment_list.open.is_empty:
                self.roll()
        await self.sync()

    async def close(self, *, clean: bool = True) -> None:
        """Makes the log refuse everything. After a clean close it opens without a scan."""
        disk = self.disk
        async with disk.lock:
            try:
                if clean and disk.failure is None and disk.is_changed and self.knows_producers:
                    if self.segment_list.open.ends_with_bridge:
                        # The facts about an open segment would not say that it ends with a bridge.
                        self.roll()
                    await disk.sync(self.log_epochs.with_epoch_starts)
                    await self._note_clean_close()
            finally:
                disk.close()
                self.segment_list.close()

    async def _note_clean_close(self) -> None:
        producers_checksum = self.snapshots.write(self.log_end, self.producers)
        aborted = self.transactions.write_open()
        facts = self.log_epochs.with_epoch_starts(self.segment_list.open.facts(producers_checksum, aborted))
        if self.disk.wants_new_manifest:
            await self.disk.rewrite_manifest(manifest_content(self, closed=facts))
        else:
            await self.disk.sync_note(self.disk.note([manifest.closed_line(facts)]))

    # stamping: see `log_stamping`

    async def restamp(self, base: int, end: int, epoch: int) -> None:
        """Stamps `epoch` on the batches that begin in [base, end). The caller appends nothing meanwhile."""
        await log_stamping.restamp(self, base, end, epoch)

    async def expect_stamped(self, end: int, epoch: int, starts: Iterable[EpochStart] = ()) -> None:
        """Announces that batches below `end` with this epoch or an earlier one were stamped by another log's recovery.

        Epochs begin there with their bridges, and where `starts` says.
        """
        await log_stamping.expect_stamped(self, end, epoch, starts)

    # deletion: see `log_deletion`

    async def advance_log_start(self, offset: int) -> None:
        """Deletes the records below the offset: for readers at once, and durably when this returns."""
        await log_deletion.advance_log_start(self, offset)

    async def apply_retention(self, now_ms: int, high_watermark: int) -> list[SegmentFacts]:
        """Removes the segments that have expired, and returns the facts about them."""
        return await log_deletion.apply_retention(self, now_ms, high_watermark)

    # truncation: see `log_truncation`

    async def truncate(self, to_offset: int) -> None:
        """Truncates the log to the offset, or to the base of the batch that holds it. The caller does not append."""
        await log_truncation.truncate(self, to_offset)

    async def truncate_before_damage(
        self, segment: SealedSegment | OpenSegmentPrefix, position: int, offset: int
    ) -> bool:
        """Truncates the log before a damaged batch at this position of the segment and this offset.

        Returns False, and changes nothing, if the remaining batches of the segment do not prove that they are intact.
        """
        return await log_truncation.truncate_before_damage(self, segment, position, offset)

    async def truncate_fully(self, new_start: int, producers: ProducerStates | None = None) -> None:
        """Removes everything. The log goes on at the offset `new_start`, wherever that is.

        `producers` are the states of producers at that offset; None if they are unknown.
        """
        await log_truncation.truncate_fully(self, new_start, producers or ProducerStates())

    # compaction: see `compaction_steps`

    async def compact(self, now_ms: int, high_watermark: int, *, keys_max: int = KEYS_MAX) -> CompactionOutcome | None:
        """Removes records that later records with the same key supersede; returns None if that is not due.

        Everything else goes on meanwhile, but only one call may run at a time. Raises CannotCompactError if nothing
        was lost and the log can be used as before.
        """
        return await compaction_steps.compact(self, now_ms, high_watermark, keys_max=keys_max)

    # repair: see `log_repair`

    def load_producers(self) -> None:
        """Loads the producer states if they are unknown.

        Raises ProducersUnknownError while a damaged batch prevents it.
        """
        log_repair.load_producers(self)

    def forget_producers(self) -> None:
        """Forgets the states of producers, before the open segment is sealed. A copy on a shelf accepts no producers.

        Raises OSError and KafkaError if the copy does not know its aborted transactions.
        """
        self.transactions.on_producers_forgotten()
        self.producers = ProducerStates()
        self.transactions.on_producers(self.producers, is_known=True)

    async def sync_foretold(self) -> None:
        """Brings to the disk what a copy knows of transactions with markers behind its end. Nothing else tells it."""
        async with self.disk.lock:
            self.disk.check()
            files = self.transactions.unsynced_files()
            for file in files:
                await self.disk.sync_file(file)
            if files:
                await self.disk.sync_note(self.disk.note([manifest.flushed_line(self.disk.synced_end)]))
                self.transactions.on_synced()

    def synced_segments(self) -> Sequence[SealedSegment]:
        """Returns the sealed segments that are on the disk."""
        return log_repair.synced_segments(self)

    def check_open_segment(self) -> OpenSegmentCheck | None:
        """Begins a check of the open segment; returns None while it is empty."""
        return log_repair.check_open_segment(self)

    def is_unchanged(self, check: OpenSegmentCheck) -> bool:
        """Returns whether the log has only been appended to since the check of its open segment began."""
        return log_repair.is_unchanged(self, check)

    async def damaged_open_segment(self, check: OpenSegmentCheck) -> SealedSegment | OpenSegmentPrefix | None:
        """Returns the open segment that the check found damaged, ready for repair; None if it has changed since."""
        return await log_repair.damaged_open_segment(self, check)

    async def damaged_segment(self, offset: int) -> SealedSegment | OpenSegmentPrefix | None:
        """Returns the first segment with corrupt batches soon after the offset, ready for repair; None without one."""
        return await log_repair.damaged_segment(self, offset)

    async def repair(self, scrub: SegmentScrub) -> bool:
        """Writes the repairs that the scrub has proven. Returns False if the segment has changed meanwhile."""
        return await log_repair.repair(self, scrub)


def _always(base: int) -> bool:
    return True
