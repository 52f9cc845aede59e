"""Puts the parts of a log's segments together: of a new one, one that the manifest vouches for, a recovered one."""

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
from .segment_recovery import LogDamagedError, RecoveredSegment, RecoveryReport, WouldLoseRecordsError, recover
from .segment_summary import SegmentSummary


class SegmentMaker:
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
        """Files of the same name, left by a former life of the log, are gone afterwards."""
        self.remove(base)
        return self.empty_segment(base)

    def empty_segment(self, base: int) -> OpenSegment:
        """Where no file has its name."""
        return OpenSegment(SegmentSummary(base), self.reader(base, create=True))

    def sealed_segment(self, facts: SegmentFacts, *, is_synced: bool) -> SealedSegment:
        reader = self.reader(facts.base)
        _trust_index(reader, facts)
        return SealedSegment(facts, reader, is_synced=is_synced)

    def replaced_segment(self, facts: SegmentFacts, entries: IndexEntries) -> SealedSegment:
        """Its `.log` has taken the place of another; its indexes do so now."""
        reader = self.reader(facts.base)
        # What does not fit on the disk now is built again when it is needed.
        with suppress(OSError):
            reader.index.replace(entries)
        return SealedSegment(facts, reader, is_synced=True)

    def open_segment(self, facts: SegmentFacts) -> OpenSegment:
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
        writes_again: bool = False,
        stamped_end: int = 0,
    ) -> tuple[OpenSegment, RecoveredSegment]:
        """Scans the first `size` bytes, and cuts the file after what survives. `writes_again`: a sync of it may have
        failed, and the next one only brings to the disk what has been written since. Below the trusted end that is
        what was changed in place: the stamps, which recovery has put on batches up to `stamped_end`."""
        reader = self.reader(base, create=True)
        try:
            file = reader.log.get()
            recovered = recover(
                file, size, base, trusted_end=trusted_end, interval_bytes=self.config.index_interval_bytes
            )
            summary = recovered.summary
            self.report.scanned_bytes += size
            if recovered.cut_reason is not None and summary.end < trusted_end:
                raise LogDamagedError(
                    f"{reader.log.path} is damaged at position {summary.size}, below offset {trusted_end} up to which"
                    f" it was on the disk: {recovered.cut_reason}"
                )
            if not (recovered.cut_reason is None or recovered.is_torn or may_lose):
                raise WouldLoseRecordsError(f"{reader.log.path}, at position {summary.size}: {recovered.cut_reason}")
            if summary.size < file.size():
                file.truncate(summary.size)
            if writes_again:
                write_stamps_again(file, recovered.trusted_size, stamped_end)
                for position in range(recovered.trusted_size, summary.size, FAR_BYTES):
                    file.write_at(position, file.read_at(position, min(FAR_BYTES, summary.size - position)))
            reader.index.replace(recovered.entries)
            return OpenSegment(summary, reader, is_over=recovered.ends_with_bridge), recovered
        except BaseException:
            reader.log.close()  # nobody else knows of it
            raise

    def remove(self, base: int) -> None:
        for kind in (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX):
            self.files.remove(self.path(base, kind))


def _trust_index(reader: SegmentReader, facts: SegmentFacts) -> None:
    reader.index.trust(
        facts.index_entries, facts.index_checksum, facts.time_index_checksum, facts.last_indexed_position
    )
