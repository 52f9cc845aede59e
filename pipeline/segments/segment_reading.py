"""Reads the batches of a range of offsets from the files of one log, while an SPU may change these files.

Offsets alone decide what belongs to a range. Positions are hints, which save reading. So the rows are right whatever
happens after the query was planned:

- The SPU appends or rolls: the file only grows.
- Compaction replaces the file: the range is found again in the new file, also if that holds several old segments.
- Retention deletes the file: a reader that has it open keeps it. Otherwise `SegmentGoneError` names the segment.
- The log is truncated or damaged: `SegmentError` names the segment and the place.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec import Struct

from tailrace.protocol.batches.control_batches import CONTROL_BATCH_BYTES_MAX, ControlKind, control_kind
from tailrace.protocol.batches.record_batch import CONTROL, HEADER_SIZE, BatchHeader, crc_of, read_header
from tailrace.protocol.batches.transaction_markers import MARKER_BYTES_MAX
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.embedded.plain_files import PlainFile, names_in

from .aborted_spans import AbortedBatches, AbortedSpan
from .segment_columns import BRIDGE, ENTRY_TYPES, EVENT, HOLE, MARKER

CHUNK_BYTES = 4 * 2**20
"""How much is read at once. A larger batch is read as a whole."""
_HEADER_CHUNK_BYTES = 4096
_OPENING_TRIES = 5
_CONTROL_BYTES_MAX = max(CONTROL_BATCH_BYTES_MAX, MARKER_BYTES_MAX)
"""How many bytes of a control batch are read if bodies are not."""

_OFFSET_DIGITS = 20
_LOG = ".log"
_CLEANED_LOG = ".log.cleaned"
"""The names of segments, as `storage/directory/layout.py` makes them. Executors do not have that module."""

_EVENT, _MARKER = ENTRY_TYPES.index(EVENT), ENTRY_TYPES.index(MARKER)
_TYPE_OF_KIND = {ControlKind.HOLE: ENTRY_TYPES.index(HOLE), ControlKind.BRIDGE: ENTRY_TYPES.index(BRIDGE)}


class SegmentError(Exception):
    """A segment cannot be read. The message is for people, and names the segment."""

    def __reduce__(self) -> tuple[type["SegmentError"], tuple[str]]:
        return type(self), (str(self),)


class SegmentGoneError(SegmentError):
    """The records of a range were deleted after the query was planned."""


class SegmentRange(Struct, frozen=True):
    """A range of offsets in one segment, which one task reads."""

    topic: str
    topic_id: str
    partition: int
    directory: str
    base: int
    """The base offset of the segment."""
    start: int
    """The first offset of the range."""
    end: int
    """The offset after the last of the range."""
    position: int = 0
    """Where a batch begins that is at or before `start`, if the segment is as it was."""
    size: int | None = None
    """The size of the sealed segment; None for one to which the SPU may append."""
    is_first: bool = True
    """Whether a batch that begins before `start` belongs to the range, and not to another task's range before."""
    bytes_estimate: int = 0
    """About how many bytes are read, to balance tasks."""
    aborted: tuple[AbortedSpan, ...] = ()
    """The aborted transactions that overlap the range, if their records are to be left out."""

    @property
    def path(self) -> str:
        return _path(self.directory, self.base)

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1} of {self.topic}/{self.partition}"


class ReadBatch(Struct):
    """A batch that was read."""

    position: int
    header: BatchHeader
    entry_type: int
    """The place of its type in `ENTRY_TYPES`."""
    crc_matches: bool | None = None
    """Whether its checksum matches; None if it was not computed."""
    chunk: bytes | None = None
    """The part of the file in which the whole batch lies; None if only its header was read."""
    within: int = 0
    """Where it begins in the chunk."""
    is_aborted: bool = False
    """Whether it belongs to an aborted transaction of the range."""
    control: bytes = b""
    """The whole batch, if it is a control batch."""
    body: bytes | None = None
    """The decompressed records; None for a batch without compression, and until the batch is opened."""

    @property
    def content(self) -> memoryview | None:
        """The whole batch; None if only its header was read."""
        return None if self.chunk is None else memoryview(self.chunk)[self.within : self.within + self.header.size]


class ReadableFile(Protocol):
    """An open file."""

    def size(self) -> int: ...

    def read_at(self, position: int, count: int) -> bytes: ...


OpenFile = Callable[[str], ReadableFile]


