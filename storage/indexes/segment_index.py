"""The two index files of one segment: appended in small pieces, memory-mapped for lookups.

Index files are never synced. A checksum tells whether a file on the disk can be trusted; if not, the index is rebuilt
from the log. Writes use plain calls instead of the map, so that a full disk is an error and not a signal.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import crc32c

from tailrace.storage.directory.layout import Kind, file_name

from . import offset_index, time_index
from .index_entries import IndexEntries
from .offset_index import ENTRY_BYTES
from .open_files import OpenFiles
from .time_index import NO_TIMESTAMP

BUFFERED_ENTRIES_MAX = 32
"""The number of entries that are written together. A write per entry would cost more than the entries save. This
many entries belong to at least 128 KiB of log with the default interval."""
UNWRITTEN_ENTRIES_MAX = 1024
"""The number of entries that are kept in memory for a segment whose index does not fit on the disk. In a segment of
a gigabyte, a lookup then walks over at most a megabyte."""
_NOTHING = memoryview(b"")


class Place(NamedTuple):
    """The start of a batch, as an index entry tells it."""

    relative_offset: int
    position: int
    largest_before: int
    """The largest timestamp of the batches before it."""


BEGINNING = Place(0, 0, NO_TIMESTAMP)
"""The beginning of the segment, for which there is no entry."""


def _place(entry: int, largest_before: int) -> Place:
    return Place(offset_index.relative_offset_of(entry), offset_index.position_of(entry), largest_before)


class SegmentIndex:
    """The offset index and the time index of one segment, in files and in memory."""

    __slots__ = (
        "_base",
        "_directory",
        "_is_verified",
        "_offsets",
        "_open_files",
        "_times",
        "_written",
        "checksum",
        "new",
        "time_checksum",
        "used",
    )

    def __init__(self, open_files: OpenFiles, directory: str, base: int, *, interval_bytes: int) -> None:
        self.checksum = 0
        self.time_checksum = 0
        self.used = False
        self._open_files = open_files
        self._directory = directory
        self._base = base
        self._written = 0
        """The number of entries in the files. The entries in `new` follow them."""
        self.new = IndexEntries(interval_bytes)
        """The entries that are not written yet. It also knows where the next entry is due, so that callers can skip
        the call for most batches."""
        self._offsets: memoryview | None = None
        self._times = _NOTHING
        """The mapped time index. Either both files are mapped, or neither."""
        self._is_verified = True

    # Paths are computed on demand: thousands of idle segments need not keep them in memory.

    @property
    def _offsets_path(self) -> str:
        return f"{self._directory}/{file_name(self._base, Kind.INDEX)}"

    @property
    def _times_path(self) -> str:
        return f"{self._directory}/{file_name(self._base, Kind.TIME_INDEX)}"

    def trust(self, entries: int, checksum: int, time_checksum: int, last_position: int) -> None:
        """Adopts the files as an earlier process left them. They are believed once their checksums match."""
        self._written = entries
        self.checksum = checksum
        self.time_checksum = time_checksum
        self.new.start_after(last_position)
        self._is_verified = entries == 0

    def __len__(self) -> int:
        return self._written + len(self.new)

    @property
    def last_position(self) -> int:
        return self.new.last_position

    # writing

    @property
    def wants_write(self) -> bool:
        return len(self.new.offsets) >= BUFFERED_ENTRIES_MAX

    def write(self) -> None:
        """Writes the buffered entries to the files. If that fails, nothing is lost and the caller may retry."""
        new = self.new
        if not new.offsets:
            return
        files = self._open_files
        position = self._written * ENTRY_BYTES
        offsets, times = new.offsets.tobytes(), new.times.tobytes()
        files.open(self._offsets_path, create=True).write_at(position, offsets)
        files.open(self._times_path, create=True).write_at(position, times)
        self._written += len(new.offsets)
        self.checksum = crc32c.crc32c(offsets, self.checksum)
        self.time_checksum = crc32c.crc32c(times, self.time_checksum)
        self.new = IndexEntries(new.interval_bytes, new.last_position)

    def replace(self, entries: IndexEntries) -> None:
        """Replaces the contents of the files by these entries.

        If the disk is full, some of the entries stay in memory instead, so that the segment can be read. The next
        opening of the segment rebuilds its index.
        """
        self.discard()
        self.new = entries
        try:
            self.write()
        except OSError:
            entries.thin_out(UNWRITTEN_ENTRIES_MAX)

    def truncate(self, position: int) -> None:
        """Removes the entries of batches at or after the position.

        The caller has looked something up before, so the index is sound.
        """
        new = self.new
        kept = offset_index.last_up_to_position(new.offsets, position - 1) + 1
        if kept or not self._written:
            new.keep(kept)
            return
        try:
            self._truncate_files(position)
        except OSError:
            self.make_room()

    def _truncate_files(self, position: int) -> None:
        self._map()
        assert self._offsets is not None
        kept = offset_index.last_up_to_position(self._offsets, position - 1) + 1
        self.new = IndexEntries(self.new.interval_bytes)
        self.new.start_after(offset_index.position_of(self._offsets[kept - 1]) if kept else 0)
        self._written = kept
        self.checksum = crc32c.crc32c(self._offsets[:kept])
        self.time_checksum = crc32c.crc32c(self._times[:kept])
        # Reading a mapped page that was truncated would end the process, so unmap first.
        self.close()
        for path in (self._offsets_path, self._times_path):
            self._open_files.open(path).truncate(kept * ENTRY_BYTES)

    def discard(self) -> None:
        """Empties the index and removes its files."""
        self._open_files.close(self)
        self._open_files.files.remove(self._offsets_path)
        self._open_files.files.remove(self._times_path)
        self.new = IndexEntries(self.new.interval_bytes)
        self._written = self.checksum = self.time_checksum = 0
        self._is_verified = True

    def make_room(self) -> None:
        """Removes the files. The next lookup rebuilds them."""
        self.discard()
        self._is_verified = False

    # lookups

    def ensure_sound(self, rebuild: Callable[[], IndexEntries]) -> bool:
        """Rebuilds the index if its files are missing, short or damaged. Returns False if it had to."""
        if self._is_verified:
            return True
        try:
            sound = self._has(self._offsets_path, self.checksum) and self._has(self._times_path, self.time_checksum)
        except OSError:
            sound = False
        if not sound:
            self.rebuild(rebuild())
        self._is_verified = True
        return sound

    def rebuild(self, entries: IndexEntries) -> None:
        """Replaces an index that does not agree with its log. `entries` come from the log."""
        self.replace(entries)
        self._open_files.on_index_rebuilt(self._offsets_path)

    def _has(self, path: str, checksum: int) -> bool:
        """Returns whether the file has the written entries.

        This reads the file instead of mapping it: a disk error in a mapped page would end the process.
        """
        size = self._written * ENTRY_BYTES
        content = memoryview(self._open_files.files.read(path))[:size]
        return len(content) == size and crc32c.crc32c(content) == checksum

    def before_offset(self, relative_offset: int) -> Place:
        """Returns the start of a batch that lies at or shortly before the offset."""
        return self._find(lambda offsets, _: offset_index.last_at_or_before(offsets, relative_offset))

    def up_to_position(self, position: int) -> Place:
        """Returns the start of a batch that lies at or shortly before the position."""
        return self._find(lambda offsets, _: offset_index.last_up_to_position(offsets, position))

    def before_time(self, timestamp_ms: int) -> Place:
        """Returns the start of a batch before which all timestamps are smaller.

        The first larger timestamp is not far after it.
        """
        return self._find(lambda _, times: time_index.last_before(times, timestamp_ms))

    def _find(self, last: Callable[[Sequence[int], Sequence[int]], int]) -> Place:
        new = self.new
        index = last(new.offsets, new.times)
        if index >= 0:
            return _place(new.offsets[index], new.times[index])
        if not self._written:
            return BEGINNING
        self.used = True
        if self._offsets is None or len(self._offsets) < self._written:
            self._map()
        assert self._offsets is not None
        index = last(self._offsets, self._times)
        return _place(self._offsets[index], self._times[index]) if index >= 0 else BEGINNING

    def _map(self) -> None:
        times, offsets = self._mapped(self._times_path), self._mapped(self._offsets_path)
        self._times, self._offsets = times.cast("q"), offsets.cast("Q")
        self._open_files.opened(self)

    def _mapped(self, path: str) -> memoryview:
        content = self._open_files.open(path).map()
        whole_entries = min(self._written, len(content) // ENTRY_BYTES)
        return content[: whole_entries * ENTRY_BYTES]

    def close(self) -> None:
        self._open_files.close(self)

    def release(self) -> None:
        self._offsets = None
        self._times = _NOTHING
