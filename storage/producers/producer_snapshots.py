"""Snapshots of producer states at the ends of segments, so that a log need not be read to restore them.

After a truncation, the states at the new end are restored from the last snapshot before it and the batches after that.
A large segment can have millions of batches, which take a minute. So the last snapshots within the open segment of a
log with transactions are kept in memory, and the batches are read in steps.
"""

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import NamedTuple

import crc32c
from msgspec.structs import replace

from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.batches.transaction_markers import MARKER_BYTES_MAX, is_marker, marker_of
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.steps import finish
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.runtime.files import File, Files, UnreadableError
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.segments.batch_walk import FAR_BYTES, walk
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment

from .producer_state import CHECKSUM_BYTES, CompletedTransaction, ProducerStates

NO_PRODUCERS = 0
"""Stands for the checksum of a snapshot that was not written because no producer had a state."""
NOT_WRITTEN = -1
"""Stands for the checksum of a snapshot that is missing. Only the log can tell whether producers had a state."""

BATCHES_PER_STEP = 1000
"""The number of batches that are read in one step. A step takes about 10 ms."""
KEEP_BYTES = 8 * 2**20
"""How much is appended to the open segment between two snapshots that are kept in memory."""
KEPT_MAX = 2
KEPT_PRODUCERS_MAX = 1000
"""The largest number of producers in a snapshot that is kept in memory. One of more takes too long."""

Loading = Generator[None, None, ProducerStates]
"""Loads the states of producers in steps."""


class _Kept(NamedTuple):
    """A snapshot within the open segment."""

    end: int
    """The offset after the last batch that it includes."""
    position: int
    """The position of the next batch in the segment."""
    snapshot: bytes


class ProducersUnknownError(KafkaError):
    """Producer states can be derived only from batches, and the header of one of these batches is damaged."""

    def __init__(self, offset: int, found: KafkaError) -> None:
        super().__init__(found.code, found.message)
        self.offset = offset
        """The offset of the last readable batch before the damaged one, or the base of its segment."""


def checksum_of(snapshot: bytes) -> int:
    """Returns the checksum of a snapshot without the checksum at its own end.

    Including that, the result would be the same for any content.
    """
    return crc32c.crc32c(snapshot[:-CHECKSUM_BYTES])


