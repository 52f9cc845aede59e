"""Builds the segments of a log: new ones, ones that the manifest vouches for, and recovered ones."""

from contextlib import suppress

from tailrace.runtime.files import Files
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.indexes.open_files import LazyFile, OpenFiles
from tailrace.storage.indexes.segment_index import SegmentIndex
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts

from .batch_walk import FAR_BYTES
from .open_segment import OpenSegment
from .restamping import write_stamps_again
from .sealed_segment import SealedSegment
from .segment_reader import SegmentReader
from .segment_recovery import LogDamagedError, RecoveredSegment, RecoveryReport, WouldLoseRecordsError, recover_segment
from .segment_summary import SegmentSummary


class SegmentMaker:
    """Knows the directory, the config and the shared open files of one log, and builds its segments."""

    __slots__ = ("_directory", "_open_files", "config", "report")

    def __init__(self, open_files: OpenFiles, directory: str, config: LogConfig, report: RecoveryReport) -> None:
        self._open_files = open_files
        self._directory = directory
        self.config = config
        self.report = report

    @property
    def files(self) -> Files:
        return self._open_files.files

    def path(self, offset: int, kind: Kind) -> str:
        return f"{self._directory}/{file_name(offset, kind)}"

    def reader(self, base: int, *, create: bool = False) -> SegmentReader:
        log = LazyFile(self._open_files, self.path(base, Kind.LOG), create=create)
        interval_bytes = self.config.index_interval_bytes
        index = SegmentIndex(self._open_files, self._directory, base, interval_bytes=interval_bytes)
        return SegmentReader(base, log, index, interval_bytes)

    def new_segment(self, base: int) -> OpenSegment:
        """Makes an empty open segment, and removes files of that name that an earlier life of the log has left."""
        self.remove(base)
        return self.empty_segment(base)

    def empty_segment(self, base: int) -> OpenSegment:
        """Makes an empty open segment where no file has its name."""
        return OpenSegment(SegmentSummary(base), self.reader(base, create=True))

    def sealed_segment(self, facts: SegmentFacts, *, is_synced: bool) -> SealedSegment:
        """Makes a sealed segment from facts in the manifest, without reading it."""
        reader = self.reader(facts.base)
        _trust_index(reader, facts)
        return SealedSegment(facts, reader, is_synced=is_synced)

    def replaced_segment(self, facts: SegmentFacts, entries: IndexEntries) -> SealedSegment:
        """Makes a sealed segment whose compacted `.log` has taken its place, and writes its indexes."""
        reader = self.reader(facts.base)
        # What does not fit on the disk now is rebuilt when it is needed.
        with suppress(OSError):
            reader.index.replace(entries)
        return SealedSegment(facts, reader, is_synced=True)

    def open_segment(self, facts: SegmentFacts) -> OpenSegment:
        """Makes the open segment from the facts of a clean close, without reading it."""
        reader = self.reader(facts.base, create=True)
        _trust_index(reader, facts)
        summary = SegmentSummary(facts.base)
        summary.end = facts.end
        summary.epoch = facts.epoch
        summary.size = facts.size
        summary.checksum = facts.checksum
        summary.first_timestamp = facts.first_timestamp
        summary.max_timestamp = facts.max_timestamp
        return OpenSegment(summary, reader)

    def recovered_segment(
        self,
        base: int,
        size: int,
        *,
        trusted_end: int,
        may_lose: bool = True,
        rewrite_unsynced: bool = False,
        stamped_end: int = 0,
    ) -> tuple[OpenSegment, RecoveredSegment]:
        """Recovers an unsealed segment, and truncates its file after the last valid batch.

        Only the first `size` bytes are scanned. `rewrite_unsynced`: a sync of the file may have failed, and the next
        one brings only later writes to the disk, so everything that is not known to be synced is written again. Below
        the trusted end, that is the stamps that recovery put on batches up to `stamped_end`.

        This is where the rule of `segment_recovery` about torn tails is applied. Raises LogDamagedError or
        WouldLoseRecordsError before anything is truncated that must not be.
        """
        reader = self.reader(base, create=True)
        try:
            file = reader.log.get()
            recovered = recover_segment(
                file, size, base, trusted_end=trusted_end, interval_bytes=self.config.index_interval_bytes
            )
            summary = recovered.summary
            self.report.scanned_bytes += size
            if recovered.truncation_reason is not None and summary.end < trusted_end:
                raise LogDamagedError(
                    f"{reader.log.path} is damaged at position {summary.size}, below offset {trusted_end}, up to which"
                    f" it was on the disk: {recovered.truncation_reason}"
                )
            if not (recovered.truncation_reason is None or recovered.is_torn or may_lose):
                raise WouldLoseRecordsError(
                    f"{reader.log.path}, at position {summary.size}: {recovered.truncation_reason}"
                )
            if summary.size < file.size():
                file.truncate(summary.size)
            if rewrite_unsynced:
                write_stamps_again(file, recovered.trusted_size, stamped_end)
                for position in range(recovered.trusted_size, summary.size, FAR_BYTES):
                    file.write_at(position, file.read_at(position, min(FAR_BYTES, summary.size - position)))
            reader.index.replace(recovered.entries)
            return OpenSegment(summary, reader, ends_with_bridge=recovered.ends_with_bridge), recovered
        except BaseException:
            reader.log.close()  # no other object refers to it
            raise

    def remove(self, base: int) -> None:
        """Removes the `.log` of the segment with this base offset, its indexes and its aborted transactions."""
        for kind in (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX, Kind.ABORTED):
            self.files.remove(self.path(base, kind))


def _trust_index(reader: SegmentReader, facts: SegmentFacts) -> None:
    reader.index.trust(
        facts.index_entries, facts.index_checksum, facts.time_index_checksum, facts.last_indexed_position
    )
