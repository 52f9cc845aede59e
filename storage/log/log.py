"""The log of one replica: its segments in order, where it starts, where it ends, and how far it is on the disk.

Appending and reading are synchronous and go to the page cache. Whatever must reach the disk is awaited, under one lock:
see `LogDisk`. What changes the log otherwise than at its end holds the lock as well.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise, takewhile
from typing import TypeVar

import trio
from msgspec.structs import replace

from tailrace.protocol.batches.control_batches import ControlKind, bridge_epoch, control_kind
from tailrace.protocol.batches.record_batch import CONTROL, LOG_OVERHEAD, BatchHeader
from tailrace.runtime.descriptors import done_once_files_can_be_opened, once_files_can_be_opened
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer, Files
from tailrace.storage.compaction.compaction import KEYS_MAX
from tailrace.storage.compaction.compaction_schedule import Filled, compactable_end, filled_since, is_due, must_roll
from tailrace.storage.compaction.log_compaction import CannotCompactError, CompactionOutcome, LogCompaction, NewSegment
from tailrace.storage.directory.directory_syncs import DirectorySyncs
from tailrace.storage.directory.layout import Kind
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.compaction_history import (
    Compacted,
    add_compaction,
    compacted_up_to,
    truncate_history,
)
from tailrace.storage.manifest.leader_epochs import EpochStart, LeaderEpochs
from tailrace.storage.manifest.log_epochs import LogEpochs
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts
from tailrace.storage.manifest.manifest_file import ManifestFile
from tailrace.storage.producers.producer_snapshots import NOT_WRITTEN, ProducerSnapshots
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segment, Segments, by_end
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport
from tailrace.storage.segments.segment_scrub import (
    OpenSegmentCheck,
    OpenSegmentPrefix,
    SegmentScrub,
    first_corrupt_segment,
)
from tailrace.storage.segments.segment_truncation import (
    PreparedTruncation,
    prepare_truncation,
    prepare_truncation_before_damage,
)

from .log_disk import LogDisk, is_disk_full
from .log_opening import LogOpening
from .retention import segments_to_remove

T = TypeVar("T")

OVERGROWTH_BYTES_MIN = 64 * 2**20
"""More than healthy followers are behind: small segments must not make producers wait."""


class Log:
    __slots__ = (
        "_compactions",
        "_disk",
        "_doubtful_end",
        "_epochs",
        "_files",
        "_filled",
        "_is_cut_pending",
        "_knows_producers",
        "_lock",
        "_maker",
        "_must_find_producers",
        "_rewrites",
        "_segments",
        "_snapshots",
        "config",
        "directory",
        "is_overgrown",
        "log_end",
        "log_start",
        "may_roll",
        "on_compacted",
        "producers",
        "recovery",
        "size_bytes",
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
        self._files = files
        self.directory = directory
        manifest_file = ManifestFile(files, directory)
        self.config = config
        self.may_roll: Callable[[int], bool] = _always
        """Whether another segment may follow the one with this base: whoever replicates the log waits until all before
        it is committed, so that no more than two are not."""
        self.on_compacted: Callable[[], None] | None = None
        """Is told when batches have gone from segments, or are others than before."""
        self.is_overgrown = False
        """The open segment had to wait for that, and has grown too far."""
        self.recovery = RecoveryReport()
        self._maker = SegmentMaker(open_files, directory, config, self.recovery)
        opened = LogOpening(
            self._maker,
            directory,
            manifest_file,
            is_new=is_new,
            clean=clean,
            may_lose=may_lose,
            rewrite_unsynced=rewrite_unsynced,
        )
        self._segments = Segments(opened.sealed, opened.open_segment)
        self._epochs = LogEpochs(opened.epochs, opened.manifest.stamped_end, opened.manifest.stamped_epoch)
        self.producers = opened.producers
        """What is known of idempotent producers; the broker asks before it appends."""
        self._knows_producers = opened.knows_producers
        """If not, `producers` are not those of this log, and nothing is written of them."""
        self._snapshots = ProducerSnapshots(files, directory)
        self._compactions = opened.manifest.compactions
        self._filled: Filled | None = None
        """Of the open segment that was looked at last."""
        self._rewrites = 0
        """How often the log was cut, or stamped: what was read of it before may be there no more."""
        self._is_cut_pending = False
        """It has been cut in memory and in the page cache, and that may not be on the disk yet."""
        self._must_find_producers = False
        """The same cut has taken what was known of them: the batches that are left tell of them."""
        self.log_start = opened.log_start
        self.log_end = opened.open_segment.end
        """Exclusive: the offset that comes next."""
        self._doubtful_end = self.log_end if opened.ends_behind_gap else None
        self.size_bytes = self._segments.size
        disk = self._disk = LogDisk(files, directory, self._segments, manifest_file, directory_syncs)
        self._lock = disk.lock
        disk.closed = opened.manifest.closed
        disk.is_changed = not self.recovery.was_clean
        disk.synced_end = self.log_end if self.recovery.was_clean else min(opened.flushed_end, self.log_end)
        disk.unsynced_bytes = 0 if self.recovery.was_clean else opened.open_segment.size

    # what is

    @property
    def synced_end(self) -> int:
        """Everything below is on the disk."""
        return self._disk.synced_end

    @property
    def unsynced_bytes(self) -> int:
        return self._disk.unsynced_bytes

    @property
    def has_failed(self) -> bool:
        """It refuses everything, and what it has in memory need not be what lies on the disk."""
        return self._disk.failure is not None

    @property
    def may_have_lost(self) -> bool:
        """It refuses everything, and not for want of room alone: what it acknowledged may never reach the disk."""
        return self._disk.may_have_lost

    @property
    def is_end_sure(self) -> bool:
        """Not if the log was found with its last batch behind a gap: nothing but that batch says at which offset it is,
        and no checksum covers that."""
        return self.log_end != self._doubtful_end

    def wants_sync(self) -> bool:
        """By the flush policy; or because what is over, a sealed segment, is not on the disk: it should not wait."""
        disk, config, sealed = self._disk, self.config, self._segments.sealed
        return (
            self.log_end - disk.synced_end >= config.flush_messages
            or disk.unsynced_bytes >= config.flush_bytes
            or (bool(sealed) and not sealed[-1].is_synced)
        )

    def segments(self) -> Sequence[SegmentFacts]:
        """All segments in order, the open one last; of its indexes nothing is said."""
        return self._segments.facts()

    @property
    def epochs(self) -> LeaderEpochs:
        return self._epochs.starts

    @property
    def stamped_end(self) -> int:
        """Before it the batches do not say where epochs begin, but `epochs`: recovery has stamped them."""
        return self._epochs.stamped_end

    def use_config(self, config: LogConfig) -> None:
        """Takes effect with the next append; the index interval with the next segment."""
        self.config = self._maker.config = config

    # appending

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """One whole batch, already stamped, at the log end. OSError: nothing was appended."""
        if self._disk.failure is not None:
            raise OSError(self._disk.failure)
        assert header.base_offset >= self.log_end
        segment = self._segments.open
        if not segment.has_room_for(header, self.config):
            segment = self._segment_for(header)
        headers = (header,)
        segment.append(batch, headers)
        self._on_appended(batch, headers)

    def append_together(self, data: Buffer, headers: Sequence[BatchHeader]) -> bool:
        """Consecutive whole batches with one write, or none of them: False where the open segment has no room for all.
        OSError: nothing was appended."""
        if self._disk.failure is not None:
            raise OSError(self._disk.failure)
        assert headers[0].base_offset >= self.log_end
        segment = self._segments.open
        count, _ = segment.room_for(headers, len(data), self.config)
        if count < len(headers):
            return False
        segment.append(data, headers)
        self._on_appended(data, headers)
        return True

    def append_batches(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Consecutive whole batches, with as few writes as segments. OSError: those before `log_end` were appended."""
        if self._disk.failure is not None:
            raise OSError(self._disk.failure)
        if len(headers) == 1:
            self.append(data, headers[0])
            return
        assert headers[0].base_offset >= self.log_end
        while headers:
            segment = self._segments.open
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
        """What has gone into the open segment together: see `OpenSegment.room_for`."""
        epochs, last, size = self._epochs, headers[-1], len(data)
        for header in headers if last.leader_epoch != epochs.latest else ():
            if header.leader_epoch != epochs.latest:
                epochs.on_new_epoch(header)
        if last.attributes & CONTROL and control_kind(last, data, size - last.size) is ControlKind.BRIDGE:
            epochs.on_bridge(bridge_epoch(data, size - last.size), last.base_offset)
            self._segments.open.ends_with_bridge = True
        for header in headers:
            if header.producer_id >= 0 and header.base_sequence >= 0:
                self.producers.on_appended(header)
        self.log_end = last.base_offset + last.last_offset_delta + 1
        self.size_bytes += size
        disk = self._disk
        disk.unsynced_bytes += size
        disk.is_changed = True

    def _segment_for(self, header: BatchHeader) -> OpenSegment:
        """Where a batch goes for which the open segment has no room: into another, or it grows a little meanwhile."""
        segment = self._segments.open
        if self.may_roll(segment.base) or not segment.can_grow(header):
            return self._roll()
        size, size_max = segment.size + header.batch_length + LOG_OVERHEAD, self.config.segment_bytes_max
        self.is_overgrown = size > size_max + max(size_max, OVERGROWTH_BYTES_MIN)
        return segment

    @property
    def waits_to_roll(self) -> bool:
        """The open segment has grown as far as it may, and no other may follow it yet: nothing should be appended."""
        return self.is_overgrown and not self.may_roll(self._segments.open.base)

    def _roll(self) -> OpenSegment:
        self.is_overgrown = False
        segments = self._segments
        sealed = segments.open.seal(
            self._snapshots.write(segments.open.end, self.producers) if self._knows_producers else NOT_WRITTEN
        )
        segments.open = self._maker.new_segment(sealed.end)
        segments.sealed.append(sealed)
        return segments.open

    # reading

    def read(
        self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool, passes_empty: bool = False
    ) -> FileRange | None:
        """Whole batches of one segment, from the one that holds the offset on, none that reaches past `up_to`.

        No more than `bytes_max`, unless `at_least_one` is asked for and the first is larger. None when there are none.
        `passes_empty`: compaction may have left segments without a record; they are passed over if more comes after.
        """
        self._disk.check()
        return self._segments.read(
            offset, max(0, bytes_max), up_to, at_least_one=at_least_one, passes_empty=passes_empty
        )

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Of the batches that reach beyond `start` and begin before `end`, in order, and what recovery wrote of them.

        For the newest batch this is as cheap as can be. The log must not change while one iterates.
        """
        self._disk.check()
        start = max(start, self.log_start)
        if start >= self.log_end:
            return iter(())  # without a look at a file, which looking makes where there is none yet
        return self._segments.headers(start, end)

    def read_batches(self, base: int, end: int) -> list[FileRange]:
        """The bytes of the batches between these two offsets, at which one begins and one ends: a range a segment."""
        self._disk.check()
        return self._segments.ranges(base, end)

    def find_timestamp(self, timestamp_ms: int, up_to: int, start: int = 0) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record from `start` on, below `up_to`, that is not older."""
        self._disk.check()
        return self._segments.find_timestamp(timestamp_ms, max(start, self.log_start), up_to)

    def max_timestamp(self, up_to: int, start: int = 0) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first of the newest records from `start` on, below `up_to`."""
        self._disk.check()
        return self._segments.max_timestamp(max(start, self.log_start), up_to)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at the offset; at the log end that of the last one."""
        return self.epochs.at(offset)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch with records up to this one, and where it ended (exclusive)."""
        return self.epochs.end_of(epoch, self.log_end)

    # reaching the disk

    async def sync(self) -> None:
        """Returns once everything that was appended before the call is on the disk."""
        async with self._lock:
            await self._disk.sync(self._epochs.with_epoch_starts)
            if self._disk.wants_new_manifest:
                await self._disk.replace_manifest_if_room(self._manifest_content())

    async def end_segment(self) -> None:
        """What is there is on the disk then, in sealed segments: what comes next goes into another one."""
        async with self._lock:
            self._disk.check()
            if not self._segments.open.is_empty:
                self._roll()
        await self.sync()

    async def close(self, *, clean: bool = True) -> None:
        """Afterwards the log refuses everything. After a clean close it opens without a scan."""
        disk = self._disk
        async with self._lock:
            try:
                if clean and disk.failure is None and disk.is_changed and self._knows_producers:
                    if self._segments.open.ends_with_bridge:
                        # As an open one it would not be known to end with a bridge.
                        self._roll()
                    await disk.sync(self._epochs.with_epoch_starts)
                    await self._note_clean_close()
            finally:
                disk.close()
                self._segments.close()

    async def _note_clean_close(self) -> None:
        producers_checksum = self._snapshots.write(self.log_end, self.producers)
        facts = self._epochs.with_epoch_starts(self._segments.open.facts(producers_checksum))
        if self._disk.wants_new_manifest:
            await self._disk.rewrite_manifest(self._manifest_content(closed=facts))
        else:
            await self._disk.sync_note(self._disk.note([manifest.closed_line(facts)]))

    def _manifest_content(self, closed: SegmentFacts | None = None) -> Manifest:
        return Manifest(
            log_start=self.log_start,
            epochs=list(self.epochs),
            sealed={segment.base: segment.facts for segment in self._segments.sealed if segment.is_synced},
            closed=closed,
            stamped_end=self._epochs.stamped_end,
            stamped_epoch=self._epochs.stamped_epoch,
            flushed_end=self._disk.synced_end,
            compactions=self._compactions,
        )

    # being stamped

    async def restamp(self, base: int, end: int, epoch: int) -> None:
        """The batches that begin in [base, end) get this leader epoch, in place. Nobody appends meanwhile.

        The content stays what it was, and for clients the epochs begin where they did: see `LeaderEpochs`.
        """
        async with self._lock:
            self._disk.check()
            if base >= end or base >= self.log_end:
                return
            touched = self._segments.between(base, end)
            self._rewrites += 1
            self._epochs.on_stamped(min(end, self.log_end), epoch)
            await self._disown(touched, base)
            self._disk.is_changed = True
            try:
                with trio.CancelScope(shield=True):
                    for segment in touched:
                        stamping = partial(segment.restamp, base, end, epoch)
                        self._disk.unsynced_bytes += 4 * await once_files_can_be_opened(stamping)
            except OSError as error:
                self._disk.fail(f"{self.directory}: epochs could not be stamped", error)
                raise

    async def expect_stamped(self, end: int, epoch: int, starts: Iterable[EpochStart] = ()) -> None:
        """What is appended before the offset, with this epoch or an earlier one, was stamped by another log's recovery:
        epochs begin there with their bridges, and where it is said here."""
        async with self._lock:
            self._disk.check()
            if end > self.log_end:
                self._epochs.expect_stamped(self.log_end, end, epoch, starts)
                await self._note_epochs()

    async def _note_epochs(self) -> None:
        """On the disk before the batches are: after a power failure they alone would say that epochs ended early."""
        note = await done_once_files_can_be_opened(lambda: self._disk.note(self._epochs.lines()))
        await self._disk.sync_note(note)

    async def _disown(self, segments: Sequence[Segment], base: int) -> None:
        """Before a byte changes the manifest stops to speak of these segments, and of those that follow them; and it
        says which epochs there are, which the batches will not tell any more."""
        names_closed = self._disk.closed is not None and base < self._disk.closed.end
        followers = [segment for segment in self._segments.sealed if segment.base >= segments[0].base]
        was_named = any(segment.is_synced for segment in followers)
        for segment in followers:
            segment.is_synced = False
        if was_named or names_closed:
            await self._disk.replace_manifest(self._manifest_content())
        else:
            await self._note_epochs()

    # growing shorter

    async def advance_log_start(self, offset: int) -> None:
        """The records below are deleted, for readers at once, and for good when the call returns.

        Their bytes go with whole segments; where no record is left, with all of them.
        """
        assert offset <= self.log_end
        async with self._lock:
            self._disk.check()
            await self._end_pending_cut()
            if offset > self.log_start:
                if self._disk.synced_end < offset < self.log_end:
                    # A log that a power failure leaves empty must not start in the midst of a batch that others have.
                    await self._disk.sync(self._epochs.with_epoch_starts)
                await self._advance_log_start(offset)

    async def _advance_log_start(self, offset: int) -> list[SegmentFacts]:
        """Says first that records are gone, then removes them: so a crash between leaves nothing unexplained."""
        segments = self._segments
        going: list[Segment] = [*segments.sealed[: bisect_right(segments.sealed, offset, key=by_end)]]
        if offset == self.log_end and not segments.open.is_empty:
            going.append(segments.open)
            _with_room_of(going, self._roll)
        count = len(going)
        if count:
            await self._sync_snapshot_behind(count - 1)
        epochs = LeaderEpochs(self.epochs)
        epochs.advance_start(offset)
        start, flushed = manifest.start_line(offset), manifest.flushed_line(self._disk.synced_end)
        # The segment that told of the first epoch may be among those that go. Nothing but this tells where the log
        # begins: it is there twice, for one bit that flips damages a line, or two that are neighbours.
        lines = [start, flushed, *map(manifest.epoch_line, list(epochs)[:1]), start]
        file = _with_room_of(going, lambda: self._disk.note(lines))
        self.log_start, self._epochs.starts = offset, epochs
        self._disk.is_changed = True
        await self._disk.sync_note(file)
        gone, self._segments.sealed[:count] = self._segments.sealed[:count], []
        for segment in gone:
            await self._remove(segment)
        if gone:
            self._disk.forget_entry()
        return [segment.facts for segment in gone]

    async def _sync_snapshot_behind(self, index: int) -> None:
        """Nothing else will tell of the producers in the segments up to that one, when they go."""
        for segment in self._segments.sealed[index:]:
            if (snapshot := self._snapshots.find(segment.end)) is not None:
                await self._disk.sync_note(snapshot)
                return

    async def _remove(self, segment: Segment) -> None:
        segment.close()
        self.size_bytes -= segment.size
        await self._files.discard(self._maker.path(segment.base, Kind.LOG))
        self._maker.remove(segment.base)
        # That of its end stays: it says what came before the segment that is now the first.
        self._snapshots.remove(segment.base)

    async def apply_retention(self, now_ms: int, high_watermark: int) -> list[SegmentFacts]:
        """Removes the segments that have had their time, and says which they were."""
        async with self._lock:
            self._disk.check()
            segments = self.segments() if not self._segments.open.is_empty else self.segments()[:-1]
            count = segments_to_remove(
                segments, self.config, now_ms=now_ms, log_start=self.log_start, high_watermark=high_watermark
            )
            if count == 0:
                return []
            return await self._advance_log_start(max(self.log_start, segments[count - 1].end))

    async def truncate(self, to_offset: int) -> None:
        """Cuts the log so that it ends at the offset, or before the batch that holds it. Nobody appends meanwhile."""
        async with self._lock:
            self._disk.check()
            if to_offset >= self.log_end:
                await self._end_pending_cut()
                return
            kept = bisect_right(self._segments.sealed, to_offset, key=by_end)
            gone: list[Segment] = [*self._segments.sealed[kept:], self._segments.open]
            first = gone[0]
            cut_size = first.position_of(to_offset) if first.base < to_offset else 0
            if to_offset <= self.log_start or (
                first.base <= self.log_start and cut_size == first.position_of(self.log_start)
            ):
                is_known = to_offset >= self.log_start and self.producers.truncate(self.log_start)
                await self._truncate_fully(
                    min(to_offset, self.log_start), self.producers if is_known else ProducerStates()
                )
                return
            end = first.reader.header_at(cut_size).base_offset if cut_size < first.size else to_offset
            prepared = prepare_truncation(first, cut_size) if cut_size else None
            await self._cut_end(kept, end, prepared)

    async def truncate_before_damage(
        self, segment: SealedSegment | OpenSegmentPrefix, position: int, offset: int
    ) -> bool:
        """So that it ends before the damaged batch at that position of the segment, which is at that offset. False, and
        nothing has happened, if what is left does not show by itself that it is what it was."""
        async with self._lock:
            self._disk.check()
            if segment.is_closed or offset <= self.log_start:
                return False
            kept = len(self._segments.sealed)
            first: Segment = self._segments.open
            if isinstance(segment, SealedSegment):
                kept, first = self._segments.place_of(segment.base), segment
            prepared = prepare_truncation_before_damage(first, offset, position) if position else None
            if prepared is None and position:
                return False
            await self._cut_end(kept, offset, prepared)
            return True

    async def _cut_end(self, kept: int, end: int, prepared: PreparedTruncation | None) -> None:
        """Of the segments so many stay as they are; of the next one what is prepared, or nothing."""
        gone: list[Segment] = [*self._segments.sealed[kept:], self._segments.open]
        first = gone[0]
        self._epochs.truncate(end)
        await self._cut(kept, synced_end=min(self._disk.synced_end, first.base))
        with self._cutting():
            for segment in reversed(gone):
                self._snapshots.remove(segment.end)
                if segment is not first or prepared is None:
                    segment.close()
                    self._maker.remove(segment.base)
            self._segments.open = prepared.apply() if prepared else self._maker.new_segment(first.base)
        self._on_cut()
        if self._knows_producers and not self.producers.truncate(self.log_end):
            self._knows_producers, self._must_find_producers = False, True
        await self._end_pending_cut()

    async def truncate_fully(self, new_start: int, producers: ProducerStates | None = None) -> None:
        """Removes everything; the log goes on at the offset, wherever that is. `producers` had appended what it lacks
        there; None: nobody knows."""
        async with self._lock:
            self._disk.check()
            await self._truncate_fully(new_start, producers or ProducerStates())

    async def _truncate_fully(self, new_start: int, producers: ProducerStates) -> None:
        gone: list[Segment] = [*self._segments.sealed, self._segments.open]
        self.log_start = new_start
        self._epochs = LogEpochs(LeaderEpochs(), stamped_end=0)
        await self._cut(0, synced_end=new_start)
        with self._cutting():
            for segment in reversed(gone):
                segment.close()
                self._maker.remove(segment.base)
                self._snapshots.remove(segment.end)
            self._snapshots.remove(gone[0].base)
            self._segments.open = self._maker.new_segment(new_start)
        self._on_cut()
        self.producers, self._knows_producers, self._must_find_producers = producers, True, False
        await self._end_pending_cut()

    async def _cut(self, kept: int, *, synced_end: int) -> None:
        """Before anything is cut the manifest stops to speak of it: what it names must be there when the log opens."""
        self._rewrites += 1
        self._segments.sealed = self._segments.sealed[:kept]
        self._disk.synced_end = synced_end
        self._compactions = truncate_history(self._compactions, synced_end)
        await self._disk.replace_manifest(self._manifest_content())

    @contextmanager
    def _cutting(self) -> Iterator[None]:
        """A log that could not be cut as a whole has gaps, and must not be closed as if it had none."""
        try:
            yield
        except OSError as error:
            self._disk.fail(f"{self.directory}: the log could not be truncated", error)
            raise

    def _on_cut(self) -> None:
        """Whatever keeps the rest of it from the disk, from here on this is the log."""
        self._is_cut_pending = True
        self._disk.forget_entry()
        self.is_overgrown = False
        self.log_end = self._segments.open.end
        self._disk.synced_end = min(self._disk.synced_end, self.log_end)
        self.size_bytes = self._segments.size
        self._disk.unsynced_bytes = self._segments.open.size
        if self.log_end > self.log_start:
            self._epochs.truncate(self.log_end)
        self._disk.is_changed = True

    async def _end_pending_cut(self) -> None:
        """Durable when this returns: else a power failure might bring back what was cut off, where something else has
        come in its place by then and is known to be committed. What lacked an open file is left to the next call."""
        if not self._is_cut_pending:
            return
        with trio.CancelScope(shield=True):  # else nobody might come back to it
            if self.log_end == self.log_start:
                await self._keep_producers()
            await once_files_can_be_opened(lambda: self._disk.sync(self._epochs.with_epoch_starts))
            if self._must_find_producers:
                await done_once_files_can_be_opened(self.load_producers)
        self._is_cut_pending = False

    async def _keep_producers(self) -> None:
        """Where no batch is: nothing else will tell of them. But that can be done without."""
        with suppress(OSError):
            await done_once_files_can_be_opened(lambda: self._snapshots.write(self.log_end, self.producers))
        if (snapshot := await done_once_files_can_be_opened(lambda: self._snapshots.find(self.log_end))) is not None:
            await self._disk.sync_note(snapshot)

    # being compacted

    async def compact(self, now_ms: int, high_watermark: int, *, keys_max: int = KEYS_MAX) -> CompactionOutcome | None:
        """Drops the records that later ones with the same key supersede; None when that is not due. One call at a time.

        All else goes on meanwhile. CannotCompactError: nothing was lost, the log can be used as before.
        """
        async with self._lock:
            self._disk.check()
            open_segment = self._segments.open
            if not open_segment.is_empty:
                base, first_timestamp_ms = open_segment.base, open_segment.summary.first_timestamp
                self._filled = filled_since(self._filled, base, first_timestamp_ms, now_ms)
                if must_roll(self.config, now_ms=now_ms, since_ms=self._filled[1]) and self.may_roll(base):
                    with self._ending_compaction():
                        self._roll()
        rewrites = self._rewrites
        facts = [segment.facts for segment in self._segments.sealed]
        start = max(self.log_start, compacted_up_to(self._compactions))
        end = compactable_end(facts, self.config, now_ms=now_ms, high_watermark=high_watermark)
        if not is_due(facts, self.config, now_ms=now_ms, start=start, end=end):
            return None
        if self._segments.unsynced():
            # A record must not go before the one that supersedes it is safe.
            with self._ending_compaction():
                await self.sync()
        # What is written into one must be neighbours.
        segments = list(takewhile(lambda each: each.end <= end and each.is_synced, self._segments.sealed))
        return await LogCompaction(self, self._maker, self.config, now_ms, keys_max, rewrites).run(segments, start)

    @contextmanager
    def _ending_compaction(self) -> Iterator[None]:
        """What fails here, on a full disk, say, has changed nothing, unless the log has failed with it."""
        try:
            yield
        except OSError as error:
            if self.has_failed:
                raise
            raise CannotCompactError(f"{self.directory}: {error}") from error

    @property
    def compactions(self) -> Sequence[Compacted]:
        """Until when which part of the log was compacted."""
        return self._compactions

    async def replace_segments(self, old: Sequence[SealedSegment], new: NewSegment, rewrites: int) -> bool:
        """The new one takes the place of these; False when some have gone meanwhile, or what made their records go.
        Nothing stops it halfway."""
        async with self._lock:
            if self._disk.failure is not None or rewrites != self._rewrites or any(each.is_closed for each in old):
                return False
            assert self._segments.sealed[self._segments.place_of(new.facts.base) :][: len(old)] == list(old)
            new = replace(new, facts=self._epochs.with_epoch_starts(new.facts))
            with trio.CancelScope(shield=True):
                try:
                    await self._disk.sync_own_directory()
                    await self._note_replacement(old, new.facts)
                    # From here on the new segment counts: an opening log carries the rest through.
                    self._put_in_place(old, new)
                    await self._disk.sync_own_directory()
                except OSError as error:
                    self._disk.fail(f"{self.directory}: a compacted segment did not take its place", error)
                    raise
            return True

    async def _note_replacement(self, old: Sequence[SealedSegment], new: SegmentFacts) -> None:
        if len(old) == 1 and not self._disk.wants_new_manifest:
            with self._ending_compaction():
                file = self._disk.note([manifest.sealed_line(new)])
            await self._disk.sync_file(file)
            return
        content = self._manifest_content()
        for segment in old:
            del content.sealed[segment.base]
        content.sealed[new.base] = new
        if not await self._disk.replace_manifest_if_room(content):
            raise CannotCompactError(f"{self.directory}: there is no room for another manifest")

    def _put_in_place(self, old: Sequence[SealedSegment], new: NewSegment) -> None:
        """Whoever reads a file of the old ones still has it."""
        for segment in old:
            segment.close()
        self._files.rename(new.path, self._maker.path(new.facts.base, Kind.LOG))
        for before, segment in pairwise(old):
            self._maker.remove(segment.base)
            self._snapshots.remove(before.end)
        first = self._segments.place_of(new.facts.base)
        self._segments.sealed[first : first + len(old)] = [self._maker.replaced_segment(new.facts, new.entries)]
        self.size_bytes += new.facts.size - sum(segment.size for segment in old)
        self._disk.is_changed = True
        if self.on_compacted is not None:
            self.on_compacted()

    async def note_compaction(self, end: int, now_ms: int, rewrites: int) -> bool:
        """All below the offset is compacted, and on the disk; False when the log was cut meanwhile."""
        async with self._lock:
            self._disk.check()
            if rewrites != self._rewrites:
                return False
            history, newest = add_compaction(self._compactions, end, now_ms, self.config.delete_retention_ms)
            with self._ending_compaction():
                self._disk.note([manifest.compacted_line(newest)])
            self._compactions = history
            self._disk.is_changed = True
            return True

    # being scrubbed

    def load_producers(self) -> None:
        """Raises ProducersUnknownError, as long as a header is damaged of a batch that would tell of them."""
        if not self._knows_producers:
            self.producers = self._snapshots.load(self._segments.sealed, self._segments.open, None)
            self._knows_producers, self._must_find_producers = True, False

    def synced_segments(self) -> Sequence[SealedSegment]:
        """The sealed ones that are on the disk."""
        return [segment for segment in self._segments.sealed if segment.is_synced]

    def check_open_segment(self) -> OpenSegmentCheck | None:
        """Of the open one; None while it is empty."""
        segment = self._segments.open
        return OpenSegmentCheck(segment, self._rewrites) if segment.size else None

    def is_unchanged(self, check: OpenSegmentCheck | OpenSegmentPrefix) -> bool:
        """Whether what it reads is still there, and nobody else has changed it."""
        return check.segment is self._segments.open and check.rewrites == self._rewrites

    async def damaged_open_segment(self, check: OpenSegmentCheck) -> SealedSegment | OpenSegmentPrefix | None:
        """The one that is damaged as the check says; None if it is not there any more."""
        async with self._lock:
            self._disk.check()
            return await self._make_repairable(check.segment) if self.is_unchanged(check) else None

    async def damaged_segment(self, offset: int) -> SealedSegment | OpenSegmentPrefix | None:
        """The one with batches that are not what they were, soon after the offset; None if they seem to be."""
        async with self._lock:
            self._disk.check()
            following = self._segments.between(offset, self.log_end) if offset < self.log_end else []
            segment = first_corrupt_segment(following, offset, self.epochs.latest)
            return None if segment is None else await self._make_repairable(segment)

    async def _make_repairable(self, segment: Segment) -> SealedSegment | OpenSegmentPrefix:
        """An open one is sealed first, if it may be: nothing can happen to it any more then. Else it is mended while it
        grows: as long as it is damaged, perhaps nothing can be committed that would let it be sealed."""
        open_segment = self._segments.open
        if segment is open_segment:
            if not self.may_roll(segment.base):
                facts = self._epochs.with_epoch_starts(self._segments.open_facts())
                return OpenSegmentPrefix(open_segment, facts, self._rewrites, self.is_unchanged)
            self._roll()
        await self._disk.sync(self._epochs.with_epoch_starts)
        return self._segments.sealed[self._segments.place_of(segment.base)]

    async def repair(self, scrub: SegmentScrub) -> bool:
        """Writes what was proven to be lost where it was, and corrects what was noted of times; False when the segment
        has changed meanwhile."""
        async with self._lock:
            self._disk.check()
            if scrub.is_outdated:
                return False
            assert scrub.is_proven
            file = scrub.segment.reader.log.get()
            try:
                for position, batch in scrub.repairs.items():
                    file.write_at(position, batch)
                if scrub.repairs:
                    await self._disk.sync_file(file)
            except OSError as error:
                self._disk.fail(f"{file.path}: a damaged batch could not be written again", error)
                raise
            if scrub.has_other_times:
                await self._correct_times(scrub)
            if scrub.repairs and self.on_compacted is not None:
                self.on_compacted()
            return True

    async def _correct_times(self, scrub: SegmentScrub) -> None:
        """What was read of the segment while it was damaged is not what its records say."""
        segment, entries = scrub.segment, scrub.entries
        if isinstance(segment, OpenSegmentPrefix):
            segment.segment.correct_times(scrub.facts.size, *scrub.times, entries)
            return
        segment.correct_times(*scrub.times, entries)
        self._disk.is_changed = True
        if segment.is_synced:
            # Where there is no room for the line, whoever opens the log next has to find out again.
            with suppress(OSError):
                note = self._disk.note([manifest.sealed_line(segment.facts)])
                await self._disk.sync_note(note)
            self._disk.check()


def _always(base: int) -> bool:
    return True


def _with_room_of(segments: Sequence[Segment], work: Callable[[], T]) -> T:
    """On a full disk it is done once more, without the indexes of these segments, which are to go. Should one stay, its
    index is built again when it is needed."""
    try:
        return work()
    except OSError as error:
        if not is_disk_full(error):
            raise
    for segment in segments:
        segment.reader.index.make_room()
    return work()