class ProducerSnapshots:
    """Reads and writes the snapshots of one log."""

    __slots__ = ("_directory", "_files", "_kept", "keeps_at")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._kept: deque[_Kept] = deque(maxlen=KEPT_MAX)
        """The snapshots within the open segment, the newest last."""
        self.keeps_at = KEEP_BYTES
        """The size of the open segment at which the next snapshot is kept."""

    # within the open segment

    def keep(self, segment: OpenSegment, states: ProducerStates) -> None:
        """Keeps a snapshot at the end of the open segment, unless a truncation can do without."""
        self.keeps_at = segment.size + KEEP_BYTES
        if len(states) <= KEPT_PRODUCERS_MAX and (states.open_transactions or states.has_markers_from(0)):
            self._kept.append(_Kept(segment.end, segment.size, states.snapshot()))

    def on_truncated(self, log_end: int) -> None:
        """Forgets the snapshots that include removed batches of the open segment."""
        while self._kept and self._kept[-1].end > log_end:
            self._kept.pop()
        self.keeps_at = KEEP_BYTES + (self._kept[-1].position if self._kept else 0)

    def on_new_segment(self) -> None:
        """Notes that another segment is the open one."""
        self._kept.clear()
        self.keeps_at = KEEP_BYTES

    # files

    def write(self, log_end: int, states: ProducerStates) -> int:
        """Writes a snapshot for this log end and returns its checksum.

        The file is not synced, because a damaged one is detected. An equal file that exists, and may be on the disk
        already, is left alone.
        """
        if not len(states):
            return NO_PRODUCERS
        data = states.snapshot()
        file = self._files.open(self._path(log_end), create=True)
        try:
            is_there = file.read_at(0, file.size()) == data
        except UnreadableError:
            self.remove(log_end)
            file, is_there = self._files.open(self._path(log_end), create=True), False
        if not is_there:
            file.truncate(0)
            try:
                file.append(data)
            except OSError:
                self.remove(log_end)
                raise
        return checksum_of(data)

    def find(self, log_end: int) -> File | None:
        """Returns the file of the snapshot at this log end; None if it is missing or damaged."""
        return self._files.open(self._path(log_end)) if self.has(log_end) else None

    def has(self, log_end: int) -> bool:
        """Returns whether there is an undamaged snapshot at this log end."""
        return self._read(log_end, None) is not None

    def open_at(self, log_end: int, checksum: int | None) -> list[int] | None:
        """Returns the producers that have an open transaction in the snapshot at this log end. Returns None if there is
        no snapshot, or if it is not the one with this checksum; None stands for any checksum."""
        states = self._read(log_end, checksum)
        return None if states is None else list(states.open_transactions)

    def remove(self, log_end: int) -> None:
        self._files.remove(self._path(log_end))

    def load(
        self,
        sealed: Sequence[SealedSegment],
        open_segment: OpenSegment,
        closed_checksum: int | None,
        completed: dict[int, list[CompletedTransaction]],
    ) -> ProducerStates:
        """Restores the producer states at once. See `loading`."""
        return finish(self.loading(sealed, open_segment, closed_checksum, completed))

    def loading(
        self,
        sealed: Sequence[SealedSegment],
        open_segment: OpenSegment,
        closed_checksum: int | None,
        completed: dict[int, list[CompletedTransaction]],
    ) -> Loading:
        """Restores the producer states from the newest trustworthy snapshot and the batches after it, in steps.

        Also writes snapshots that are missing at the ends of these segments: once the batches are deleted, nothing else
        tells about their producers. `closed_checksum` is the checksum of the snapshot at the log end if the log was
        closed cleanly. `completed` gets the transactions that end in each segment that was read, by its base. Raises
        ProducersUnknownError.
        """
        if self._kept and (states := ProducerStates.restore(self._kept[-1].snapshot)) is not None:
            yield from self._replaying_segment(states, open_segment, self._kept[-1].position)
            return states
        if closed_checksum is not None and (states := self._read(open_segment.end, closed_checksum)) is not None:
            return states
        segments: list[SealedSegment | OpenSegment] = [*sealed, open_segment]
        for index in range(len(sealed), 0, -1):
            before = sealed[index - 1]
            # No snapshot is known to belong to a segment that recovery found and the manifest did not name.
            if before.is_synced and (states := self._read(before.end, before.facts.producers_checksum)) is not None:
                return (yield from self._replaying(states, segments[index:], completed))
        # The segment before the first one is gone, but its last snapshot remains.
        states = self._read(segments[0].base, None) or ProducerStates()
        return (yield from self._replaying(states, segments, completed))

    def completed_in(
        self, sealed: Sequence[SealedSegment], segment: SealedSegment | OpenSegment
    ) -> list[CompletedTransaction]:
        """Returns the transactions that end in the segment, read from its batches. Raises ProducersUnknownError.

        `sealed` are the segments before it. The segment tells where the transactions end. Where they begin may be known
        from a snapshot, or from the batches of the segments before.
        """
        segments = [*sealed, segment]
        states, first = None, len(sealed)
        while states is None and first > 0:
            before = sealed[first - 1]
            states = self._read(before.end, before.facts.producers_checksum)
            first -= states is None
        if states is None:
            states = self._read(segments[0].base, None) or ProducerStates()
        for each in sealed[first:]:
            finish(self._replaying_segment(states, each))
        return finish(self._replaying_segment(states, segment))

    def _read(self, log_end: int, checksum: int | None) -> ProducerStates | None:
        if checksum == NO_PRODUCERS:
            return ProducerStates()
        try:
            data = self._files.read(self._path(log_end))
        except OSError as error:
            if is_out_of_files(error):
                raise
            return None  # missing or unreadable: the batches tell the same
        states = ProducerStates.restore(data)
        if states is None:
            self.remove(log_end)  # torn by a crash; removed so that a later verification does not report it
        return states if checksum in (None, checksum_of(data)) else None

    def _replaying(
        self,
        states: ProducerStates,
        segments: Sequence[SealedSegment | OpenSegment],
        completed: dict[int, list[CompletedTransaction]],
    ) -> Loading:
        for segment in segments:
            completed[segment.base] = yield from self._replaying_segment(states, segment)
            if isinstance(segment, SealedSegment):
                with suppress(OSError):  # a missing snapshot is not an error
                    self._write_missing(segment, states)
        return states

    def _replaying_segment(
        self, states: ProducerStates, segment: SealedSegment | OpenSegment, start: int = 0
    ) -> Generator[None, None, list[CompletedTransaction]]:
        """Replays the batches of a segment from the position `start` on. Returns the transactions that end there."""
        completed: list[CompletedTransaction] = []
        size = segment.size
        if start == size:
            return completed
        offset, end = segment.base, start
        try:
            file = segment.reader.log.get()
            for count, (position, header, _) in enumerate(walk(file, start, size, FAR_BYTES), 1):
                if header.has_producer:
                    self._replay_batch(states, header, file, position, completed)
                offset, end = header.base_offset, position + header.size
                if not count % BATCHES_PER_STEP:
                    yield
            if end < size:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {end} is longer than its segment")
        except KafkaError as error:
            raise ProducersUnknownError(offset, error) from error
        return completed

    def _replay_batch(
        self,
        states: ProducerStates,
        header: BatchHeader,
        file: File,
        position: int,
        completed: list[CompletedTransaction],
    ) -> None:
        if is_marker(header):
            marker = marker_of(header, file.read_at(position, min(header.size, MARKER_BYTES_MAX)))
            if marker is not None and (transaction := states.on_marker(header, marker)) is not None:
                completed.append(transaction)
        elif header.attributes & TRANSACTIONAL:
            states.on_transactional(header)
        elif header.base_sequence >= 0:
            states.on_appended(header)

    def _write_missing(self, segment: SealedSegment, states: ProducerStates) -> None:
        if segment.facts.producers_checksum == NOT_WRITTEN or not self.has(segment.end):
            segment.facts = replace(segment.facts, producers_checksum=self.write(segment.end, states))

    def _path(self, log_end: int) -> str:
        return f"{self._directory}/{file_name(log_end, Kind.PRODUCERS)}"
