"""The log of one replica: its segments in order, where it starts, where it ends, and how far it is on the disk.

Appending and reading are synchronous and go to the page cache. Whatever must reach the disk is awaited, under one lock,
since each of these steps leaves a manifest that agrees with the files. A failed sync is never tried again: the kernel
may have dropped what it could not write, so a second one could succeed without it. The log refuses everything then.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from operator import attrgetter

import trio

from tailrace.protocol.control_batches import ControlKind, bridge_epoch, control_kind
from tailrace.protocol.ids import NO_EPOCH
from tailrace.protocol.record_batch import CONTROL, BatchHeader
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import Buffer, File, Files

from . import manifest
from .compaction import KEYS_MAX, Compacted, compacted_end, cut_history, with_compaction
from .compaction_schedule import compactable_end, is_due, must_roll
from .layout import Kind, directories_up_to_data
from .leader_epochs import LeaderEpochs
from .log_compaction import CompactionOutcome, LogCompaction, NewSegment
from .log_config import LogConfig
from .log_opening import Opening, SegmentMaker
from .manifest import Manifest, SegmentFacts
from .manifest_file import ManifestFile
from .open_files import OpenFiles
from .open_segment import OpenSegment
from .producer_snapshots import ProducerSnapshots
from .producer_state import ProducerStates
from .retention import segments_to_remove
from .sealed_segment import SealedSegment
from .segment_cutting import cut
from .segment_recovery import RecoveryReport
from .segment_scrub import SegmentScrub
from .time_index import NO_TIMESTAMP

_FLUSHED_LINE_BYTES = 2**20
"""After so many synced bytes the manifest notes how far the disk is."""

_NOT_ENTERED = -1

_by_base = attrgetter("base")
_by_end = attrgetter("end")

Segment = SealedSegment | OpenSegment


class Log:
    __slots__ = (
        "_changed_since_close",
        "_closed",
        "_compactions",
        "_cuts",
        "_directories_to_sync",
        "_directory",
        "_entered_base",
        "_failure",
        "_files",
        "_latest_epoch",
        "_lock",
        "_maker",
        "_manifest",
        "_open",
        "_sealed",
        "_snapshots",
        "_unnoted_bytes",
        "config",
        "epochs",
        "log_end",
        "log_start",
        "producers",
        "recovery",
        "size_bytes",
        "synced_end",
        "unsynced_bytes",
    )

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        open_files: OpenFiles | None = None,
    ) -> "Log":
        """`clean`: the program that wrote last says that it closed its logs. Then what lies there is not scanned.

        Raises OSError, a LogDamagedError when records are damaged that had safely reached the disk.
        """
        if open_files is None:
            open_files = OpenFiles(files)
        return cls(files, directory, config, clean=clean, open_files=open_files)

    def __init__(self, files: Files, directory: str, config: LogConfig, *, clean: bool, open_files: OpenFiles) -> None:
        files.make_directories(directory)
        self._files = files
        self._directory = directory
        self._lock = trio.Lock()
        self._failure: str | None = None
        self._manifest = ManifestFile(files, directory)
        self.config = config
        self.recovery = RecoveryReport()
        """What opening found, and how often an index had to be built again since."""
        self._maker = SegmentMaker(open_files, directory, config, self.recovery)
        opened = Opening(self._maker, directory, self._manifest, clean=clean)
        self._sealed: list[SealedSegment] = opened.sealed
        self._open: OpenSegment = opened.open_segment
        self.epochs = opened.epochs
        self._latest_epoch = self.epochs.latest
        self.producers = opened.producers
        """What is known of idempotent producers; the broker asks before it appends."""
        self._snapshots = ProducerSnapshots(files, directory)
        self._compactions = opened.manifest.compactions
        self._closed = opened.manifest.closed
        """What the manifest says of the open segment as it was at the last clean close: true until that is changed."""
        self.log_start = opened.log_start
        self.log_end = self._open.end
        """Exclusive: the offset that comes next."""
        self.size_bytes = sum(segment.facts.size for segment in self._sealed) + self._open.size
        self.synced_end = self.log_end if self.recovery.was_clean else min(opened.flushed_end, self.log_end)
        """Everything below is on the disk."""
        self.unsynced_bytes = 0 if self.recovery.was_clean else self._open.size
        self._unnoted_bytes = 0
        self._cuts = 0
        """Counts truncations, so that a sync that was under way meanwhile claims nothing."""
        self._changed_since_close = not self.recovery.was_clean
        self._directories_to_sync = directories_up_to_data(directory)
        self._entered_base = _NOT_ENTERED
        """Of the open segment, once its file has an entry in the synced directory: its first batch creates the file."""

    # what is

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def wants_sync(self) -> bool:
        """A segment was sealed and is not on the disk yet: what is over should not wait for the flush policy."""
        return bool(self._sealed) and not self._sealed[-1].is_synced

    def segments(self) -> Sequence[SegmentFacts]:
        """All segments in order, the open one last; of its indexes nothing is said."""
        return [*(segment.facts for segment in self._sealed), self._open_facts()]

    def _open_facts(self) -> SegmentFacts:
        summary = self._open.summary
        return SegmentFacts(
            summary.base,
            summary.end,
            summary.epoch,
            summary.size,
            summary.checksum,
            summary.first_timestamp,
            summary.max_timestamp,
        )

    def use_config(self, config: LogConfig) -> None:
        """Takes effect with the next append; the index interval with the next segment."""
        self.config = self._maker.config = config

    # appending

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """One whole batch, already stamped, at the log end. OSError: nothing was appended."""
        if self._failure is not None:
            raise OSError(self._failure)
        assert header.base_offset >= self.log_end
        segment = self._open
        if not segment.has_room_for(header, self.config):
            segment = self._roll()
        segment.append(batch, header)
        self._on_appended(batch, header)

    def append_batches(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Consecutive whole batches, with as few writes as segments. OSError: those before `log_end` were appended."""
        if self._failure is not None:
            raise OSError(self._failure)
        assert headers[0].base_offset >= self.log_end
        view, position, first = memoryview(data), 0, 0
        while first < len(headers):
            segment = self._open
            count = segment.count_with_room(headers, first, self.config)
            if count == 0:
                self._roll()
                continue
            some = headers[first : first + count]
            size = sum(header.batch_length + 12 for header in some)
            segment.append_batches(view[position : position + size], some)
            for header in some:
                self._on_appended(view[position:], header)
                position += header.batch_length + 12
            first += count

    def _on_appended(self, batch: Buffer, header: BatchHeader) -> None:
        if header.leader_epoch != self._latest_epoch:
            self._latest_epoch = header.leader_epoch
            self.epochs.begin(header.leader_epoch, header.base_offset)
        if header.attributes & CONTROL and control_kind(header, batch) is ControlKind.BRIDGE:
            self.epochs.begin_with_bridge(bridge_epoch(batch), header.base_offset)
            self._latest_epoch = self.epochs.latest
            self._open.is_over = True
        if header.producer_id >= 0 and header.base_sequence >= 0:
            self.producers.on_appended(header)
        size = header.batch_length + 12
        self.log_end = header.base_offset + header.last_offset_delta + 1
        self.size_bytes += size
        self.unsynced_bytes += size
        self._changed_since_close = True

    def _roll(self) -> OpenSegment:
        end = self._open.end
        sealed = self._open.seal(self._snapshots.write(end, self.producers))
        self._open = self._maker.new_segment(sealed.end)
        self._sealed.append(sealed)
        return self._open

    # reading

    def read(
        self, offset: int, bytes_max: int, up_to: int, *, at_least_one: bool, passes_empty: bool = False
    ) -> FileRange | None:
        """Whole batches of one segment, from the one that holds the offset on, none that reaches past `up_to`.

        No more than `bytes_max`, unless `at_least_one` is asked for and the first is larger. None when there are none.
        `passes_empty`: compaction may have left segments without a record; they are passed over if more comes after.
        """
        if self._failure is not None:
            raise OSError(self._failure)
        bytes_max = max(0, bytes_max)
        segment = self._open
        if offset >= segment.summary.base:
            found = segment.read(offset, bytes_max, up_to, at_least_one=at_least_one)
            return found if found else None
        passed: FileRange | None = None
        for sealed in self._sealed[max(0, bisect_right(self._sealed, offset, key=_by_base) - 1) :]:
            if sealed.base >= up_to:
                return passed
            found = sealed.read(offset, bytes_max, up_to, at_least_one=at_least_one)
            if found and passes_empty and sealed.has_no_records:
                passed = found
            elif found is not None:
                return found or passed
        return segment.read(offset, bytes_max, up_to, at_least_one=at_least_one) or passed

    def headers(self, start: int, end: int) -> Iterator[tuple[BatchHeader, ControlKind | None]]:
        """Of the batches that reach beyond `start` and begin before `end`, in order, and what recovery wrote of them.

        For the newest batch this is as cheap as can be. The log must not change while one iterates.
        """
        if self._failure is not None:
            raise OSError(self._failure)
        start = max(start, self.log_start)
        if start >= self._open.base:
            return self._open.headers(start, end)
        return chain.from_iterable(segment.headers(start, end) for segment in self._segments_between(start, end))

    def read_batches(self, base: int, end: int) -> list[FileRange]:
        """The bytes of the batches between these two offsets, at which one begins and one ends: a range a segment."""
        if self._failure is not None:
            raise OSError(self._failure)
        ranges = []
        for segment in self._segments_between(base, end):
            start = segment.position_of(base) if base > segment.base else 0
            stop = segment.position_of(end) if end < segment.end else segment.size
            if start < stop:
                ranges.append(FileRange(segment.reader.log.get(), start, stop - start))
        return ranges

    def _segments_between(self, start: int, end: int) -> list[Segment]:
        if start >= self._open.base:
            return [self._open]
        first = max(0, bisect_right(self._sealed, start, key=_by_base) - 1)
        segments: list[Segment] = [*self._sealed[first:], self._open]
        return [segment for segment in segments if segment.end > start and segment.base < end]

    def find_timestamp(self, timestamp_ms: int, up_to: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record below `up_to` that is not older."""
        for segment in self._readable(up_to):
            if (found := segment.find_timestamp(timestamp_ms, self.log_start, up_to)) is not None:
                return found
        return None

    def max_timestamp(self, up_to: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first of the newest records below `up_to`."""
        segments = self._readable(up_to)
        newest = max((segment.max_timestamp(self.log_start, up_to) for segment in segments), default=NO_TIMESTAMP)
        return None if newest == NO_TIMESTAMP else self.find_timestamp(newest, up_to)

    def _readable(self, up_to: int) -> list[Segment]:
        segments: list[Segment] = [*self._sealed, self._open]
        return [segment for segment in segments if segment.end > self.log_start and segment.base < up_to]

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
            await self._sync()

    async def _sync(self) -> None:
        self._check()
        end, cuts, unsynced_bytes = self.log_end, self._cuts, self.unsynced_bytes
        sealed, open_segment = self._unsynced_segments(), self._open
        try:
            for segment in sealed:
                await segment.reader.log.get().sync()
            if not open_segment.is_empty:
                await open_segment.sync()
            if sealed or open_segment.base != self._entered_base:
                await self._sync_directories()
        except OSError as error:
            self._fail(f"{self._directory}: sync failed: {error}")
            raise
        if cuts != self._cuts:
            return
        self.synced_end = max(self.synced_end, end)
        self.unsynced_bytes -= unsynced_bytes
        self._unnoted_bytes += unsynced_bytes
        if sealed or self._unnoted_bytes >= _FLUSHED_LINE_BYTES:
            for segment in sealed:
                segment.facts = self._with_epochs(segment.facts)
            lines = [manifest.sealed_line(segment.facts) for segment in sealed]
            self._manifest.append([*lines, manifest.flushed_line(end)])
            self._unnoted_bytes = 0
            for segment in sealed:
                segment.is_synced = True

    async def _sync_directories(self) -> None:
        """The log's own, and once those above it: who finds the file after a crash must find its directory."""
        entered_base = self._open.base if not self._open.is_empty else _NOT_ENTERED
        for directory in self._directories_to_sync:
            await self._files.sync_directory(directory)
        self._directories_to_sync = [self._directory]
        self._entered_base = entered_base

    def _unsynced_segments(self) -> list[SealedSegment]:
        """They are the last ones."""
        first = len(self._sealed)
        while first and not self._sealed[first - 1].is_synced:
            first -= 1
        return self._sealed[first:]

    async def close(self, *, clean: bool = True) -> None:
        """Afterwards the log refuses everything. After a clean close it opens without a scan."""
        async with self._lock:
            try:
                if clean and self._failure is None and self._changed_since_close:
                    if self._open.is_over:
                        # As an open one it would not be known to end with a bridge.
                        self._roll()
                    await self._sync()
                    await self._note_clean_close()
            finally:
                self._fail(self._failure or f"{self._directory}: the log was closed")
                for sealed in self._sealed:
                    sealed.close()
                self._open.close()

    async def _note_clean_close(self) -> None:
        facts = self._with_epochs(self._open.facts(self._snapshots.write(self.log_end, self.producers)))
        if self._manifest.wants_replacement:
            await self._manifest.replace(self._manifest_content(closed=facts))
        else:
            await self._sync_manifest(self._manifest.append([manifest.closed_line(facts)]))

    async def _sync_manifest(self, file: File) -> None:
        try:
            await file.sync()
            await self._sync_directories()
        except OSError as error:
            self._fail(f"{self._directory}: sync failed: {error}")
            raise

    def _with_epochs(self, facts: SegmentFacts) -> SegmentFacts:
        """As the manifest has them: with what the segment alone would not tell of the leader epochs in it."""
        starts = self.epochs.between(facts.base, facts.end)
        is_plain = (
            facts.epoch_starts is None
            and all(start.epoch == facts.epoch for start in starts)
            and self.epochs.at(facts.base) in (facts.epoch, NO_EPOCH)
        )
        return facts if is_plain else replace(facts, epoch_starts=starts)

    def _manifest_content(self, closed: SegmentFacts | None = None) -> Manifest:
        return Manifest(
            log_start=self.log_start,
            epochs=list(self.epochs),
            sealed={segment.base: segment.facts for segment in self._sealed if segment.is_synced},
            closed=closed,
            flushed_end=self.synced_end,
            compactions=self._compactions,
        )

    def _fail(self, sentence: str) -> None:
        self._failure = sentence

    def _check(self) -> None:
        if self._failure is not None:
            raise OSError(self._failure)

    # being stamped

    async def restamp(self, base: int, end: int, epoch: int) -> None:
        """The batches that begin in [base, end) get this leader epoch, in place. Nobody appends meanwhile.

        The content stays what it was, and for clients the epochs begin where they did: see `LeaderEpochs`.
        """
        async with self._lock:
            self._check()
            first = max(0, bisect_right(self._sealed, base, key=_by_base) - 1)
            touched: list[Segment] = [each for each in self._sealed[first:] if each.base < end and each.end > base]
            if self._open.base < end:
                touched.append(self._open)
            await self._disown(touched, base)
            for segment in touched:
                self.unsynced_bytes += 4 * segment.restamp(base, end, epoch)
            self._changed_since_close = True

    async def _disown(self, segments: Sequence[Segment], base: int) -> None:
        """Before a byte changes the manifest stops to speak of these segments, and of those that follow them."""
        names_closed = self._closed is not None and base < self._closed.end
        first_base = segments[0].base if segments else self.log_end
        followers = [segment for segment in self._sealed if segment.base >= first_base]
        was_named = any(segment.is_synced for segment in followers)
        for segment in followers:
            segment.is_synced = False
        if was_named or names_closed:
            await self._replace_manifest()

    # growing shorter

    async def advance_log_start(self, offset: int) -> None:
        """The records below are deleted, for readers at once, and for good when the call returns.

        Their bytes go with whole segments; where no record is left, with all of them.
        """
        assert offset <= self.log_end
        async with self._lock:
            self._check()
            if offset > self.log_start:
                if offset == self.log_end and not self._open.is_empty:
                    self._roll()
                await self._advance_log_start(offset)

    async def _advance_log_start(self, offset: int) -> list[SegmentFacts]:
        """Says first that records are gone, then removes them: so a crash between leaves nothing unexplained."""
        count = bisect_right(self._sealed, offset, key=_by_end)
        for segment in self._sealed[:count]:
            # On a full disk this makes room for what has to be said.
            segment.reader.index.discard()
        epochs = LeaderEpochs(self.epochs)
        epochs.cut_start(offset)
        # The segment that told of the first epoch may be among those that go.
        lines = [manifest.start_line(offset), *map(manifest.epoch_line, list(epochs)[:1])]
        file = self._manifest.append(lines)
        self.log_start, self.epochs = offset, epochs
        self._changed_since_close = True
        await self._sync_manifest(file)
        gone, self._sealed[:count] = self._sealed[:count], []
        for segment in gone:
            self._remove(segment)
        if gone:
            # One that was never synced may come back torn after a crash, unless the next sync makes its end durable.
            self._entered_base = _NOT_ENTERED
        return [segment.facts for segment in gone]

    def _remove(self, segment: Segment) -> None:
        segment.close()
        self.size_bytes -= segment.size
        self._maker.remove(segment.base)
        # That of its end stays: it says what came before the segment that is now the first.
        self._snapshots.remove(segment.base)

    async def apply_retention(self, now_ms: int, high_watermark: int) -> list[SegmentFacts]:
        """Removes the segments that have had their time, and says which they were."""
        async with self._lock:
            self._check()
            segments = self.segments() if not self._open.is_empty else self.segments()[:-1]
            count = segments_to_remove(
                segments, self.config, now_ms=now_ms, log_start=self.log_start, high_watermark=high_watermark
            )
            if count == 0:
                return []
            if count > len(self._sealed):
                self._roll()
            return await self._advance_log_start(max(self.log_start, segments[count - 1].end))

    async def compact(self, now_ms: int, high_watermark: int, *, keys_max: int = KEYS_MAX) -> CompactionOutcome | None:
        """Drops the records that later ones with the same key supersede; None when that is not due. One call at a time.

        All else goes on meanwhile. CannotCompactError: nothing was lost, the log can be used as before.
        """
        self._check()
        if must_roll(self._open_facts(), self.config, now_ms=now_ms):
            self._roll()
        facts = [segment.facts for segment in self._sealed]
        start = max(self.log_start, compacted_end(self._compactions))
        end = compactable_end(facts, self.config, now_ms=now_ms, high_watermark=high_watermark)
        if not is_due(facts, self.config, now_ms=now_ms, start=start, end=end):
            return None
        if self.wants_sync:
            # A record must not go before the one that supersedes it is safe.
            await self.sync()
        segments = [segment for segment in self._sealed if segment.end <= end and segment.is_synced]
        return await LogCompaction(self, self._maker, self.config, now_ms, keys_max).run(segments, start)

    @property
    def compactions(self) -> Sequence[Compacted]:
        """Until when which part of the log was compacted."""
        return self._compactions

    async def replace_segments(self, old: Sequence[SealedSegment], new: NewSegment) -> bool:
        """The new one takes the place of these; False when some have gone meanwhile. Nothing stops it halfway."""
        async with self._lock:
            if self._failure is not None or any(segment.is_closed or not segment.is_synced for segment in old):
                return False
            with trio.CancelScope(shield=True):
                try:
                    await self._files.sync_directory(self._directory)
                    await self._note_replacement(old, new.facts)
                    # From here on the new segment counts: an opening log carries the rest through.
                    self._put_in_place(old, new)
                    await self._files.sync_directory(self._directory)
                except OSError as error:
                    self._fail(f"{self._directory}: a compacted segment did not take its place: {error}")
                    raise
            return True

    async def _note_replacement(self, old: Sequence[SealedSegment], new: SegmentFacts) -> None:
        if len(old) == 1 and not self._manifest.wants_replacement:
            await self._manifest.append([manifest.sealed_line(new)]).sync()
            return
        content = self._manifest_content()
        for segment in old:
            del content.sealed[segment.base]
        content.sealed[new.base] = new
        await self._manifest.replace(content)

    def _put_in_place(self, old: Sequence[SealedSegment], new: NewSegment) -> None:
        """Whoever reads a file of the old ones still has it."""
        for segment in old:
            segment.close()
        self._files.rename(new.path, self._maker.path(new.facts.base, Kind.LOG))
        for before, segment in pairwise(old):
            self._maker.remove(segment.base)
            self._snapshots.remove(before.end)
        first = bisect_right(self._sealed, new.facts.base, key=_by_base) - 1
        self._sealed[first : first + len(old)] = [self._maker.replaced_segment(new.facts, new.entries)]
        self.size_bytes += new.facts.size - sum(segment.size for segment in old)
        self._changed_since_close = True

    async def note_compaction(self, end: int, now_ms: int) -> None:
        """All below the offset is compacted, and on the disk."""
        async with self._lock:
            self._check()
            history, newest = with_compaction(self._compactions, end, now_ms, self.config.delete_retention_ms)
            self._compactions = history
            self._manifest.append([manifest.compacted_line(newest)])
            self._changed_since_close = True

    # being scrubbed

    def segments_at_rest(self) -> Sequence[SealedSegment]:
        """The sealed ones that are on the disk."""
        return [segment for segment in self._sealed if segment.is_synced]

    async def mend(self, scrub: SegmentScrub) -> bool:
        """Writes what was proven to be lost where it was; False when the segment has changed meanwhile."""
        async with self._lock:
            self._check()
            if scrub.is_over:
                return False
            assert scrub.is_proven
            file = scrub.segment.reader.log.get()
            try:
                for position, batch in scrub.mended.items():
                    file.write_at(position, batch)
                await file.sync()
            except OSError as error:
                self._fail(f"{file.path}: a damaged batch could not be written again: {error}")
                raise
            return True

    async def truncate(self, to_offset: int) -> None:
        """Cuts the log so that it ends at the offset, or before the batch that holds it. Nobody appends meanwhile."""
        async with self._lock:
            self._check()
            if to_offset >= self.log_end:
                return
            kept = bisect_right(self._sealed, to_offset, key=_by_end)
            gone: list[Segment] = [*self._sealed[kept:], self._open]
            first = gone[0]
            cut_size = first.position_of(to_offset) if first.base < to_offset else 0
            if to_offset <= self.log_start or (
                first.base <= self.log_start and cut_size == first.position_of(self.log_start)
            ):
                await self._truncate_fully(min(to_offset, self.log_start))
                return
            self.epochs.cut_end(first.reader.header_at(cut_size).base_offset if cut_size < first.size else to_offset)
            await self._cut(kept, synced_end=min(self.synced_end, first.base))
            try:
                for segment in reversed(gone):
                    self._snapshots.remove(segment.end)
                    if segment is not first or cut_size == 0:
                        segment.close()
                        self._maker.remove(segment.base)
                self._open = cut(first, cut_size) if cut_size else self._maker.new_segment(first.base)
            except OSError as error:
                self._fail(f"{self._directory}: the log could not be cut: {error}")
                raise
            if not self.producers.cut(self._open.end):
                self.producers = self._snapshots.load(self._sealed, self._open, None)
            self._end_cut()

    async def truncate_fully(self, new_start: int) -> None:
        """Removes everything; the log goes on at the offset, wherever that is."""
        async with self._lock:
            self._check()
            await self._truncate_fully(new_start)

    async def _truncate_fully(self, new_start: int) -> None:
        gone: list[Segment] = [*self._sealed, self._open]
        self.log_start = new_start
        self.epochs = LeaderEpochs()
        await self._cut(0, synced_end=new_start)
        for segment in reversed(gone):
            segment.close()
            self._maker.remove(segment.base)
            self._snapshots.remove(segment.end)
        self._snapshots.remove(gone[0].base)
        self._open = self._maker.new_segment(new_start)
        self.producers = ProducerStates()
        self._end_cut()

    async def _cut(self, kept: int, *, synced_end: int) -> None:
        """Before anything is cut the manifest stops to speak of it: what it names must be there when the log opens."""
        self._cuts += 1
        self._sealed = self._sealed[:kept]
        self.synced_end = synced_end
        self._compactions = cut_history(self._compactions, synced_end)
        await self._replace_manifest()

    async def _replace_manifest(self) -> None:
        """It says what is true now, and nothing of how the log was closed once."""
        self._closed = None
        try:
            with trio.CancelScope(shield=True):  # half a change would leave a log that agrees with nothing
                await self._manifest.replace(self._manifest_content())
                await self._sync_directories()
        except OSError as error:
            self._fail(f"{self._directory}: sync failed: {error}")
            raise

    def _end_cut(self) -> None:
        self._entered_base = _NOT_ENTERED
        self.log_end = self._open.end
        self.synced_end = min(self.synced_end, self.log_end)
        self.size_bytes = sum(segment.size for segment in self._sealed) + self._open.size
        self.unsynced_bytes = self._open.size
        if self.log_end > self.log_start:
            self.epochs.cut_end(self.log_end)
        self._latest_epoch = self.epochs.latest
        self._changed_since_close = True