class SegmentReading:
    """The reading of one range. Iterating over `batches` reads the files."""

    def __init__(
        self,
        wanted: SegmentRange,
        *,
        header_only: bool = False,
        checks_crc: bool = True,
        open_file: OpenFile = PlainFile,
        list_names: Callable[[str], list[str]] = names_in,
    ) -> None:
        """`header_only`: bodies are not read, unless `checks_crc` needs them. Wrong checksums are reported and raise no
        error then."""
        self._wanted = wanted
        self._header_only = header_only
        self._checks_crc = checks_crc
        self._open_file = open_file
        self._list_names = list_names
        self._path = wanted.path
        self._reached = wanted.start
        self._aborted = AbortedBatches(wanted.aborted)

    def batches(self) -> Iterator[ReadBatch]:
        """Yields the batches of the range in order. Raises SegmentError."""
        wanted = self._wanted
        if wanted.start >= wanted.end:
            return
        try:
            file, position = self._open()
            yield from self._batches_from(file, position)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SegmentError(f"{self._path}: {wanted} cannot be read: {reason}") from error
        if self._reached < wanted.end:
            raise SegmentError(
                f"{self._path} ends at offset {self._reached}, and {wanted} were expected: the log was truncated or "
                "replaced after the query was planned; run the query again"
            )

    # finding the file

    def _open(self) -> tuple[ReadableFile, int]:
        """Opens the file that holds the range. Returns it and a position at or before the first batch."""
        for _ in range(_OPENING_TRIES):
            found = self._open_as_planned()
            if found is not None:
                return found, self._wanted.position if self._is_place(found, self._wanted.position) else 0
            found = self._open_replacement()
            if found is not None:
                return found, 0
        raise self._gone()

    def _open_as_planned(self) -> ReadableFile | None:
        """Returns the file of the segment as it was when the query was planned; None if there is no such file.

        A compacted segment has its new name from the moment at which the manifest names it, or a moment later.
        """
        for suffix in (_LOG, _CLEANED_LOG):
            self._path = _path(self._wanted.directory, self._wanted.base, suffix)
            try:
                file = self._open_file(self._path)
            except FileNotFoundError:
                continue
            if file.size() == self._wanted.size or (self._wanted.size is None and suffix == _LOG):
                return file
        return None

    def _open_replacement(self) -> ReadableFile | None:
        """Returns the file into which compaction has put the segment; None if it is gone again."""
        try:
            names = self._list_names(self._wanted.directory)
        except FileNotFoundError:
            raise self._gone() from None
        bases = [base for name in names if (base := _base_of(name)) is not None and base <= self._wanted.start]
        if not bases:
            raise self._gone()
        self._path = _path(self._wanted.directory, max(bases))
        try:
            return self._open_file(self._path)
        except FileNotFoundError:
            return None

    def _gone(self) -> SegmentGoneError:
        return SegmentGoneError(
            f"{self._wanted.path}: {self._wanted} were deleted after the query was planned; run the query again, or "
            "set failOnDataLoss to false to go on without them"
        )

    def _is_place(self, file: ReadableFile, position: int) -> bool:
        """Returns whether a batch begins at the position, at or before the first offset of the range."""
        if position == 0:
            return True
        try:
            header = read_header(file.read_at(position, HEADER_SIZE))
        except KafkaError:
            return False
        return self._wanted.base <= header.base_offset <= self._wanted.start

    # reading it

    def _batches_from(self, file: ReadableFile, position: int) -> Iterator[ReadBatch]:
        wanted, reads_bodies = self._wanted, self._checks_crc or not self._header_only
        chunk, within, chunk_bytes = b"", 0, CHUNK_BYTES if reads_bodies else _HEADER_CHUNK_BYTES
        end_before = 0
        while self._reached < wanted.end:
            if len(chunk) - within < HEADER_SIZE:
                chunk, within = file.read_at(position, chunk_bytes), 0
                if len(chunk) < HEADER_SIZE:
                    return
            try:
                header = read_header(chunk, within)
            except KafkaError as error:
                raise self._damaged(position, error) from None
            if header.base_offset < end_before:
                raise self._damaged(position, f"offset {header.base_offset} follows offset {end_before - 1}")
            size = header.size
            needed = size if reads_bodies else min(size, _CONTROL_BYTES_MAX if header.is_control else HEADER_SIZE)
            if len(chunk) - within < needed:
                if position + size > file.size():
                    return  # torn, or not written yet
                chunk, within = file.read_at(position, max(chunk_bytes, needed)), 0
                if len(chunk) < needed:
                    return
            if header.base_offset >= wanted.end:
                self._reached = wanted.end
                return
            if header.next_offset > wanted.start and (header.base_offset >= wanted.start or wanted.is_first):
                yield self._batch(position, header, chunk, within, reads_bodies)
            end_before = header.next_offset
            self._reached = max(self._reached, end_before)
            position += size
            within = min(within + size, len(chunk))

    def _batch(self, position: int, header: BatchHeader, chunk: bytes, within: int, has_body: bool) -> ReadBatch:
        entry_type, control = _EVENT, b""
        if header.attributes & CONTROL:
            control = bytes(chunk[within : within + min(header.size, _CONTROL_BYTES_MAX)])
            kind = control_kind(header, chunk, within)
            entry_type = _TYPE_OF_KIND[kind] if kind is not None else _MARKER
        matches = None
        if self._checks_crc:
            matches = crc_of(chunk, within, header.size) == header.crc
            if not matches and not self._header_only:
                raise self._damaged(position, f"the checksum of the batch at offset {header.base_offset} is wrong")
        is_aborted = header in self._aborted
        if has_body and not self._header_only:
            return ReadBatch(position, header, entry_type, matches, chunk, within, is_aborted, control)
        return ReadBatch(position, header, entry_type, matches, is_aborted=is_aborted, control=control)

    def _damaged(self, position: int, reason: object) -> SegmentError:
        return SegmentError(
            f"{self._path} is damaged at position {position}: {reason}; `tailrace log verify` shows what is wrong, and "
            "other replicas have the records"
        )

    def undecodable(self, batch: ReadBatch, reason: object) -> SegmentError:
        """Returns the error for a batch whose records cannot be decoded."""
        return self._damaged(batch.position, reason)


def _path(directory: str, base: int, suffix: str = _LOG) -> str:
    return f"{directory}/{base:0{_OFFSET_DIGITS}}{suffix}"


def _base_of(name: str) -> int | None:
    digits = name.removesuffix(_LOG)
    return int(digits) if digits != name and len(digits) == _OFFSET_DIGITS and digits.isdecimal() else None
